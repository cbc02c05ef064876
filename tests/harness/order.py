"""Unit tests first, a file in one worker; then groups of engine tests, the large ones first; then single ones.

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
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))
    if seed := os.environ.get(SEED):
        _shuffle(items, random.Random(seed))
        return
    sizes = Counter(group_of(item) for item in items)
    with_engine = {group_of(item) for item in items if item.get_closest_marker("engine")} - {None}

    def place(item: pytest.Item) -> tuple[bool, int]:
        group = group_of(item)
        late = group in with_engine or item.get_closest_marker("engine") is not None
        return late, 0 if group is None or not late else -sizes[group]

    items.sort(key=place)


def _shuffle(items: list[pytest.Item], order: random.Random) -> None:
    """Groups in random order, and the tests of each: what shares a fixture of a module stays together."""
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        groups.setdefault(group_of(item) or item.nodeid, []).append(item)
    names: Sequence[str] = order.sample(sorted(groups), len(groups))
    items[:] = [item for name in names for item in order.sample(groups[name], len(groups[name]))]
