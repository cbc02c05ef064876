"""Small suites through AgentV and through us: the same rows and requests, but for what docs/deviations.md says."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from . import both
from .deviations import DEVIATIONS, Deviation
from .small import Small
from .suites import SUITES

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("beside")]
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return both.ours(SUITES, tmp_path_factory.mktemp("beside"))


def differences(small: Small, ours: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    recorded = both.recorded().get(small.name)
    assert recorded is not None, "it is not recorded: `make recordings NAMES=agentv-suites`"
    assert recorded["made_for"] == both.RECORDED.made_for(small), (
        f"AgentV's rows are of another suite: `make recordings NAMES=agentv-suites:{small.name}`"
    )
    theirs = {key: recorded[key] for key in ("rows", "asked", "refused") if key in recorded}
    return list(both.different(theirs, ours[small.name]))


def covers(deviation: Deviation, suite: str, place: str) -> bool:
    return any(fnmatchcase(suite, glob) for glob in deviation.suites) and any(
        fnmatchcase(place, glob) for glob in deviation.places
    )


@pytest.mark.parametrize("small", SUITES, ids=lambda small: small.name)
def test_as_agentv_or_as_the_deviations_say(small: Small, ours: dict[str, Any]) -> None:
    unsaid = [
        (place, theirs, our)
        for place, theirs, our in differences(small, ours)
        if not any(covers(deviation, small.name, place) for deviation in DEVIATIONS)
    ]
    assert not unsaid


@pytest.mark.parametrize("deviation", DEVIATIONS, ids=lambda deviation: deviation.row[:40])
def test_every_deviation_is_documented_and_there(deviation: Deviation, ours: dict[str, Any]) -> None:
    text = "\n".join((DOCS / name).read_text() for name in ("deviations.md", "reference/agents.md"))
    assert f"| {deviation.row} |" in text, "no row of docs/deviations.md begins so"
    suites = [small for small in SUITES if any(fnmatchcase(small.name, glob) for glob in deviation.suites)]
    places = [
        place
        for small in suites
        for place, *_ in differences(small, ours)
        if covers(deviation, small.name, place)
    ]
    unused = [glob for glob in deviation.suites if not any(fnmatchcase(small.name, glob) for small in suites)]
    assert places, "nothing differs there"
    assert not unused
