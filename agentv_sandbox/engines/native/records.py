"""What is known of containers, on disk, so that any process can find and remove what a dead one left."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, field
from pathlib import Path
from typing import Any

from agentv_sandbox.base.dataclass import dataclass
from agentv_sandbox.engines.native.staging import remove_small
from agentv_sandbox.kernel.kernel import mount_devices, mount_overlay, mount_writable_overlay, unmount
from agentv_sandbox.kernel.rootless import is_own_namespace


@dataclass(frozen=True, kw_only=True)
class Record:
    """One container, from before it is made until it is removed."""

    labels: Mapping[str, str]
    image: str
    """Full id."""
    volumes: Mapping[str, str] = field(default_factory=dict)
    """Names of volumes by their path in the container."""
    rootfs: str = ""
    """Files of its own, to be removed with it: its whole root file system, or what it changed of its image's."""
    layered: bool = False
    """Whether it is the second."""
    mount_points: Sequence[str] = ()
    """Folders that were added to it for mounts."""
    images: Sequence[str] = ()
    """Full ids of images that are mounted in it."""


class Records:
    """Below ``folder``: a folder for each container, with the runtime's bundle, and beside it what is known of it."""

    def __init__(self, folder: Path, *, group: int) -> None:
        """``group``: of this machine, that may pass through the folders."""
        self._folder, self._group = folder, group

    def folder(self, name: str) -> Path:
        return self._folder / name

    def add(self, name: str, record: Record) -> None:
        """Known with its labels from the first moment, or nobody could say whose it is when this process is killed."""
        write_new(record_file(self.folder(name)), asdict(record))
        folder = self.folder(name)
        folder.mkdir(mode=0o710)
        os.chown(folder, 0, self._group)  # containers' root passes through, to what is mounted here
        folder.chmod(0o710)

    def make_root(self, name: str, rootfs: Path) -> Path:
        """The files of ``rootfs``, read-only, as nobody else sees them: locks and watches on a shared inode are shared.
        Raises OSError."""
        empty, root = self.folder(name) / "empty", self.root(name)
        for place in (empty, root):
            place.mkdir(mode=0o755)
        mount_overlay(root, rootfs, empty)
        return root

    def make_writable_root(self, name: str, rootfs: Path, own: Path) -> Path:
        """The files of ``rootfs``, and over them, in the new folder ``own``, what will be changed. Raises OSError."""
        known, root = rootfs.stat(), self.root(name)
        own.mkdir()
        own.chmod(0o700)  # whatever the umask is; below it there may be setuid bits
        for place in (changes_in(own), own / _WORK, root):
            place.mkdir()
        os.chown(changes_in(own), known.st_uid, known.st_gid)
        changes_in(own).chmod(0o755)
        mount_writable_overlay(root, [rootfs], changes_in(own), own / _WORK, own_namespace=is_own_namespace())
        return root

    def root(self, name: str) -> Path:
        """Where the files of a container are put together."""
        return self.folder(name) / "root"

    def make_view(self, name: str, number: int, first: Path, second: Path) -> Path:
        """The files of two folders, those of ``first`` before those of ``second``, as ``make_root``. Raises OSError."""
        view = self.folder(name) / f"{_VIEW}{number}"
        view.mkdir(mode=0o755)
        mount_overlay(view, first, second)
        return view

    def make_image_view(self, name: str, number: int, rootfs: Path) -> Path:
        """The files of another image, as ``make_root``. Raises OSError."""
        empty, view = self.folder(name) / f"{_EMPTY}{number}", self.folder(name) / f"{_VIEW}{number}"
        for place in (empty, view):
            place.mkdir(mode=0o755)
        mount_overlay(view, rootfs, empty)
        return view

    def make_devices(self, name: str) -> Path:
        """A /dev that nobody else has. Raises OSError."""
        devices = self.folder(name) / "dev"
        devices.mkdir(mode=0o755)
        mount_devices(devices, self._group)
        return devices

    def change(self, name: str, record: Record) -> None:
        changed = self.folder(name) / "record"  # goes with the folder, whenever this process ends
        changed.write_text(json.dumps(asdict(record)))
        changed.replace(record_file(self.folder(name)))

    def get(self, name: str) -> Record | None:
        data = read_json(record_file(self.folder(name)))
        try:
            return None if data is None else Record(**data)
        except TypeError:  # of another version of this program
            return Record(labels={}, image="")

    def remove(self, name: str) -> None:
        """Also what is mounted in its folder. Raises OSError."""
        folder = self.folder(name)
        for place in (folder / "root", folder / "dev", *folder.glob(f"{_VIEW}*")):
            unmount(place)
        remove_small(self.folder(name))
        record_file(self.folder(name)).unlink(
            missing_ok=True
        )  # last: what could not be removed is still known

    def all(self) -> Iterator[tuple[str, Record]]:
        """Also containers of which nothing more was made."""
        for name in self.names():
            yield name, self.get(name) or Record(labels={}, image="")

    def names(self) -> list[str]:
        return recorded(self._folder)


def changes_in(own: Path) -> Path:
    """Of a container's own files: what it changed of its image's."""
    return own / "changes"


_WORK = "work"
_VIEW, _EMPTY = "view-", "empty-"
_MARK = "~"
"""No character of names."""


def record_file(folder: Path) -> Path:
    """Where what is known of a folder stands: there before it, and until it is gone."""
    return folder.with_name(folder.name + _MARK)


def recorded(place: Path) -> list[str]:
    """Names of the folders in ``place`` that have a record, sorted."""
    try:
        return sorted(
            entry.name.removesuffix(_MARK) for entry in place.iterdir() if entry.name.endswith(_MARK)
        )
    except FileNotFoundError:
        return []


def write_new(path: Path, data: object) -> None:
    """A file that is there at once with all that it holds; of a process that is killed before, nothing is left. Raises
    OSError, FileExistsError where there is one."""
    try:
        fd = os.open(path.parent, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR):  # a file system that has no nameless files
            raise
        write_json(path, data)
        return
    with os.fdopen(fd, "w") as file:
        json.dump(data, file)
        file.flush()
        # With a descriptor, whatever it is, this is linkat, which follows the link.
        os.link(f"/proc/self/fd/{fd}", path, src_dir_fd=fd)


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
