"""Labels of built images, and the look-up of an image by what it was built from."""

from __future__ import annotations

from dataclasses import replace

from agentv_sandbox.engines import LABEL_ENV_KEY, Images
from agentv_sandbox.models.container import ImageInfo
from agentv_sandbox.models.image import ProvedImage, image_tag

LABEL_TREE = "agentv-sandbox.tree"
"""SHA-256 of the installed files."""
LABEL_DEPTH = "agentv-sandbox.depth"
"""How many images this one was built on top of, one after the other."""


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
