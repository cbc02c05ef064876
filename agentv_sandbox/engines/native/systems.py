"""Systems: a writable copy of an image's files, which is the root of containers that follow each other.

The kernel lays what is changed over the image's files, which stay as they are. The changes are on a file system of
their own, so that they are bounded in bytes and in number of files: on disk where this process is root of the machine
and may use loop devices, else in memory. A system's folder has ``data``, that file system, with ``upper`` and ``work``;
``ours``, what the image lacks of files that an engine adds; and ``root``, all of it together.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from agentv_sandbox.base.errors import EngineError
from agentv_sandbox.engines.native import disks
from agentv_sandbox.engines.stated import HOSTNAME, tmpfs_options
from agentv_sandbox.kernel.kernel import (
    mount_layers,
    mount_tmpfs,
    mount_writable_overlay,
    sync_file_system,
    unmount,
)
from agentv_sandbox.kernel.rootless import is_own_namespace
from agentv_sandbox.models.container import CHANGES, VolumeSpec

DATA, ROOT, OURS, BASE = "data", "root", "ours", "base"
_WORK, _HIDDEN = "work", "hidden"
_HOSTS = f"127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.0.1\t{HOSTNAME}\n"
_CLEAN = "`agentv-sandbox clean --images` removes images and fetched files that are not used."
_SPARE = 16 << 20
"""Bytes of a disk, below which it counts as full."""
_MOST_MEMORY = 2 << 30
"""Of changes that are in memory."""


def make_system(
    folder: Path,
    spec: VolumeSpec,
    *,
    lowers: Sequence[Path],
    hidden: Sequence[str],
    near: Path,
    first_id: int,
) -> None:
    """Fill the new ``folder``. ``lowers``: what the system begins with, the first before the others; ``hidden``: names
    at the top of the last one that are not shown; ``near``: a folder on the disk that takes the changes; ``first_id``:
    of this machine, for the containers' root. Raises OSError, EngineError."""
    data, root, ours = folder / DATA, folder / ROOT, folder / OURS
    for place in (root, ours, ours / "etc", folder / BASE):
        place.mkdir()
        os.chown(place, first_id, first_id)
        place.chmod(0o755)  # whatever the umask is
    hosts = ours / "etc/hosts"
    hosts.write_text(_HOSTS)
    os.chown(hosts, first_id, first_id)
    hosts.chmod(0o644)
    if on_disk():
        _refuse_full(near, spec)
        disks.mount_disk(data, size_bytes=spec.size_bytes, inodes=spec.inodes, near=near)
    elif spec.size_bytes > _MOST_MEMORY:
        raise EngineError(
            f"a system of {spec.size_bytes >> 20} MiB cannot be bounded here: without root of the machine, loop "
            f"devices and {disks.PROGRAM} (of e2fsprogs) it is in memory, where {_MOST_MEMORY >> 20} MiB are the most",
            hint="Lower workspace.system.size_mb, or run as root with e2fsprogs installed.",
        )
    else:
        mount_tmpfs(data, ",".join(tmpfs_options(spec)))
    for name, owner, mode in ((CHANGES, first_id, 0o755), (_WORK, 0, 0o700)):
        (data / name).mkdir()
        os.chown(data / name, owner, owner)
        (data / name).chmod(mode)
    # Below the image: an image's own file is the one that is seen.
    layers = [*lowers, ours]
    if hidden:
        layers.insert(len(lowers) - 1, _without(folder / _HIDDEN, hidden, of=lowers[-1]))
    mount_layers(folder / BASE, layers)
    mount_writable_overlay(root, layers, data / CHANGES, data / _WORK, own_namespace=is_own_namespace())


def _without(folder: Path, names: Sequence[str], *, of: Path) -> Path:
    """``folder`` as a layer that hides ``names`` of the one below it, ``of``."""
    below = of.stat()
    folder.mkdir()
    os.chown(folder, below.st_uid, below.st_gid)
    folder.chmod(stat.S_IMODE(below.st_mode))
    for name in names:
        os.mknod(folder / name, stat.S_IFCHR, os.makedev(0, 0))
    return folder


def on_disk() -> bool:
    """Whether what is changed lies on disk; in memory otherwise."""
    return disks.can_make() and not is_own_namespace()


def refuse_lost(folder: Path, near: Path) -> None:
    """Raise EngineError where the disk of ``near`` had no room for all that was written to the system in ``folder``.
    Programs in it hear nothing of that: a file system that grows with its contents says yes before the disk does."""
    if not on_disk():
        return
    room, own = os.statvfs(near), os.statvfs(folder / DATA)
    free = room.f_bavail * room.f_frsize
    try:
        if free < (own.f_blocks - own.f_bfree) * own.f_frsize + _SPARE:  # else all of it has a place
            sync_file_system(folder / DATA)
        sync_file_system(folder / ROOT)
        is_lost = free < _SPARE
    except OSError:
        is_lost = True
    if is_lost:
        raise EngineError(
            f"the disk of {near} is full, so that what was written in a whole-system workspace may be lost",
            hint=_CLEAN,
        )


def lay_over(folder: Path, lowers: Sequence[Path], *, owner: int, mode: int) -> None:
    """Make the volume in ``folder`` one that begins with the files of ``lowers``. Raises OSError."""
    data, root = folder / DATA, folder / ROOT
    for place, whose, may in ((data / CHANGES, owner, mode), (data / _WORK, 0, 0o700), (root, owner, mode)):
        place.mkdir()
        os.chown(place, whose, whose)
        place.chmod(may)  # whatever the umask is
    mount_writable_overlay(root, lowers, data / CHANGES, data / _WORK, own_namespace=is_own_namespace())


def end_system(folder: Path) -> None:
    """Unmount what ``make_system`` mounted, however much of it is there. Raises OSError."""
    if not (folder / ROOT).is_dir():
        return
    for place in (ROOT, BASE):
        unmount(folder / place)
    with suppress(OSError):
        if (folder / DATA).is_mount() and (folder / DATA / _WORK).is_dir():
            disks.drop_unwritten(folder / DATA)


def _refuse_full(near: Path, spec: VolumeSpec) -> None:
    """A disk that is nearly full would fail in the middle of a test, and look like the agent's fault."""
    room = os.statvfs(near)
    free, needed = room.f_bavail * room.f_frsize, min(spec.size_bytes, 256 << 20)
    if free < needed:
        raise EngineError(
            f"the disk of {near} has {free >> 20} MiB left, too few for a whole-system workspace", hint=_CLEAN
        )
