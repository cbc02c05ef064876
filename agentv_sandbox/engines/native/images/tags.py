"""Names of images: each a link in one folder that holds the id, so that it is read and changed in one step."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, unquote

from agentv_sandbox.base.errors import EngineError
from agentv_sandbox.base.logs import safe_name

_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./:-]{0,199}")


class Tags:
    """Changed by one at a time, which the caller sees to."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, tag: str) -> str:
        """The id in hexadecimal; empty for a name that there is not."""
        try:
            return self._path(full_tag(tag)).readlink().name
        except (OSError, EngineError):
            return ""

    def set(self, tag: str, image_id: str) -> None:
        part = self._folder / ".new"
        part.unlink(missing_ok=True)
        part.symlink_to(f"../images/{image_id}")
        part.replace(self._path(tag))

    def remove(self, tag: str) -> None:
        self._path(tag).unlink(missing_ok=True)

    def by_id(self) -> dict[str, tuple[str, ...]]:
        tags: dict[str, tuple[str, ...]] = {}
        with os.scandir(self._folder) as entries:
            names = sorted(entry.name for entry in entries if not entry.name.startswith("."))
        for name in names:
            with suppress(OSError):
                # Each start of a container looks here: a text is read in a fifth of the time of a Path.
                image_id = os.readlink(f"{self._folder}/{name}").rpartition("/")[2]  # noqa: PTH115
                tags[image_id] = (*tags.get(image_id, ()), unquote(name))
        return tags

    def _path(self, tag: str) -> Path:
        return self._folder / quote(tag, safe="")


def full_tag(tag: str) -> str:
    """``name:version``; the version is ``latest`` where none is given. Raises EngineError."""
    if not _TAG.fullmatch(tag):
        raise EngineError(f"{safe_name(tag, limit=300)} is not the name of an image")
    return tag if ":" in tag.rpartition("/")[2] else f"{tag}:latest"
