"""JSON in pieces of bounded size, since a document that is held as a whole takes many times its bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping

from agentv_sandbox.models.json.value import Json

PIECE = 1 << 18
"""Characters."""
MAX_DEPTH = 200
_TOO_DEEP = "(nested too deeply)"


def json_pieces(
    value: Json,
    scalar: Callable[[object], object] = lambda value: value,
    *,
    ascii_only: bool = True,
    number: Callable[[float], str] = json.dumps,
) -> Iterator[str]:
    """``json.dumps(value, indent=2)`` in pieces. A list may also be an iterator, of which one item is held at a time.

    ``scalar``: what stands in the place of each key and of each value that is neither a list nor a mapping;
    ``number``: how numbers are written."""
    encoder = json.JSONEncoder(ensure_ascii=ascii_only)
    part: list[str] = []
    size = 0
    for text in _Walk(encoder.encode, scalar, number).texts(value, "\n", 0):
        part.append(text)
        size += len(text)
        if size >= PIECE:
            yield "".join(part)
            part, size = [], 0
    yield "".join(part)


class _Walk:
    def __init__(
        self,
        encode: Callable[[object], str],
        scalar: Callable[[object], object],
        number: Callable[[float], str],
    ) -> None:
        self._encode = encode
        self._scalar = scalar
        self._number = number

    def texts(self, value: Json, pad: str, depth: int) -> Iterator[str]:
        if depth >= MAX_DEPTH and isinstance(value, Mapping | list | tuple | Iterator):
            yield self._encode(_TOO_DEEP)
        elif isinstance(value, Mapping):
            yield from self._members(value, pad, depth)
        elif isinstance(value, list | tuple | Iterator):
            yield from self._items(value, pad, depth)
        else:
            yield from self._leaf(self._scalar(value))

    def _members(self, value: Mapping[str, Json], pad: str, depth: int) -> Iterator[str]:
        inner = pad + "  "
        before = "{" + inner
        for key, item in value.items():
            yield f"{before}{self._encode(self._scalar(str(key)))}: "
            yield from self.texts(item, inner, depth + 1)
            before = "," + inner
        yield pad + "}" if value else "{}"

    def _items(
        self, value: list[Json] | tuple[Json, ...] | Iterator[Json], pad: str, depth: int
    ) -> Iterator[str]:
        inner = pad + "  "
        first = before = "[" + inner
        for item in value:
            yield before
            yield from self.texts(item, inner, depth + 1)
            before = "," + inner
        yield "[]" if before is first else pad + "]"

    def _leaf(self, value: Json) -> Iterator[str]:
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield self._number(value)
            return
        if not isinstance(value, str) or len(value) <= PIECE:
            yield self._encode(value)
            return
        yield '"'
        for at in range(0, len(value), PIECE):
            yield self._encode(value[at : at + PIECE])[1:-1]
        yield '"'
