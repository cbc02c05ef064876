"""What is known of an image in the store, and its configuration in the form that archives have it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

from agentv_sandbox.archives.own_image import config_bytes
from agentv_sandbox.base.dataclass import dataclass
from agentv_sandbox.base.errors import EngineError
from agentv_sandbox.engines.imagesettings import ImageSettings
from agentv_sandbox.models.container import ImageInfo
from agentv_sandbox.models.json.records import JsonRecord
from agentv_sandbox.models.json.untrusted import read_json
from agentv_sandbox.models.json.wire import Found, read


@dataclass(frozen=True, kw_only=True)
class ImageDescription:
    """``image.json``: what the store knows of an image."""

    version: Literal[1] = 1
    info: ImageInfo
    """Without its tags."""
    mount_points: tuple[str, ...] = ()
    """Folders that were added to its files as places for mounts, relative, folders before what is in them."""

    @classmethod
    def read(cls, path: Path) -> ImageDescription | None:
        """None for a file that is damaged, or of a newer version."""
        try:
            return _description(json.loads(path.read_bytes()))
        except (ValueError, TypeError, KeyError, AttributeError):
            return None

    def write(self, path: Path) -> None:
        """In one step for those who read it. One writer at a time."""
        part = path.with_name(f".{path.name}")
        part.write_text(json.dumps(asdict(self)))
        part.replace(path)


def info_of(config: bytes, *, size_bytes: int) -> ImageInfo:
    """The image with this configuration, whoever wrote it. Raises EngineError."""
    document = read(_Configuration, read_json(config), found := Found())
    if found.wrong or not document.architecture:
        raise EngineError("cannot load an image: its configuration is not readable")
    image = ImageInfo(
        id=f"sha256:{hashlib.sha256(config).hexdigest()}",
        size_bytes=size_bytes,
        architecture=document.architecture,
    )
    return document.config.described(image)


class _Configuration(JsonRecord):
    architecture: str
    config: ImageSettings


def config_for(config: bytes, diff_id: str) -> bytes:
    """The configuration for the same files in one layer: the same bytes when it is that already."""
    document: dict[str, Any] = json.loads(config)
    rootfs = {"type": "layers", "diff_ids": [f"sha256:{diff_id}"]}
    if document.get("rootfs") == rootfs:
        return config
    history: list[Mapping[str, Any]] = document.get("history") or [{}]
    layer = {**history[-1], "created_by": "agentv-sandbox"}
    layer.pop("empty_layer", None)
    return config_bytes({**document, "rootfs": rootfs, "history": [layer]})


def _description(document: Any) -> ImageDescription | None:
    """Of what ``write`` wrote: root alone can change it, so that its form is not checked as that of foreign files."""
    if document["version"] != 1:
        return None
    given: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in document["info"].items()
    }
    return ImageDescription(info=ImageInfo(**given), mount_points=tuple(document["mount_points"]))
