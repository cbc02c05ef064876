"""Tar streams of ours and image archives whoever wrote them, unpacked below one folder."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from agentv_sandbox.archives.rooted import (
    LAST_ID,
    NOBODY,
    VOLUME,
    Attributes,
    Disk,
    RootedFolder,
    shown,
    write_all,
)
from agentv_sandbox.archives.untrusted_image import ImageEntry, Layers, plain_path
from agentv_sandbox.archives.untrusted_tar import (
    MAX_BYTES,
    ArchiveError,
    ForeignTar,
    ReadBudget,
    archive_errors,
)
from agentv_sandbox.base.errors import EngineError

_MAX_LINKS = 40
_EARLIEST, _LATEST = -(1 << 31), 1 << 33
"""Times that file systems can hold, in seconds."""


def unpack(
    tar: Iterable[bytes], into: Path, *, shift: int, disk: Disk = VOLUME, max_bytes: int = MAX_BYTES
) -> None:
    """Unpack a tar stream into an existing folder, owners ``shift`` higher than in the stream.

    Folders that are there stay, with the stream's owner and mode; files that are there are replaced. Raises
    EngineError for an entry below a link, a path that leads out, more than ``max_bytes``, and kinds of files other
    than folders, files and symbolic links.
    """
    budget = ReadBudget()
    left = max_bytes
    try:
        with (
            RootedFolder(into, disk) as folder,
            archive_errors("the stream"),
            ForeignTar.reading(_Stream(tar), budget, stream=True) as archive,  # type: ignore[arg-type]
        ):
            for member in archive:
                left -= member.size
                if left < 0:
                    raise EngineError(f"more than {max_bytes:,} bytes to unpack")
                _unpack_member(folder, archive, member, shift)
    except ArchiveError as error:
        raise EngineError(f"cannot unpack files: {error}") from error


def _unpack_member(
    folder: RootedFolder, archive: tarfile.TarFile, member: tarfile.TarInfo, shift: int
) -> None:
    given = attributes_of(member, shift)
    if member.isdir():
        folder.make_folder(member.name, given)
    elif member.issym():
        folder.make_link(member.name, member.linkname, given)
    elif member.isreg():
        file = archive.extractfile(member)
        assert file is not None
        with folder.new_file(member.name, given) as fd:
            write_all(fd, file)
    else:
        raise EngineError(f"{shown(member.name)} is not a folder, a file or a symbolic link")


def unpack_image(layers: Layers, folder: RootedFolder, *, shift: int) -> int:
    """Write the merged files of ``layers``, owners ``shift`` higher; devices are left out. Returns the bytes of all
    files. Raises ArchiveError and EngineError."""
    with layers.merged() as (entries, opened):
        return _Unpacking(entries, opened, folder, shift).run()


def attributes_of(member: tarfile.TarInfo, shift: int) -> Attributes:
    """Whose a member of a tar file becomes, its numbers raised by ``shift``."""
    uid, gid = (i if 0 <= i <= LAST_ID else NOBODY for i in (member.uid, member.gid))
    mtime = min(max(int(member.mtime), _EARLIEST), _LATEST)
    return Attributes(uid + shift, gid + shift, member.mode & 0o7777, mtime)


class _Stream:
    """Chunks as a file to read."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._rest = b""

    def read(self, size: int) -> bytes:
        parts, have = [self._rest], len(self._rest)
        while have < size and (chunk := next(self._chunks, None)) is not None:
            parts.append(chunk)
            have += len(chunk)
        data = b"".join(parts)
        self._rest = data[size:]
        return data[:size]


class _Unpacking:
    def __init__(
        self,
        entries: Mapping[str, ImageEntry],
        layers: Sequence[tarfile.TarFile],
        folder: RootedFolder,
        shift: int,
    ) -> None:
        self._entries = entries
        self._layers = layers
        self._folder = folder
        self._shift = shift
        self._members: dict[int, dict[str, tarfile.TarInfo]] = {}
        """By layer and path, without folders; made for layers with hard links."""
        self._first_names: dict[int, str] = {}
        """Where a member was written, by its identity."""
        self._folders: set[str] = {""}

    def run(self) -> int:
        return sum(self._write(path, self._entries[path]) for path in sorted(self._entries))

    def _write(self, path: str, entry: ImageEntry) -> int:
        """Bytes written."""
        number, member = self._source(entry)
        if member.ischr() or member.isblk():
            return 0
        self._make_parents(path)
        given = attributes_of(member, self._shift)
        if member.isdir():
            self._folder.make_folder(path, given)
            self._folders.add(path)
        elif (first := self._first_names.setdefault(id(member), path)) != path:
            self._folder.make_hard_link(path, first)
        elif member.issym():
            self._folder.make_link(path, member.linkname, given)
        elif member.isfifo():
            self._folder.make_fifo(path, given)
        elif member.isreg():
            file = self._layers[number].extractfile(member)
            assert file is not None
            with self._folder.new_file(path, given) as fd:
                write_all(fd, file)
            return member.size
        else:
            raise ArchiveError(f"{shown(path)} is of an unknown kind")
        return 0

    def _make_parents(self, path: str) -> None:
        """Folders of which the archive says nothing."""
        parent = path.rpartition("/")[0]
        missing = []
        while parent not in self._folders:
            missing.append(parent)
            parent = parent.rpartition("/")[0]
        for folder in reversed(missing):
            self._folder.make_folder(folder, Attributes(self._shift, self._shift, 0o755, 0))
            self._folders.add(folder)

    def _source(self, entry: ImageEntry) -> tuple[int, tarfile.TarInfo]:
        """The member with the content, and the number of its layer: hard links lead there."""
        number, member = entry.number, entry.member
        for _ in range(_MAX_LINKS):
            if not member.islnk():
                return number, member
            target = plain_path(member.linkname)
            while number >= 0 and target not in self._members_of(number):
                number -= 1
            if number < 0:
                break
            member = self._members[number][target]
        raise ArchiveError(f"a hard link to {shown(member.linkname)}, which is not there")

    def _members_of(self, number: int) -> dict[str, tarfile.TarInfo]:
        if number not in self._members:
            members = (member for member in self._layers[number] if not member.isdir())
            self._members[number] = {plain_path(member.name): member for member in members}
        return self._members[number]
