"""Files that agents leave: kept by content on the host, and where containers see them.

Nothing here is named by an agent: a blob's file name is the hash of its bytes, and a path that an agent wrote
is only ever a key to look up in what was collected.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from agentv_sandbox.base.errors import NoSpaceError, is_disk_full
from agentv_sandbox.base.logs import safe_name
from agentv_sandbox.containers.volumes import StagedFile
from agentv_sandbox.models.content import Blob, OutputFile
from agentv_sandbox.models.paths import FILES, WORKSPACE

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_ZEROS = bytes(1 << 20)
_BLOCK = 4096


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


class BlobWriter:
    """One content on its way into the store. End it with ``commit`` or ``abort``. Each raises NoSpaceError where the
    disk is full, as all that follows would meet it too."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with _room(folder):
            handle, name = tempfile.mkstemp(prefix=".new-", dir=folder)
        self._path = Path(name)
        self._stream: BinaryIO = os.fdopen(handle, "wb", buffering=0)
        self._hash = hashlib.sha256()
        self.size = 0

    def write(self, data: bytes) -> None:
        self._hash.update(data)
        self.size += len(data)
        if len(data) >= _BLOCK and data == _ZEROS[: len(data)]:
            self._stream.seek(len(data), os.SEEK_CUR)  # a hole: sparse files stay sparse here too
        else:
            view = memoryview(data)
            with _room(self._folder):
                while view:
                    view = view[self._stream.write(view) :]

    def commit(self) -> Blob:
        blob = Blob(sha256=self._hash.hexdigest(), size=self.size)
        with _room(self._folder):
            self._stream.truncate(self.size)
            self._stream.close()
            self._path.chmod(0o644)
            self._path.replace(self._folder / blob.sha256)
        return blob

    def abort(self) -> None:
        self._stream.close()
        self._path.unlink(missing_ok=True)


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
