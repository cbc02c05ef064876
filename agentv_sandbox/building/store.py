"""Images as a user handles them: list and clean."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from agentv_sandbox.base.errors import EngineError
from agentv_sandbox.engines import LABEL_ENV_KEY, Images
from agentv_sandbox.models.container import ImageInfo
from agentv_sandbox.models.image import ProvedImage, image_tag

LABEL_TREE = "agentv-sandbox.tree"
"""SHA-256 of the installed files."""
LABEL_BASES = "agentv-sandbox.bases"
"""Of an image of a Dockerfile: ``NAME=IMAGE`` of each base that another one stood in for, separated by spaces."""
LABEL_DEPTH = "agentv-sandbox.depth"
"""How many images this one was built on top of, one after the other."""

Kind = Literal["env", "base", "own", "steps"]
_KINDS: Mapping[str, Kind] = {
    "agentv-env": "env",
    "agentv-base": "base",
    "agentv-own": "own",
    "agentv-layer": "steps",
}

_FOLDERS = (
    "blobs",
    "npm-integrity",
    "built",
    "tools",
    "resolutions",
    "proofs",
    "trees",
    "layers",
    "registry",
)
"""Of a cache folder: what can be fetched or made again."""


@dataclass(frozen=True, kw_only=True)
class StoredImage:
    """One image that we made."""

    tag: str
    id: str
    kind: Kind
    size_bytes: int
    key: str
    last_used: datetime | None
    """None when this cache folder knows of no use: another one's image."""


def note_use(cache_dir: Path, *image_ids: str) -> None:
    """Remember that these images were used now; ``clean_images`` goes by it."""
    folder = cache_dir / "used"
    folder.mkdir(parents=True, exist_ok=True)
    for image_id in image_ids:
        (folder / image_id.removeprefix("sha256:")).touch()


def list_images(engine: Images, cache_dir: Path) -> list[StoredImage]:
    """Our images in the engine, most recently used first."""
    images = [
        _stored_image(info, tag, cache_dir) for info in engine.images(LABEL_ENV_KEY) for tag in info.tags
    ]
    ours = [image for image in images if image is not None]
    oldest = datetime.fromtimestamp(0, UTC)
    return sorted(ours, key=lambda image: (image.last_used or oldest, image.tag), reverse=True)


def clean_images(
    engine: Images, cache_dir: Path, *, unused_days: float = 30.0, everything: bool = False
) -> list[StoredImage]:
    """Remove images that were not used for so many days (or all), and cached files of the same age.

    Images that a container still uses stay, and so do those of which ``cache_dir`` knows no use, unless
    ``everything`` is to go: another cache folder may have used them today. Returns what was removed.
    """
    border = time.time() - unused_days * 86400
    removed = []
    for image in list_images(engine, cache_dir):
        if not everything and (image.last_used is None or image.last_used.timestamp() >= border):
            continue
        if _removed(engine, cache_dir, image):
            removed.append(image)
    for folder in _FOLDERS:
        for path in (cache_dir / folder).rglob("*"):
            if path.is_file() and (everything or path.stat().st_mtime < border):
                path.unlink(missing_ok=True)
    return removed


def prune_images(engine: Images, cache_dir: Path, *, max_bytes: int) -> list[StoredImage]:
    """Remove our images, the least recently used first, until the rest take at most ``max_bytes``, layers that they
    share counted for each. Those that a container uses stay. Returns what was removed."""
    images = list_images(engine, cache_dir)
    total = sum(image.size_bytes for image in images)
    removed = []
    for image in reversed(images):
        if total <= max_bytes:
            break
        if _removed(engine, cache_dir, image):
            removed.append(image)
            total -= image.size_bytes
    return removed


def _removed(engine: Images, cache_dir: Path, image: StoredImage) -> bool:
    """False for an image that is in use."""
    try:
        engine.remove_image(image.tag)
    except EngineError:
        return False
    (cache_dir / "used" / image.id.removeprefix("sha256:")).unlink(missing_ok=True)
    return True


def _stored_image(info: ImageInfo, tag: str, cache_dir: Path) -> StoredImage | None:
    name = tag.partition(":")[0]
    kind = _KINDS.get(name)
    if kind is None:
        return None  # an image that somebody made from one of ours inherits its labels
    note = cache_dir / "used" / info.id.removeprefix("sha256:")
    used = datetime.fromtimestamp(note.stat().st_mtime, UTC) if note.exists() else None
    return StoredImage(
        tag=tag,
        id=info.id,
        kind=kind,
        size_bytes=info.size_bytes,
        key=info.labels.get(LABEL_ENV_KEY, ""),
        last_used=used,
    )


def recorded_image(engine: Images, present: ProvedImage, key: str) -> ProvedImage | None:
    """The image with the content ``key``, in which a run proved all that it needed; ``present`` is what the suite has
    now. None when the engine does not have it."""
    info = image_with_key(engine, image_tag(key), key)
    if info is None:
        return None
    return ProvedImage(replace(present, id=info.id, tag=image_tag(key), key=key, reused=True))


def image_with_key(engine: Images, tag: str, key: str) -> ImageInfo | None:
    """The image ``tag`` if it carries ``key``; a tag alone can be moved to any image."""
    info = engine.image(tag)
    return info if info is not None and info.labels.get(LABEL_ENV_KEY) == key else None
