"""HTTP/1.1 messages read from bytes that were captured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Message:
    first: str
    """The line before the headers."""
    headers: Mapping[str, str]
    """With lower-case names."""
    body: bytes
    whole: bool
    """Whether all of its body was there."""
    start: int
    """Where it begins in the bytes."""


def messages(data: bytes) -> Iterator[Message]:
    """All messages in ``data``, one after the other."""
    start = 0
    while start < len(data):
        end = data.find(b"\r\n\r\n", start)
        if end < 0:
            return
        first, *lines = data[start:end].decode("latin-1").split("\r\n")
        pairs = (line.partition(":") for line in lines)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        body, after, whole = _body(data, end + 4, headers, reply=first.startswith("HTTP/"))
        yield Message(first, headers, body, whole, start)
        start = after


def _body(data: bytes, start: int, headers: Mapping[str, str], *, reply: bool) -> tuple[bytes, int, bool]:
    if "chunked" in headers.get("transfer-encoding", ""):
        return _chunks(data, start)
    if "content-length" in headers:
        size = int(headers["content-length"])
        body = data[start : start + size]
        return body, start + size, len(body) == size
    return (data[start:], len(data), True) if reply else (b"", start, True)


def _chunks(data: bytes, start: int) -> tuple[bytes, int, bool]:
    body = b""
    while True:
        end = data.find(b"\r\n", start)
        if end < 0:
            return body, len(data), False
        size = int(data[start:end].split(b";")[0] or b"0", 16)
        start = end + 2
        if size == 0:
            return body, start + 2, True
        body += data[start : start + size]
        start += size + 2
        if start > len(data):
            return body, len(data), False
