"""PowerPoint presentation (.pptx) to text, slide by slide with speaker notes, with python-pptx.

Reads the preprocessor protocol: {"path": ...} on standard input, text on standard output. Shapes come from top
to bottom; tables, the numbers behind charts, and the names of pictures are kept; hidden slides are marked.
"""

import json
import sys
from pathlib import Path

from pptx import Presentation
from pptx.shapes.group import GroupShape

MAX_SLIDES = 500
MAX_SHAPES = 2000  # of a slide
MAX_DEPTH = 20  # groups within groups


def main():
    path = Path(json.load(sys.stdin)["path"])
    with path.open("rb") as stream:
        start = stream.read(8)
    if not start:
        sys.exit("the file is empty")
    if start.startswith(b"\xd0\xcf\x11\xe0"):
        sys.exit("the presentation is encrypted, or an old .ppt file")
    try:
        slides = list(Presentation(str(path)).slides)
        parts = [slide_text(number, slide) for number, slide in enumerate(slides[:MAX_SLIDES], 1)]
    except Exception as error:  # a broken file can make the library raise anything
        sys.exit(f"not a readable .pptx file: {str(error).replace(str(path), path.name)}")
    sys.stdout.write("\n\n".join(parts) + "\n")
    if len(slides) > MAX_SLIDES:
        sys.stdout.write(f"\n(cut: {len(slides) - MAX_SLIDES} more slides)\n")


def slide_text(number, slide):
    hidden = " (hidden)" if slide._element.get("show") == "0" else ""
    title = slide.shapes.title
    name = squeezed(title.text_frame.text) if title is not None and title.has_text_frame else ""
    blocks = [f"## Slide {number}{hidden}" + (f": {name}" if name else "")]
    shapes = [s for s in flat(slide.shapes, 0) if title is None or s.shape_id != title.shape_id]
    for shape in sorted(shapes[:MAX_SHAPES], key=lambda s: (s.top or 0, s.left or 0)):
        text = shape_text(shape)
        if text:
            blocks.append(text)
    if slide.has_notes_slide and slide.notes_slide.notes_text_frame is not None:
        notes = slide.notes_slide.notes_text_frame.text.replace("\v", "\n").strip()
        if notes:
            blocks.append(f"Notes: {notes}")
    return "\n\n".join(blocks)


def flat(shapes, depth):
    """Shapes and, in place of groups, what they hold."""
    for shape in shapes:
        if isinstance(shape, GroupShape):
            if depth < MAX_DEPTH:
                yield from flat(shape.shapes, depth + 1)
        else:
            yield shape


def shape_text(shape):
    if shape.is_placeholder and shape.placeholder_format.type in (13, 15, 16):
        return ""  # slide number, footer and date, the same on every slide
    if getattr(shape, "has_table", False) and shape.has_table:
        rows = [[squeezed(cell.text).replace("|", "\\|") for cell in row.cells] for row in shape.table.rows]
        lines = ["| " + " | ".join(row) + " |" for row in rows]
        lines.insert(1, "|" + " --- |" * len(shape.table.columns))
        return "\n".join(lines)
    if getattr(shape, "has_chart", False) and shape.has_chart:
        return chart_text(shape.chart)
    if shape.has_text_frame:
        lines = [
            "  " * p.level + ("- " if p.level else "") + squeezed(p.text)
            for p in shape.text_frame.paragraphs
            if p.text.strip()
        ]
        return "\n".join(lines)
    if shape.shape_type == 13:
        described = shape._element.nvPicPr.cNvPr.get("descr") or shape.name
        return f"(picture: {squeezed(described)})"
    return ""


def chart_text(chart):
    title = chart.chart_title.text_frame.text if chart.has_title and chart.chart_title.has_text_frame else ""
    lines = [f"(chart{f': {squeezed(title)}' if title else ''})"]
    for plot in chart.plots:
        categories = [str(c) for c in plot.categories]
        if categories:
            lines.append("categories: " + ", ".join(categories))
        lines += [
            f"{s.name}: " + ", ".join("" if v is None else f"{v:.15g}" for v in s.values) for s in plot.series
        ]
    return "\n".join(lines)


def squeezed(text):
    return " ".join(text.split())


if __name__ == "__main__":
    main()
