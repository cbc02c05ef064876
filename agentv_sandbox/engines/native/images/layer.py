"""The files of an image as one layer: the same bytes for the same files, whenever and wherever they are read."""

from __future__ import annotations

import os
import stat
import tarfile
from collections.abc import Collection, Iterator

from agentv_sandbox.archives.rooted import (
    LAST_ID,
    NOBODY,
    FoundFile,
    RootedFolder,
    shown,
)
from agentv_sandbox.archives.untrusted_tar import MAX_BYTES
from agentv_sandbox.base.errors import EngineError

_CHUNK = 1 << 20
_KINDS = {
    stat.S_IFDIR: tarfile.DIRTYPE,
    stat.S_IFLNK: tarfile.SYMTYPE,
    stat.S_IFREG: tarfile.REGTYPE,
    stat.S_IFIFO: tarfile.FIFOTYPE,
}
_SHORT_NAME = 99
"""Bytes of a name that fits into a header."""


class Layer:
    """What is below ``folder`` now as a tar file, owners ``shift`` lower than on the disk. Sockets and devices are
    left out, and so are the paths of ``leave_out``. Raises EngineError."""

    def __init__(self, folder: RootedFolder, *, shift: int, leave_out: Collection[str] = ()) -> None:
        self._folder = folder
        self._shift = shift
        self._members = self._sorted_members(leave_out)
        self.content_bytes = sum(member.size for member in self._members)
        """Of all files, each counted once however many names it has."""
        if self.content_bytes > MAX_BYTES:
            raise EngineError(f"the files of the image take more than {MAX_BYTES >> 30} GiB")
        blocks = sum(_header_bytes(member) + _padded(member.size) for member in self._members)
        end = 2 * tarfile.BLOCKSIZE
        self.size = -(-(blocks + end) // tarfile.RECORDSIZE) * tarfile.RECORDSIZE
        """Bytes of the tar file."""

    def __iter__(self) -> Iterator[bytes]:
        written = 0
        for member in self._members:
            header = _header(member)
            written += len(header) + _padded(member.size)
            yield header
            if member.size:
                yield from self._content(member)
        yield b"\0" * (self.size - written)

    def _sorted_members(self, leave_out: Collection[str]) -> list[tarfile.TarInfo]:
        """In the order of their paths; hard links at the end, since a link has to follow its file."""
        files = [file for file in self._folder.found() if file.path not in leave_out]
        files.sort(key=lambda file: file.path)
        plain, links = [], []
        first_names: dict[tuple[int, int], str] = {}
        for file in files:
            member = self._member(file)
            if member is None:
                continue
            if member.isreg() and file.stat.st_nlink > 1:
                first = first_names.setdefault((file.stat.st_dev, file.stat.st_ino), file.path)
                if first != file.path:
                    member.type, member.size, member.linkname = tarfile.LNKTYPE, 0, first
                    links.append(member)
                    continue
            plain.append(member)
        return plain + links

    def _member(self, file: FoundFile) -> tarfile.TarInfo | None:
        kind = _KINDS.get(stat.S_IFMT(file.stat.st_mode))
        if kind is None:
            return None
        member = tarfile.TarInfo(file.path)
        member.type, member.mode = kind, stat.S_IMODE(file.stat.st_mode)
        member.uid, member.gid = self._inside(file.stat.st_uid), self._inside(file.stat.st_gid)
        member.mtime = file.stat.st_mtime_ns // 1_000_000_000
        member.size = file.stat.st_size if kind == tarfile.REGTYPE else 0
        member.linkname = self._folder.link(file.path) if kind == tarfile.SYMTYPE else ""
        return member

    def _inside(self, host_id: int) -> int:
        inside = host_id - self._shift
        return inside if 0 <= inside <= LAST_ID else NOBODY

    def _content(self, member: tarfile.TarInfo) -> Iterator[bytes]:
        left = member.size
        with self._folder.file(member.name) as file:
            while left:
                chunk = file.read(min(left, _CHUNK))
                if not chunk:
                    raise EngineError(f"{shown(member.name)} became shorter while it was read")
                left -= len(chunk)
                yield chunk
        yield b"\0" * (-member.size % tarfile.BLOCKSIZE)


def _padded(size: int) -> int:
    return -(-size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE


def _header(member: tarfile.TarInfo) -> bytes:
    return member.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape")


def _header_bytes(member: tarfile.TarInfo) -> int:
    if max(len(os.fsencode(member.name)), len(os.fsencode(member.linkname))) < _SHORT_NAME:
        return tarfile.BLOCKSIZE
    return len(_header(member))
