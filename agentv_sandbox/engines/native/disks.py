"""A file system of a bounded size, on disk: ext4 in a file that has no name, by a loop device.

The file goes with the mount, whoever ends it, and takes no more of the disk than was written. It has neither a journal
nor room for root, so all of its size is there for its user.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agentv_sandbox.base import hostprograms
from agentv_sandbox.base.logs import safe_text
from agentv_sandbox.kernel.kernel import mount_file_system

PROGRAM = "mkfs.ext4"
_CONTROL = Path("/dev/loop-control")
_GET_FREE, _CONFIGURE = 0x4C82, 0x4C0A
_AUTOCLEAR, _DIRECT_IO = 4, 16
_SHUTDOWN, _DROP_ALL = 0x8004587D, 2
_INODE_BYTES = 256
_OVERHEAD = 4 << 20
"""Bitmaps and descriptors of groups."""
_WORTH_IT = 64 << 20
_TRIES = 50
"""Of finding a free device: others look for one, too."""


def can_make() -> bool:
    """Whether this process may use loop devices, and the program that makes file systems is here."""
    return os.access(_CONTROL, os.R_OK | os.W_OK) and _program() is not None


def mount_disk(folder: Path, *, size_bytes: int, inodes: int, near: Path) -> None:
    """An empty file system with room for ``size_bytes`` and ``inodes`` at ``folder``. Its file is on the disk of the
    folder ``near``. Raises OSError."""
    with _nameless(near) as file:
        # Bytes that are never written take no room, so the tables of inodes cost nothing until they are used.
        os.ftruncate(file, _rounded(size_bytes + inodes * _INODE_BYTES + _OVERHEAD + size_bytes // 1000))
        _format(file, inodes)
        with _loop_device(file) as device:
            mount_file_system(folder, device, "ext4", "errors=continue")


def drop_unwritten(folder: Path) -> None:
    """Forget what is not on the disk yet of the file system at ``folder``, which is about to be unmounted: else all
    that was written to it would first be carried to a file that nobody can read any more. The kernel's log says so,
    so it is done where it is worth it."""
    with suppress(OSError):
        room = os.statvfs(folder)
        if (room.f_blocks - room.f_bfree) * room.f_frsize < _WORTH_IT:
            return
        root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.ioctl(root, _SHUTDOWN, struct.pack("=I", _DROP_ALL))
        finally:
            os.close(root)


@contextmanager
def _nameless(near: Path) -> Iterator[int]:
    file = os.open(near, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        yield file
    finally:
        os.close(file)


def _format(file: int, inodes: int) -> None:
    argv = [
        _program() or PROGRAM,
        "-q",
        "-F",
        "-m",
        "0",
        "-b",
        "4096",
        "-N",
        str(inodes),
        "-I",
        str(_INODE_BYTES),
    ]
    argv += ["-O", "^has_journal,^resize_inode", "-E", "lazy_itable_init=1,nodiscard"]
    made = hostprograms.run(hostprograms.FILE_SYSTEM_TOOL, [*argv, f"/proc/self/fd/{file}"], pass_fds=(file,))
    if made.returncode != 0:
        said = safe_text(made.stderr.decode("utf-8", "replace").strip(), limit=300)
        raise OSError(errno.EIO, f"{PROGRAM} failed: {said}")


@contextmanager
def _loop_device(file: int) -> Iterator[Path]:
    """A device of the file's bytes, which is let go of when nothing has it mounted or open any more."""
    for _ in range(_TRIES):
        control = os.open(_CONTROL, os.O_RDWR | os.O_CLOEXEC)
        try:
            path = Path(f"/dev/loop{fcntl.ioctl(control, _GET_FREE)}")
        finally:
            os.close(control)
        device = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.ioctl(device, _CONFIGURE, _configuration(file, _AUTOCLEAR | _DIRECT_IO))
        except OSError as error:
            os.close(device)
            if error.errno == errno.EBUSY:
                continue
            raise
        try:
            yield path
        finally:
            os.close(device)
        return
    raise OSError(errno.EBUSY, "no loop device is free")


def _configuration(file: int, flags: int) -> bytes:
    """``struct loop_config``: descriptor, block size, then ``struct loop_info64``, of which only the flags are said."""
    info = struct.pack("=QQQQQIIII", 0, 0, 0, 0, 0, 0, 0, 0, flags).ljust(232, b"\0")
    return struct.pack("=II", file, 4096) + info + bytes(64)


def _program() -> str | None:
    return hostprograms.find_program(PROGRAM, more=("/usr/sbin", "/sbin"))


def _rounded(size: int) -> int:
    return -(-size // (1 << 20)) << 20
