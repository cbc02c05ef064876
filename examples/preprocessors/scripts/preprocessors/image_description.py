"""Image to a description: format, size, colours, metadata, with Pillow. It does not say what is to be seen.

Reads the preprocessor protocol: {"path": ...} on standard input, text on standard output.
"""

import json
import sys
import warnings
from pathlib import Path

from PIL import ExifTags, Image, UnidentifiedImageError

MAX_PIXELS = 50_000_000  # larger ones are described without a look at their pixels
MAX_VALUE_CHARS = 200
SHOWN_TAGS = {
    "Artist",
    "Copyright",
    "DateTime",
    "ImageDescription",
    "Make",
    "Model",
    "Orientation",
    "Software",
}


def main():
    warnings.simplefilter("ignore", Image.DecompressionBombWarning)
    Image.MAX_IMAGE_PIXELS = None  # our own limit is checked before any pixel is read
    path = Path(json.load(sys.stdin)["path"])
    if not path.stat().st_size:
        sys.exit("the file is empty")
    try:
        with Image.open(path) as image:
            lines = described(image)
    except UnidentifiedImageError:
        sys.exit("not a readable image: unknown format")
    except Exception as error:  # a broken file can make the library raise anything
        sys.exit(f"not a readable image: {error}")
    lines.insert(1, f"file size: {path.stat().st_size} bytes")
    sys.stdout.write("\n".join(lines) + "\n")


def described(image):
    width, height = image.size
    lines = [f"{image.format} image, {width} x {height} pixels, mode {image.mode}"]
    frames = getattr(image, "n_frames", 1)
    if frames > 1:
        lines.append(f"frames: {frames}")
    if image.info.get("dpi", (0, 0))[0] > 1:
        lines.append("resolution: {:.0f} x {:.0f} dpi".format(*image.info["dpi"]))
    for key, value in sorted(image.info.items(), key=lambda item: str(item[0])):
        if isinstance(value, str) and value.strip():
            lines.append(f"{key}: {clipped(value)}")
    if width * height > MAX_PIXELS:
        return [*lines, "pixels and EXIF: not examined, too many pixels"]
    for tag, value in image.getexif().items():
        name = ExifTags.TAGS.get(tag)
        if name in SHOWN_TAGS:
            lines.append(f"EXIF {name}: {clipped(str(value))}")
    return lines + pixels(image)


def pixels(image):
    small = image.convert("RGBA").resize((64, 64), Image.Resampling.BOX)
    opaque = small.convert("RGB")
    red, green, blue = (round(sum(band.tobytes()) / 4096) for band in opaque.split())
    lines = [f"mean colour: #{red:02x}{green:02x}{blue:02x}"]
    spread = [high - low for low, high in opaque.getextrema()]
    if max(spread) == 0:
        lines.append("the image is one plain colour")
    low, high = small.getchannel("A").getextrema()
    if low < 255:
        lines.append("transparent" if high == 0 else "partly transparent")
    return lines


def clipped(text):
    text = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return text if len(text) <= MAX_VALUE_CHARS else text[:MAX_VALUE_CHARS] + "…"


if __name__ == "__main__":
    main()
