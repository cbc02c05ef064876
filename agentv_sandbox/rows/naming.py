"""Names of files and folders made from names that other people chose."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable

MAX_NAME = 80
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def slug(name: str, *, fallback: str = "unnamed") -> str:
    """One path segment: ASCII, no separator, no leading dot or dash, at most ``MAX_NAME`` characters.

    A name that had to be shortened ends in eight hex digits of its hash, so that two long names stay apart.
    """
    clean = _UNSAFE.sub("_", name.strip()).lstrip(".-") or fallback
    if len(clean) <= MAX_NAME:
        return clean
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{clean[: MAX_NAME - 9]}-{digest}"


def numbered(names: Iterable[str]) -> list[str]:
    """``names`` with ``#2``, ``#3`` … after those that were there before."""
    counts: Counter[str] = Counter()
    unique = []
    for name in names:
        counts[name] += 1
        unique.append(name if counts[name] == 1 else f"{name}#{counts[name]}")
    return unique


class UniqueNames:
    """Hands out each name once, also on file systems that ignore case."""

    def __init__(self, is_reserved: Callable[[str], bool] = lambda _: False) -> None:
        self._is_reserved = is_reserved
        self._taken: set[str] = set()

    def take(self, name: str) -> str:
        """``name``, or ``name--2``, ``name--3`` … when it is gone."""
        candidate, number = name, 1
        while candidate.casefold() in self._taken or self._is_reserved(candidate):
            number += 1
            candidate = f"{name}--{number}"
        self._taken.add(candidate.casefold())
        return candidate
