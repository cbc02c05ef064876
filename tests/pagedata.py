"""What stands in the blocks of data of a page, for tests that need no browser."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_BLOCK = re.compile(rb'<script type="application/gzip" id="([a-z0-9-]+)">([A-Za-z0-9+/=]*)</script>')


def blocks(page: bytes | Path | Iterable[bytes]) -> dict[str, bytes]:
    """Unpacked, by name."""
    data = (
        page.read_bytes() if isinstance(page, Path) else page if isinstance(page, bytes) else b"".join(page)
    )
    found = _BLOCK.findall(data)
    assert len({name for name, _ in found}) == len(found), "two blocks have one name"
    return {name.decode(): gzip.decompress(base64.b64decode(packed)) for name, packed in found}


def index_of(page: bytes | Path | Iterable[bytes]) -> dict[str, Any]:
    """What the page knows before a test is opened."""
    return dict(json.loads(blocks(page)["index"]))


def details_of(page: bytes | Path | Iterable[bytes]) -> list[dict[str, Any]]:
    """All of each test, in the order of the list."""
    read = blocks(page)
    return [json.loads(read[f"test-{number}"]) for number in range(len(json.loads(read["index"])["rows"]))]


def page_text(page: bytes | Path | Iterable[bytes]) -> str:
    """All strings of all tests and of the index, one a line, files left out."""
    read = blocks(page)
    return "\n".join(
        text
        for name, data in read.items()
        if not name.startswith("file-")
        for text in _strings(json.loads(data))
    )


def contents(path: Path) -> bytes:
    """A file's bytes; of a page also what its blocks hold."""
    data = path.read_bytes()
    return b"\n".join([data, *blocks(data).values()]) if path.suffix == ".html" else data


def _strings(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)
