"""Known secrets never reach a file, a page or a terminal, whatever encoding they come in."""

from __future__ import annotations

import base64
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote, quote_plus

from agentv_sandbox.budget import Budget
from agentv_sandbox.models.json_pieces import MAX_DEPTH, json_pieces
from agentv_sandbox.models.suite import Json
from agentv_sandbox.plainfiles import open_plain
from agentv_sandbox.report.files import replace_file

MASK = "[redacted]"
MIN_LENGTH = 6
"""Shorter values would blank out ordinary words and numbers; nobody protects anything with them."""
MIN_BASE64_CORE = 8
_PIECE = 1 << 20
MAX_INT = 1 << 63
"""Larger numbers are not measurements, and not every reader of JSON takes them."""


class Redactor:
    """Replaces secret values and their usual encodings by ``MASK``.

    Encodings: as written, JSON-escaped, URL-quoted (both ways), hexadecimal, and base64 (both alphabets),
    also when the value is only a part of what was base64-encoded.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        forms = {form for secret in secrets for form in encodings(secret)}
        # Longest first: a value that contains another one must not be left half readable.
        ordered = sorted(forms, key=lambda form: (-len(form), form))
        self._text = re.compile("|".join(map(re.escape, ordered))) if ordered else None
        self._bytes = re.compile(b"|".join(re.escape(f.encode()) for f in ordered)) if ordered else None
        self._longest = max((len(form.encode()) for form in ordered), default=0)

    def text(self, text: str) -> str:
        return self._text.sub(MASK, text) if self._text else text

    def data(self, data: bytes) -> bytes:
        return self._bytes.sub(MASK.encode(), data) if self._bytes else data

    def data_file(self, path: Path, budget: Budget | None = None) -> bool:
        """Mask secrets in a file of bytes; says whether it held any. Of packed formats (zip, xlsx, PNG) only what
        stands in them unpacked is found. Raises OSError; BudgetSpent or Cancelled, with the file as it was."""
        budget = budget or Budget(math.inf, cancelled=lambda: False)
        if not self.holds(path, budget):
            return False
        try:
            replace_file(path, self._masked(path, budget))
        except OSError:  # such as a full disk: masked in place, which needs none
            self._overwrite(path, budget)
        return True

    def holds(self, path: Path, budget: Budget | None = None) -> bool:
        """Whether a secret stands in a file of bytes. Raises as ``data_file``."""
        budget = budget or Budget(math.inf, cancelled=lambda: False)
        return next(self._places(path, budget), None) is not None

    def _places(self, path: Path, budget: Budget) -> Iterator[tuple[int, int]]:
        """Where secrets stand in a file, read once from front to back in pieces of bounded size."""
        if self._bytes is None:
            return
        with open_plain(path.parent, path.name) as stream:
            window, at, last = b"", 0, False
            while not last:
                budget.check()
                piece = stream.read(_PIECE)
                last = not piece
                window += piece
                # What begins later may go on, or be the start of a longer form, in the next piece.
                sure = len(window) if last else len(window) - self._longest
                done = max(sure, 0)
                for match in self._bytes.finditer(window):
                    if not last and match.start() > sure:
                        break
                    yield at + match.start(), at + match.end()
                    done = max(done, match.end())
                window, at = window[done:], at + done

    def _masked(self, path: Path, budget: Budget) -> Iterator[bytes]:
        """The file's content with ``MASK`` for each secret, in pieces of bounded size."""
        with open_plain(path.parent, path.name) as stream:
            at = 0
            for start, end in self._places(path, budget):
                yield from _pieces(stream, start - at)
                yield MASK.encode()
                at = stream.seek(end)
            yield from _pieces(stream, None)

    def _overwrite(self, path: Path, budget: Budget) -> None:
        fd = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            for start, end in self._places(path, budget):
                os.pwrite(fd, b"*" * (end - start), start)
            os.fsync(fd)
        finally:
            os.close(fd)

    def tree(self, value: Json, depth: int = 0) -> Json:
        """A copy of ``value`` that ``json.dumps`` accepts: redacted, without NaN, of bounded depth."""
        if not isinstance(value, Mapping | list | tuple):
            return self.scalar(value)
        if depth >= MAX_DEPTH:
            return "(nested too deeply)"
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.tree(item, depth + 1) for key, item in value.items()}
        return [self.tree(item, depth + 1) for item in value]

    def scalar(self, value: Json) -> Json:
        """A value that is no list or mapping, as it may be written."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, float):
            return value if math.isfinite(value) else None
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return self._number(value)
        return self.text(str(value))

    def _number(self, value: int) -> Json:
        if abs(value) >= MAX_INT:
            return None
        digits = str(value)
        masked = self.text(digits)
        return value if masked == digits else masked

    def dumps(self, value: Json, *, indent: int | None = None) -> str:
        """``value`` as ASCII JSON. Redacted before it is JSON and not after, so that it stays JSON."""
        separators = (",", ":") if indent is None else None
        return json.dumps(self.tree(value), indent=indent, separators=separators, allow_nan=False)

    def document(self, value: Json) -> Iterator[str]:
        """``dumps(value, indent=2)`` in pieces; ``value`` may give lists as iterators."""
        return json_pieces(value, self.scalar)


def _pieces(stream: BinaryIO, count: int | None) -> Iterator[bytes]:
    """The next ``count`` bytes, or all."""
    while count is None or count > 0:
        piece = stream.read(_PIECE if count is None else min(count, _PIECE))
        if not piece:
            return
        count = None if count is None else count - len(piece)
        yield piece


def encodings(secret: str) -> set[str]:
    secret = secret.strip()
    if len(secret) < MIN_LENGTH:
        return set()
    raw = secret.encode("utf-8", "surrogatepass")
    escaped = json.dumps(secret)[1:-1]
    forms = {
        secret,
        escaped,
        json.dumps(secret, ensure_ascii=False)[1:-1],
        json.dumps(escaped)[1:-1],
        quote(secret, safe="", errors="replace"),
        quote_plus(secret, errors="replace"),
        raw.hex(),
        raw.hex().upper(),
    }
    for core in _base64_cores(raw):
        forms |= {core, core.replace("+", "-").replace("/", "_")}
    return {form for form in forms if form.isprintable() or form == secret}


def _base64_cores(raw: bytes) -> set[str]:
    """What of ``raw`` looks the same in base64 whatever stands around it, for each of three alignments."""
    cores = set()
    for lead in range(3):
        encoded = base64.b64encode(b"\0" * lead + raw).decode()
        start = (0, 2, 3)[lead]
        whole = (lead + len(raw)) * 8 // 6
        core = encoded[start:whole]
        if len(core) >= MIN_BASE64_CORE:
            cores.add(core)
    return cores
