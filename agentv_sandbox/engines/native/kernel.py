"""Mounts, by system calls: a program for each would cost more than the container."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from pathlib import Path

_READ_ONLY, _NOSUID, _NODEV, _NOEXEC = 1, 2, 4, 8
_DEVICES = {
    "null": (1, 3),
    "zero": (1, 5),
    "full": (1, 7),
    "random": (1, 8),
    "urandom": (1, 9),
    "tty": (5, 0),
}
_DEVICE_FOLDERS = ("pts", "shm", "mqueue")
_DEVICE_LINKS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
    "core": "/proc/kcore",
}
_BIND, _DETACH, _NOFOLLOW = 0x1000, 2, 8

_libc = ctypes.CDLL(None, use_errno=True)


def mount_tmpfs(folder: Path, options: str) -> None:
    """A memory-backed file system at ``folder``. ``options``: its own, as ``mount -o`` has them. Raises OSError."""
    _check(_libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", _NOSUID | _NODEV, options.encode()), folder)


def mount_overlay(folder: Path, lower: Path, below: Path) -> None:
    """The files of ``lower``, then those of ``below``, read-only, with inodes of their own: locks and watches on them
    are seen by nobody else. Raises OSError."""
    # Without a writable layer the kernel wants two; a path must not be taken apart at its colons or commas.
    for path in (lower, below):
        if set(str(path)) & set(":,\\"):
            raise OSError(errno.EINVAL, "a path with a colon, a comma or a backslash", str(path))
    options = b"lowerdir=" + os.fsencode(lower) + b":" + os.fsencode(below)
    _check(_libc.mount(b"overlay", os.fsencode(folder), b"overlay", _READ_ONLY | _NODEV, options), folder)


def mount_devices(folder: Path, owner: int) -> None:
    """A /dev of its own, with the nodes that every program may use, and places for what is mounted below it.

    Without root of the machine no nodes can be made: there they are the machine's own, whose locks everybody shares.
    """
    options = f"size=65536,nr_inodes=64,mode=755,uid={owner},gid={owner}"
    _check(_libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", _NOSUID | _NOEXEC, options.encode()), folder)
    for name, (major, minor) in _DEVICES.items():
        path = folder / name
        try:
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(major, minor))
        except PermissionError:
            path.touch()
            _check(_libc.mount(f"/dev/{name}".encode(), os.fsencode(path), None, _BIND, None), path)
            continue
        path.chmod(0o666)
        os.chown(path, owner, owner)
    for name in _DEVICE_FOLDERS:
        (folder / name).mkdir()
        os.chown(folder / name, owner, owner)
    (folder / "shm").chmod(0o1777)  # runc gives a tmpfs the mode of the folder below it
    for name, target in _DEVICE_LINKS.items():
        (folder / name).symlink_to(target)


def unmount(folder: Path) -> None:
    """End the mount at ``folder`` when its last user is gone; nothing where there is none. Raises OSError."""
    try:
        _check(_libc.umount2(os.fsencode(folder), _DETACH | _NOFOLLOW), folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOENT):
            raise


def _check(result: int, folder: Path) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(folder))
