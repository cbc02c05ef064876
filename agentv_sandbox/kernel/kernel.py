"""Mounts, by system calls: a program for each would cost more than the container."""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Sequence
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
_NOATIME = 0x400

_libc = ctypes.CDLL(None, use_errno=True)


def mount_tmpfs(folder: Path, options: str) -> None:
    """A memory-backed file system at ``folder``. ``options``: its own, as ``mount -o`` has them. Raises OSError."""
    _check(_libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", _NOSUID | _NODEV, options.encode()), folder)


def mount_overlay(folder: Path, lower: Path, below: Path) -> None:
    """The files of ``lower``, then those of ``below``, read-only, with inodes of their own: locks and watches on them
    are seen by nobody else. Raises OSError."""
    mount_layers(folder, [lower, below])


def mount_layers(folder: Path, layers: Sequence[Path]) -> None:
    """The files of two or more folders, the first before the others, read-only, with inodes of their own. Raises
    OSError."""
    _check_paths(*layers)  # without a writable layer the kernel wants two
    options = b"lowerdir=" + b":".join(map(os.fsencode, layers))
    _check(_libc.mount(b"overlay", os.fsencode(folder), b"overlay", _READ_ONLY | _NODEV, options), folder)


def mount_file_system(folder: Path, device: Path, kind: str, options: str) -> None:
    """The file system of a block device, without programs of raised rights and without devices. Raises OSError."""
    flags = _NOSUID | _NODEV | _NOATIME
    _check(
        _libc.mount(os.fsencode(device), os.fsencode(folder), kind.encode(), flags, options.encode()), folder
    )


def sync_file_system(folder: Path) -> None:
    """Carry what was written to the file system at ``folder`` to its disk. Raises OSError, also where something of it
    was lost before; of an overlay whose changes are thrown away it does no more than that."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _check(_libc.syncfs(opened), folder)
    finally:
        os.close(opened)


def mount_writable_overlay(
    folder: Path, lowers: Sequence[Path], upper: Path, work: Path, *, own_namespace: bool
) -> None:
    """The files of ``lowers``, the first before the others, which stay as they are: what is changed comes to ``upper``.
    ``own_namespace``: of a user who is not root, whose marks must be a user's. Raises OSError."""
    _check_paths(*lowers, upper, work)
    layers = b":".join(map(os.fsencode, lowers))
    # All of it is thrown away, so nobody waits until it is on the disk. Whole files are copied before they are
    # changed, and folders are not renamed by a mark: what changed can be read off the files alone.
    options = b"volatile,redirect_dir=off,metacopy=off,index=off,xino=off,lowerdir=" + layers
    if own_namespace:
        options = b"volatile,userxattr,lowerdir=" + layers
    options += b",upperdir=" + os.fsencode(upper) + b",workdir=" + os.fsencode(work)
    flags = _NOSUID | _NODEV | _NOATIME
    _check(_libc.mount(b"overlay", os.fsencode(folder), b"overlay", flags, options), folder)


def _check_paths(*paths: Path) -> None:
    """A path must not be taken apart at its colons or commas."""
    for path in paths:
        if set(str(path)) & set(":,\\"):
            raise OSError(errno.EINVAL, "a path with a colon, a comma or a backslash", str(path))


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
