"""Escapes of addresses, JSON, HTML and shells, and lines that were broken: undone, with the way back to where a
character was written."""

from __future__ import annotations

import html.entities
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

_DEPTH = 3
"""How often escapes of escapes are undone: JSON in JSON in JSON."""
_ESCAPE = re.compile(
    rb"%([0-9A-Fa-f]{2})"
    rb"|\\u([Dd][89ABab][0-9A-Fa-f]{2})\\u([Dd][C-Fc-f][0-9A-Fa-f]{2})"
    rb"|\\u(?:([0-9A-Fa-f]{4})|\{([0-9A-Fa-f]{1,6})\})"
    rb"|\\U([0-9A-Fa-f]{8})"
    rb"|\\x([0-9A-Fa-f]{2})"
    rb"|\\([^0-9A-Za-z\r\n]|[bfnrt])"
    rb"|&#0{0,6}([0-9]{1,7});?"
    rb"|&#[Xx]0{0,6}([0-9A-Fa-f]{1,6});?"
    rb"|&([A-Za-z][A-Za-z0-9]{1,31});"
)
MARKS = frozenset(b"%\\&")
"""An escape begins with one of them."""
_SHORT = {b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t"}
_COLOUR = rb"|\x1b\[[0-9;]{0,20}m"
_BREAKS = (
    re.compile(rb"[ \t]{0,4}(?:\r\n?|\n)[ \t]{0,40}" + _COLOUR),
    re.compile(
        rb"(?:[\"'],?[ \t]{0,2}[+.\\]?)?[ \t]{0,4}(?:\r\n?|\n)[-+]?[ \t]{0,40}(?:[>#|*\"'][ \t]{0,4}){0,4}"
        + _COLOUR
    ),
)
"""A line's end alone, and with what diffs, quotations, comments and lists of strings put around it; colours of a
terminal. Two, since ``+`` may be a digit of base64."""


@cache
def _names() -> dict[bytes, bytes]:
    """What each name of an entity means."""
    named = html.entities.html5.items()
    return {name.rstrip(";").encode(): text.encode() for name, text in named if name.endswith(";")}


@cache
def _names_of() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name, text in html.entities.html5.items():
        if name.endswith(";"):
            found.setdefault(text, []).append(name)
    return found


@dataclass(frozen=True)
class TextView:
    """A text with parts of it replaced, and where each of its places comes from."""

    data: bytes
    origin: TextView | None = None
    _at: Sequence[int] = field(default=(), repr=False)
    """Where replacements begin in ``data``."""
    _ends: Sequence[int] = field(default=(), repr=False)
    _sources: Sequence[tuple[int, int]] = field(default=(), repr=False)
    """What each stands for, in the origin."""

    def source(self, start: int, end: int) -> tuple[int, int]:
        """Where ``data[start:end]`` was written, in the text that nothing was replaced in."""
        view: TextView = self
        while view.origin is not None:
            start, end = view._back(start, first=True), view._back(end - 1, first=False) + 1
            view = view.origin
        return start, end

    def _back(self, place: int, *, first: bool) -> int:
        number = bisect_right(self._at, place) - 1
        if number >= 0 and self._ends[number] <= self._at[number]:
            # Nothing stands for what was taken out here: the place is behind it.
            return self._sources[number][1] + place - self._ends[number]
        if number < 0:
            return place
        begin, end = self._sources[number]
        if place < self._ends[number]:
            return begin if first else end - 1
        return end + place - self._ends[number]


def views(data: bytes) -> Iterator[TextView]:
    """``data`` as it is, with escapes undone as often as there are some, and each also without ends of lines."""
    view = TextView(data)
    for _ in range(_DEPTH + 1):
        yield view
        if b"\n" in view.data or b"\r" in view.data or b"\x1b" in view.data:
            yield from (_replaced(view, each, lambda _match: b"") for each in _BREAKS)
        if MARKS.isdisjoint(view.data):
            return
        inner = _replaced(view, _ESCAPE, _meant)
        if inner.data == view.data:
            return
        view = inner


def decoded(data: bytes) -> bytes:
    """``data`` with escapes undone once."""
    return _ESCAPE.sub(_meant, data)


def escape_at(data: bytes, at: int) -> tuple[bytes, int]:
    """What the escape at that place means, and where it ends; nothing where there is none."""
    match = _ESCAPE.match(data, at)
    return (b"", at) if match is None else (_meant(match), match.end())


def _replaced(
    view: TextView, pattern: re.Pattern[bytes], meaning: Callable[[re.Match[bytes]], bytes]
) -> TextView:
    pieces: list[bytes] = []
    at: list[int] = []
    ends: list[int] = []
    sources: list[tuple[int, int]] = []
    size = done = 0
    for match in pattern.finditer(view.data):
        start, end = match.span()
        text = meaning(match)
        size += start - done
        pieces += (view.data[done:start], text)
        at.append(size)
        size += len(text)
        ends.append(size)
        sources.append((start, end))
        done = end
    pieces.append(view.data[done:])
    return TextView(b"".join(pieces), view, at, ends, sources)


def _meant(match: re.Match[bytes]) -> bytes:
    kind, group = match.lastindex or 0, match[match.lastindex or 0]
    if kind in (1, 7):
        return bytes((int(group, 16),))
    if kind == 3:
        high, low = int(match[2], 16), int(group, 16)
        return chr(0x10000 + (high - 0xD800 << 10) + low - 0xDC00).encode()
    if kind == 8:
        return _SHORT.get(group, group)
    if kind == 11:
        return _names().get(group, match[0])
    code = int(group, 10 if kind == 9 else 16)
    return chr(code).encode("utf-8", "surrogatepass") if code < 0x110000 else match[0]


# -- the other way ----------------------------------------------------------------------------------------
_PERCENTS = ("%", "%25", "%2525", "u0025", "&#37;", "&#x25;")
_ENTITIES = ("&#", "amp;#", "u0026#", "%26#", "%26%23", "&#38;#")
_PADDING = ("", "0", "00", "000")


def beginnings(text: bytes) -> Iterator[bytes]:
    """How an escape of each character of ``text`` may begin, also within another escape."""
    for char in dict.fromkeys(text.decode("utf-8", "replace")):
        for spelling in _beginnings(char):
            yield spelling.encode("utf-8", "surrogatepass")


def _beginnings(char: str) -> Iterator[str]:
    code = ord(char)
    first = char.encode("utf-8", "surrogatepass")[0]
    unit = code if code < 0x10000 else 0xD800 + (code - 0x10000 >> 10)
    for style in ("{:02x}", "{:02X}"):
        yield from (mark + style.format(first) for mark in _PERCENTS)
        yield f"u{style.format(unit):0>4}"
        yield f"U{style.format(code):0>8}"
        yield f"u{{{style.format(code)}"
        yield from (f"\\x{style.format(byte)}" for byte in {first, code & 0xFF})
        yield f"%5Cx{style.format(first)}"
        for mark in _ENTITIES:
            yield from (
                f"{mark}{x}{zeros}{style.format(code).lstrip('0')}" for x in "xX" for zeros in _PADDING
            )
    for mark in _ENTITIES:
        yield from (f"{mark}{zeros}{code}" for zeros in _PADDING)
    if not char.isalnum():
        yield f"\\{char}"
        yield from _names_of().get(char, ())
