"""Quick tests first, a file in one worker; then what is marked ``long``; then groups of slow ones and of engines, the
large first; then single ones.

The first failure of a unit test is on the screen within a minute, and what takes long is not left to the end, where one
worker would wait for the other.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest

SEED = "AGENTV_SANDBOX_TESTS_SEED"
"""Variable with the seed of a random order, for a look at whether tests depend on their order."""
_LATE = {"engine", "slow"}
_LONG = "long"


@dataclass(frozen=True, slots=True)
class _Place:
    """What the marks of a test say. They are read once: each look at them goes up to the session."""

    group: str | None
    """The name of the group that one worker runs."""
    late: bool
    long: bool

    @classmethod
    def of(cls, item: pytest.Item) -> _Place:
        """Gives a unit test that has no group that of its file."""
        marks = {mark.name: mark for mark in item.iter_markers()}  # of two, the one of the module
        late, long = not marks.keys().isdisjoint(_LATE), _LONG in marks
        if mark := marks.get("xdist_group"):
            return cls(str(mark.args[0] if mark.args else mark.kwargs["name"]), late, long)
        if "engine" in marks:
            return cls(None, late, long)
        group = item.nodeid.partition("::")[0] + ("-slow" if "slow" in marks else "")
        item.add_marker(pytest.mark.xdist_group(group))
        return cls(group, late, long)


def arrange(items: list[pytest.Item]) -> None:
    """Give each unit test that has no group that of its file, and put all into their order."""
    places = {item: _Place.of(item) for item in items}
    if seed := os.environ.get(SEED):
        _shuffle(items, places, random.Random(seed))
        return
    sizes = Counter(place.group for place in places.values())
    late_groups = {place.group for place in places.values() if place.late} - {None}
    long_groups = {place.group for place in places.values() if place.long} - {None}

    def key(item: pytest.Item) -> tuple[bool, bool, int]:
        place = places[item]
        late = place.late or place.group in late_groups
        quick = not place.long and place.group not in long_groups
        return late, quick, 0 if place.group is None or not late else -sizes[place.group]

    items.sort(key=key)


def _shuffle(items: list[pytest.Item], places: Mapping[pytest.Item, _Place], order: random.Random) -> None:
    """Groups in random order, and the tests of each: what shares a fixture of a module stays together."""
    groups: dict[str, list[pytest.Item]] = {}
    for item in items:
        groups.setdefault(places[item].group or item.nodeid, []).append(item)
    names: Sequence[str] = order.sample(sorted(groups), len(groups))
    items[:] = [item for name in names for item in order.sample(groups[name], len(groups[name]))]
