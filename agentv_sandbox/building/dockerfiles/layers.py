"""What steps changed, kept by the steps' own keys: small files, the least recently used of which may go at any time."""

from __future__ import annotations

import os
import secrets
import struct
from contextlib import suppress
from pathlib import Path
from typing import IO

import zstandard

_CHUNK = 1 << 20
_LEVEL = 1
MAX_LAYER_BYTES = 16 << 30
MOST_BYTES = 20 << 30
"""Of all that are kept."""


class StageLayers:
    """Below ``folder``, one file a step."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, key: str) -> Path:
        return self._folder / f"{key}.tar.zst"

    def has(self, key: str) -> bool:
        """Whether it is there; it counts as used now."""
        try:
            os.utime(self.path(key))
        except OSError:
            return False
        return True

    def append(self, key: str, out: IO[bytes]) -> bool:
        """Write the layer as a frame (length, content) to the end of ``out``; False, and nothing is written, where it
        cannot be read."""
        start = out.tell()
        out.write(struct.pack(">Q", 0))
        size = 0
        try:
            with self.path(key).open("rb") as file, zstandard.ZstdDecompressor().stream_reader(file) as layer:
                while chunk := layer.read(_CHUNK):
                    size += out.write(chunk)
                    if size > MAX_LAYER_BYTES:
                        raise zstandard.ZstdError("too large")
        except (zstandard.ZstdError, FileNotFoundError):
            with suppress(OSError):
                self.path(key).unlink()
            out.seek(start)
            out.truncate()
            return False
        out.seek(start)
        out.write(struct.pack(">Q", size))
        out.seek(0, os.SEEK_END)
        return True

    def trim(self, most: int = MOST_BYTES) -> int:
        """Remove those used longest ago until the others take at most ``most`` bytes; how many went. Who reads one
        meanwhile has it open, and one that is gone is made again."""
        files = []
        for path in self._folder.glob("*.tar.zst"):
            with suppress(FileNotFoundError):
                files.append((path.stat().st_mtime, path.stat().st_size, path))
        total, removed = sum(size for _, size, _ in files), 0
        for _, size, path in sorted(files):
            if total <= most:
                break
            path.unlink(missing_ok=True)
            total, removed = total - size, removed + 1
        return removed

    def writer(self, key: str) -> LayerWriter:
        self._folder.mkdir(parents=True, exist_ok=True)
        return LayerWriter(self.path(key))


class LayerWriter:
    """A layer on its way to its place. A context manager: without ``keep`` nothing stays."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._part = path.with_name(f".{path.name}.{secrets.token_hex(4)}")

    def __enter__(self) -> LayerWriter:
        self._file = self._part.open("wb")
        compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
        self._out = compressor.stream_writer(self._file)
        return self

    def write(self, data: bytes) -> None:
        self._out.write(data)

    def keep(self) -> None:
        self._out.flush(zstandard.FLUSH_FRAME)
        self._part.replace(self._path)

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._part.unlink(missing_ok=True)
