"""Files that agents leave: kept by content on the host, and where containers see them.

Nothing here is named by an agent: a blob's file name is the hash of its bytes, and a path that an agent wrote
is only ever a key to look up in what was collected.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from agentv_sandbox.base.errors import NoSpaceError, is_disk_full
from agentv_sandbox.base.logs import safe_name
from agentv_sandbox.containers.volumes import StagedFile
from agentv_sandbox.models.content import STORES, Blob, OutputFile, Store
from agentv_sandbox.models.paths import FILES, WORKSPACE

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_ZEROS = bytes(1 << 20)
_BLOCK = 4096
_HELD = 64 << 10
"""Bytes of a content that stay in memory until its end."""


class BlobStore:
    """Bytes under ``<root>/sha256/<hash>``, each content once, never executable."""

    def __init__(self, root: Path) -> None:
        self._folder = root / "sha256"
        self._folder.mkdir(parents=True, exist_ok=True)

    def path(self, blob: Blob) -> Path:
        return self._folder / blob.sha256

    def writer(self) -> BlobWriter:
        return BlobWriter(self._folder)

    def put(self, data: bytes) -> Blob:
        writer = self.writer()
        try:
            writer.write(data)
            return writer.commit()
        except BaseException:
            writer.abort()
            raise

    def read(self, blob: Blob, *, limit: int = -1) -> bytes:
        """The content, at most ``limit`` bytes of it when that is not negative."""
        with self.path(blob).open("rb") as stream:
            return stream.read(limit)


def stores_in(folder: Path) -> dict[Store, BlobStore]:
    return {name: BlobStore(folder / name) for name in STORES}


class BlobWriter:
    """One content on its way into the store. End it with ``commit`` or ``abort``. Each raises NoSpaceError where the
    disk is full, as all that follows would meet it too.

    A small one, as most are, is held in memory until its end: one that the store has already costs no file.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._held = bytearray()
        self._path = ""
        self._stream: BinaryIO | None = None
        self._hash = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> None:
        self._hash.update(data)
        self.size += len(data)
        if self.size <= _HELD and self._stream is None:
            self._held += data
            return
        stream = self._opened()
        if len(data) >= _BLOCK and data == _ZEROS[: len(data)]:
            stream.seek(len(data), os.SEEK_CUR)  # a hole: sparse files stay sparse here too
        else:
            self._put(stream, data)

    def _opened(self) -> BinaryIO:
        """The file, with all that was held."""
        if self._stream is None:
            self._path = f"{self._folder}/.new-{secrets.token_hex(8)}"
            with _room(self._folder):
                # Not by tempfile, which takes as long as all the rest for a small file.
                handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            self._stream = os.fdopen(handle, "wb", buffering=0)
            self._put(self._stream, self._held)
            self._held = bytearray()
        return self._stream

    def _put(self, stream: BinaryIO, data: bytes | bytearray) -> None:
        view = memoryview(data)
        with _room(self._folder):
            while view:
                view = view[stream.write(view) :]

    def commit(self) -> Blob:
        blob = Blob(sha256=self._hash.hexdigest(), size=self.size)
        target = f"{self._folder}/{blob.sha256}"
        if self._stream is None and os.path.lexists(target):
            return blob
        stream = self._opened()
        with _room(self._folder):
            stream.truncate(self.size)
            os.fchmod(stream.fileno(), 0o644)
            stream.close()
            os.replace(self._path, target)  # noqa: PTH105 - a Path for each file takes longer than the file
        return blob

    def abort(self) -> None:
        if self._stream is not None:
            self._stream.close()
            Path(self._path).unlink(missing_ok=True)


@contextmanager
def _room(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if not is_disk_full(error):
            raise
        message = f"what an agent left cannot be kept below {folder}: {error.strerror}"
        raise NoSpaceError(message, hint="Free some space; --resume goes on.") from error


def container_meaning(path: str) -> str | None:
    """The absolute path that an agent's ``path`` stands for inside its container, as text only: nothing is
    opened or resolved. None when it has a scheme other than ``file``."""
    if path.startswith("file://"):
        path = unquote(urlsplit(path).path, errors="surrogateescape")
    elif _SCHEME.match(path):
        return None
    try:
        os.fsencode(path)
    except UnicodeEncodeError:  # a lone surrogate that no file name can hold
        path = path.encode("utf-8", "replace").decode()
    return posixpath.normpath(posixpath.join(WORKSPACE, path))


def container_name(path: str) -> str:
    """A file name for ``path`` that is safe to have: its last part where that is ordinary."""
    name = path.replace("\\", "/").rstrip("/").rpartition("/")[2]
    if name not in ("", ".", "..") and name.isprintable() and len(name.encode()) <= 200:
        return name
    suffix = PurePosixPath(safe_name(name)).suffix
    return "file" + (suffix if suffix.isascii() and suffix[1:].isalnum() and len(suffix) <= 12 else "")


def container_path(file: OutputFile) -> str:
    """Where containers see a file of an answer."""
    return f"{FILES}/{file.number}/{container_name(file.path)}"


def staged_files(files: Sequence[OutputFile], store: BlobStore) -> list[StagedFile]:
    """What a volume mounted at ``/files`` must hold for ``container_path`` to be true."""
    return [
        StagedFile(
            path=container_path(file).removeprefix(f"{FILES}/"), data=store.path(file.blob), mode=0o444
        )
        for file in files
        if file.blob is not None
    ]
