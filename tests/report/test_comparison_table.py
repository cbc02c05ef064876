"""The published table of how often ``compare`` is right: it is that of this code, and within what is promised."""

from __future__ import annotations

import math
import re
from itertools import islice
from pathlib import Path

import pytest

from bench.compare_table import KINDS, TESTS, WORDS, compared, drawn, said

PAGE = Path(__file__).parents[2] / "docs/reference/results.md"
LINE = re.compile(r"^\| (.+) \| (\d+) \| ([0-9.]+)% \| ([0-9.]+)% \| ([0-9.]+)% \|$", re.MULTILINE)
UNCHANGED = [kind for kind in KINDS if "nothing changed" in kind]
"""The others fall by the margin or more."""
POWER = {
    "all passed, each fails with 0.1": 0.87,
    "graded, a fall of 0.1": 0.99,
    "pass with 0.9, then with 0.8, 3 trials": 0.82,
    "pass with 0.9, then with 0.8, 5 trials": 0.97,
}
"""Share of falls by 0.1 that are found with 100 tests."""


@pytest.fixture(scope="module")
def published() -> dict[tuple[str, int], dict[str, float]]:
    found = {}
    for kind, tests, *shares in LINE.findall(PAGE.read_text()):
        found[kind, int(tests)] = dict(zip(WORDS, (float(share) / 100 for share in shares), strict=True))
    return found


def test_every_kind_and_number_of_tests_is_published(published: dict[tuple[str, int], object]) -> None:
    assert list(published) == [(kind, tests) for kind in KINDS for tests in TESTS]


def test_false_statements_are_within_one_percent_and_falls_are_found(
    published: dict[tuple[str, int], dict[str, float]],
) -> None:
    for (kind, tests), shares in published.items():
        word = "worse" if kind in UNCHANGED else "better or equal"
        # Three standard deviations of a true 1 %, by how many pairs were drawn.
        room = 3 * math.sqrt(0.01 * 0.99 / (2_000 if kind.startswith("graded") else 10_000))
        assert shares[word] <= 0.01 + room, (kind, tests)
    assert {kind: published[kind, 100]["worse"] >= least for kind, least in POWER.items()} == dict.fromkeys(
        POWER, True
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_published_shares_are_those_of_this_code(
    published: dict[tuple[str, int], dict[str, float]], kind: str
) -> None:
    for tests in TESTS:
        outcomes = [said(pairs) for pairs in islice(drawn(kind, tests), 2_100 // tests)]
        for word, share in published[kind, tests].items():
            assert plausible(outcomes.count(word), len(outcomes), share), (tests, word, outcomes)
    few = list(islice(drawn(kind, TESTS[1]), 1))
    assert [said(pairs) for pairs in few] == [compared(pairs) for pairs in few]


def plausible(count: int, drawn: int, share: float) -> bool:
    """Whether so many, or so few, are more than a chance of one in a thousand; shares are rounded to thousandths."""
    low, high = max(share - 0.001, 0.0002), min(share + 0.001, 0.9998)
    so_many = sum(binomial(n, drawn, high) for n in range(count, drawn + 1))
    so_few = sum(binomial(n, drawn, low) for n in range(count + 1))
    return min(so_many, so_few) > 1e-3


def binomial(count: int, drawn: int, share: float) -> float:
    return math.comb(drawn, count) * share**count * (1 - share) ** (drawn - count)
