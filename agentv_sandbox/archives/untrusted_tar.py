"""Tar files whoever wrote them, read within bounds: bytes, members, headers, nesting.

What ``tarfile`` does with them is bounded too: it reads headers of any size and number into memory, follows sparse
maps, and takes time quadratic in the length of an extended header.
"""

from __future__ import annotations

import gzip
import re
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any

MAX_BYTES = 64 << 30
"""Of all members together: a small file must not fill the disk."""
_MAX_HEADER = 1 << 20
_MAX_HEADERS = 64 << 20
_MAX_MEMBERS = 500_000
_MAX_CHAIN = 8
_MAX_GLOBAL = 4096
_MANY_DIGITS = re.compile(rb"[0-9]{257}")


class ArchiveError(Exception):
    """Not an archive of the kind that was expected."""


@contextmanager
def archive_errors(what: str) -> Iterator[None]:
    """Whatever reading an archive of anybody's can raise as an ``ArchiveError``; the disk's own errors stay."""
    try:
        yield
    except OSError as error:
        if not isinstance(error, gzip.BadGzipFile):
            raise
        raise ArchiveError(f"{what} cannot be read: {error}") from error
    except (
        tarfile.TarError,
        EOFError,
        zlib.error,
        ValueError,
        LookupError,
        OverflowError,
        TypeError,
        RecursionError,
    ) as error:
        raise ArchiveError(f"{what} cannot be read: {error}") from error


class ReadBudget:
    """What all tar files of one archive may take together."""

    def __init__(self) -> None:
        self._members = _MAX_MEMBERS
        self._headers = _MAX_HEADERS
        self._bytes = MAX_BYTES

    def take_member(self) -> None:
        self._members -= 1
        if self._members < 0:
            raise tarfile.ReadError(f"it has more than {_MAX_MEMBERS:,} members")

    def take_header(self, size: int) -> None:
        self._headers -= size
        if size > _MAX_HEADER or self._headers < 0:
            raise tarfile.ReadError(f"a header of {size} bytes, or too many")

    def take_bytes(self, size: int) -> None:
        """Raises ``ArchiveError``."""
        self._bytes -= size
        if self._bytes < 0:
            raise ArchiveError(
                f"it holds more than {MAX_BYTES >> 30} GiB, or more than the disk has room for"
            )


class ForeignTar(tarfile.TarFile):
    """A tar file of anybody's; ``reading`` opens one."""

    def __init__(self, *args: Any, budget: ReadBudget, **options: Any) -> None:
        self.budget = budget
        self.chain = 0
        super().__init__(*args, **(options | {"tarinfo": _BoundedMember}))

    @classmethod
    def reading(cls, file: IO[bytes], budget: ReadBudget, *, stream: bool = False) -> ForeignTar:
        """``file`` as a tar file without compression; a ``stream`` cannot seek."""
        options: dict[str, Any] = {"mode": "r|" if stream else "r:", "budget": budget}
        return cls.open(fileobj=file, **options)


class _BoundedMember(tarfile.TarInfo):
    """A member whose headers were checked before the library reads them."""

    def _proc_member(self, archive: ForeignTar) -> tarfile.TarInfo:
        if self.size < 0:
            raise tarfile.ReadError("a member of a negative size")
        header = (*tarfile.GNU_TYPES, tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)
        if self.type in header:
            archive.budget.take_header(self.size)
        if self.type == tarfile.XGLTYPE and (self.size > _MAX_GLOBAL or archive.pax_headers):
            raise tarfile.ReadError("more than one global header, or a long one")
        archive.budget.take_member()
        archive.chain += 1
        if archive.chain > _MAX_CHAIN:
            raise tarfile.ReadError("headers that describe headers")
        member: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]
        archive.chain = 0
        if member.size < 0 or (member.size and not member.isreg()):
            raise tarfile.ReadError("a member of an impossible size")
        # Kept for each of them otherwise, and of no use here.
        member.pax_headers = _NO_HEADERS
        member.uname = member.gname = ""
        return member

    def _proc_pax(self, archive: ForeignTar) -> tarfile.TarInfo:
        data = archive.fileobj.read(self._block(self.size))  # type: ignore[attr-defined]
        _check_records(data[: self.size])
        archive.fileobj = _Replay(archive, data)  # type: ignore[assignment]
        member: tarfile.TarInfo = super()._proc_pax(archive)  # type: ignore[misc]
        return member

    def _refuse_sparse(self, *_: object) -> tarfile.TarInfo:
        raise tarfile.ReadError("a file with holes")

    _proc_sparse = _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _refuse_sparse


_NO_HEADERS: dict[str, str] = {}


class _Replay:
    """Gives back once what was read of an archive to check it."""

    def __init__(self, archive: ForeignTar, data: bytes) -> None:
        self._archive, self._file, self._data = archive, archive.fileobj, data

    def read(self, _size: int) -> bytes:
        self._archive.fileobj = self._file
        return self._data


def _check_records(data: bytes) -> None:
    """Raise for an extended header whose records are not exactly ``LENGTH KEY=VALUE\\n``."""
    place = 0
    while place < len(data):
        space = data.find(b" ", place, place + 8)
        length = data[place:space]
        end = place + int(length) if space > 0 and length.isdigit() else 0
        if not space < end <= len(data) or data[end - 1] != 0x0A or data.find(b"=", space, end) < 0:
            raise tarfile.ReadError("an extended header without its records")
        place = end
    if _MANY_DIGITS.search(data):
        raise tarfile.ReadError("an extended header of digits alone")
