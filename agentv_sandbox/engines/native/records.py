"""What is known of containers, on disk, so that any process can find and remove what a dead one left."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from agentv_sandbox.engines.native.kernel import mount_devices, mount_overlay, unmount


@dataclass(frozen=True, kw_only=True)
class Record:
    """One container, from before it is made until it is removed."""

    labels: Mapping[str, str]
    image: str
    """Full id."""
    volumes: Mapping[str, str] = field(default_factory=dict)
    """Names of volumes by their path in the container."""
    rootfs: str = ""
    """A root file system of its own, to be removed with it."""
    mount_points: Sequence[str] = ()
    """Folders that were added to it for mounts."""


class Records:
    """Folders below ``folder``, one a container; each holds the runtime's bundle besides."""

    _NAME = "record.json"

    def __init__(self, folder: Path, *, group: int) -> None:
        """``group``: of this machine, that may pass through the folders."""
        self._folder, self._group = folder, group

    def folder(self, name: str) -> Path:
        return self._folder / name

    def add(self, name: str, record: Record) -> None:
        """Known with its labels from the first moment, or `clean` would take it for a dead one's."""
        folder = self._folder / f".{name}"
        folder.mkdir(mode=0o710)
        os.chown(folder, 0, self._group)  # containers' root passes through, to what is mounted here
        folder.chmod(0o710)
        write_json(folder / self._NAME, asdict(record))
        folder.rename(self.folder(name))

    def make_root(self, name: str, rootfs: Path) -> Path:
        """The files of ``rootfs``, read-only, as nobody else sees them: locks and watches on a shared inode are shared.
        Raises OSError."""
        empty, root = self.folder(name) / "empty", self.folder(name) / "root"
        for place in (empty, root):
            place.mkdir(mode=0o755)
        mount_overlay(root, rootfs, empty)
        return root

    def make_devices(self, name: str) -> Path:
        """A /dev that nobody else has. Raises OSError."""
        devices = self.folder(name) / "dev"
        devices.mkdir(mode=0o755)
        mount_devices(devices, self._group)
        return devices

    def change(self, name: str, record: Record) -> None:
        write_json(self.folder(name) / self._NAME, asdict(record))

    def get(self, name: str) -> Record | None:
        data = read_json(self.folder(name) / self._NAME)
        try:
            return None if data is None else Record(**data)
        except TypeError:  # of another version of this program
            return Record(labels={}, image="")

    def remove(self, name: str) -> None:
        """Also what is mounted in its folder. Raises OSError."""
        for place in ("root", "dev"):
            unmount(self.folder(name) / place)
        shutil.rmtree(self.folder(name), ignore_errors=True)

    def all(self) -> Iterator[tuple[str, Record]]:
        """Also containers of which no more than the folder was made."""
        with suppress(FileNotFoundError):
            for entry in sorted(self._folder.glob("[!.]*")):
                yield entry.name, self.get(entry.name) or Record(labels={}, image="")


def write_json(path: Path, data: object) -> None:
    """Whole or not at all, for those who read it meanwhile."""
    part = path.with_name(f".{path.name}")
    part.write_text(json.dumps(data))
    part.replace(path)


def read_json(path: Path) -> Any:
    """None where there is none that can be read."""
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None
