"""Quick tests first, a file in one worker; then groups of slow ones and of engines, the large first; then single ones.

The first failure of a unit test is on the screen within a minute, and what takes long is not left to the end, where one
worker would wait for the other.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Sequence

import pytest

SEED = "AGENTV_SANDBOX_TESTS_SEED"
"""Variable with the seed of a random order, for a look at whether tests depend on their order."""


def group_of(item: pytest.Item) -> str | None:
    """The name of the group that one worker runs."""
    marks = list(item.iter_markers("xdist_group"))
    return str(marks[-1].args[0] if marks[-1].args else marks[-1].kwargs["name"]) if marks else None


def arrange(items: list[pytest.Item]) -> None:
    """Give each unit test that has no group that of its file, and put all into their order."""
    for item in items:
        if group_of(item) is None and item.get_closest_marker("engine") is None:
            kind = "-slow" if item.get_closest_marker("slow") else ""
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0] + kind))
    if seed := os.environ.get(SEED):
        _shuffle(items, random.Random(seed))
        return
    sizes = Counter(group_of(item) for item in items)
    late_groups = {group_of(item) for item in items if _is_late(item)} - {None}

    def place(item: pytest.Item) -> tuple[bool, int]:
        group = group_of(item)
        late = group in late_groups or _is_late(item)
        return late, 0 if group is None or not late else -sizes[group]

    items.sort(key=place)


def _is_late(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(mark) for mark in ("engine", "slow"))


def _shuffle(items: list[pytest.Item], order: random.Random) -> None:
    """Groups in random order, and the tests of each: what shares a fixture of a module stays together."""
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        groups.setdefault(group_of(item) or item.nodeid, []).append(item)
    names: Sequence[str] = order.sample(sorted(groups), len(groups))
    items[:] = [item for name in names for item in order.sample(groups[name], len(groups[name]))]
