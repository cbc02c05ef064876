"""Debian package files: an ``ar`` archive of a version, ``control.tar`` and ``data.tar``."""

from __future__ import annotations

import io
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import zstandard

from agentv_sandbox.base.errors import BuildError


def deb_tar(deb: Path, part: Literal["control", "data"]) -> io.BytesIO:
    """One of the two tar archives of a package, decompressed as far as ``tarfile`` cannot do it by itself."""
    for name, content in _ar_members(deb.read_bytes()):
        if name == f"{part}.tar.xz":
            return io.BytesIO(lzma.decompress(content))
        if name == f"{part}.tar.zst":
            return io.BytesIO(zstandard.ZstdDecompressor().stream_reader(content).read())
        if name.startswith(f"{part}.tar"):
            return io.BytesIO(content)
    raise BuildError(f"{deb.name} is not a Debian package")


def _ar_members(data: bytes) -> Iterator[tuple[str, bytes]]:
    if not data.startswith(b"!<arch>\n"):
        return
    position = 8
    while position + 60 <= len(data):
        header = data[position : position + 60]
        size = int(header[48:58])
        yield header[:16].decode().strip().rstrip("/"), data[position + 60 : position + 60 + size]
        position += 60 + size + size % 2
