"""Names of models, and patterns of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

_SNAPSHOT = r"(?:-[0-9]{8}|-[0-9]{4}-[0-9]{2}-[0-9]{2})?"
"""Date that makers append to a model's name for one version of it."""


def matches(model: str, patterns: Iterable[str]) -> bool:
    """Whether ``model`` is one of ``patterns``, or a dated version of one."""
    return any(_pattern(pattern).fullmatch(model) for pattern in patterns)


@lru_cache(maxsize=1024)
def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))) + _SNAPSHOT, re.DOTALL)
