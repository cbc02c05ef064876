"""How often ``compare`` is right: its three answers over simulated pairs of runs.

    python bench/compare_table.py [PAIRS]

Prints, for PAIRS (10,000) pairs of runs of each kind and number of tests, of graded ones a fifth of that, the share of
each answer at the default margin (0.05) and confidence (0.99). Where nothing changed at most 1 % may be called worse,
and where the mean fell by the margin or more at most 1 % better or equal; the share of falls that are called worse is
the power. Of 10,000 pairs a share of 1 % is right to 0.2 points (95 %), of 2,000 to 0.4. The numbers are seeded: the
same PAIRS give the same table.
"""

from __future__ import annotations

import math
import random
import statistics
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from agentv_sandbox.report.comparison import Outcome, compare_runs, outcome_of
from agentv_sandbox.rows.evidence import chance_of_fall
from agentv_sandbox.rows.reader import Run
from agentv_sandbox.rows.record import Row

TESTS = (7, 20, 60, 100)
_NORMAL = statistics.NormalDist()
Draw = Callable[[random.Random], tuple[Sequence[float], Sequence[float]]]
"""Scores of a test's trials, before and after."""


def passes(before: float, after: float, trials: int = 1) -> Draw:
    """A test that passes with these probabilities."""

    def draw(numbers: random.Random) -> tuple[Sequence[float], Sequence[float]]:
        first, then = (
            [float(numbers.random() < chance) for _ in range(trials)] for chance in (before, after)
        )
        return first, then

    return draw


def graded(fall: float, trials: int = 1) -> Draw:
    """A test with a score of its own between 0.2 and 0.9, which varies by about 0.1."""

    def draw(numbers: random.Random) -> tuple[Sequence[float], Sequence[float]]:
        mean = numbers.uniform(0.2, 0.9)
        first, then = (
            [min(max(numbers.gauss(middle, 0.1), 0.0), 1.0) for _ in range(trials)]
            for middle in (mean, mean - fall)
        )
        return first, then

    return draw


KINDS: dict[str, Draw] = {
    "all pass, nothing changed": passes(1, 1),
    "pass with 0.9, nothing changed": passes(0.9, 0.9),
    "pass with 0.5, nothing changed": passes(0.5, 0.5),
    "graded, nothing changed": graded(0),
    "graded, nothing changed, 5 trials": graded(0, 5),
    "all passed, each fails with 0.05": passes(1, 0.95),
    "all passed, each fails with 0.05, 3 trials": passes(1, 0.95, 3),
    "pass with 0.9, then with 0.85": passes(0.9, 0.85),
    "graded, a fall of 0.05": graded(0.05),
    "all passed, each fails with 0.1": passes(1, 0.9),
    "pass with 0.9, then with 0.8": passes(0.9, 0.8),
    "pass with 0.9, then with 0.8, 3 trials": passes(0.9, 0.8, 3),
    "pass with 0.9, then with 0.8, 5 trials": passes(0.9, 0.8, 5),
    "graded, a fall of 0.1": graded(0.1),
}
WORDS: tuple[Outcome, ...] = ("better or equal", "worse", "not enough evidence")
Pairs = Sequence[tuple[Sequence[float], Sequence[float]]]


def drawn(kind: str, tests: int) -> Iterator[Pairs]:
    """Pairs of runs, the same ones each time."""
    numbers = random.Random(f"{kind} {tests}")
    while True:
        yield [KINDS[kind](numbers) for _ in range(tests)]


def said(pairs: Pairs) -> Outcome:
    """What ``compare`` says of them, without what else it prints."""
    observed = [then - first for before, after in pairs for first, then in zip(before, after, strict=True)]
    differences = [statistics.fmean(after) - statistics.fmean(before) for before, after in pairs]
    return outcome_of(observed, _chance(differences), 0.05, 0.01)


def _chance(differences: Sequence[float]) -> float:
    """That of a fall, exact where it decides: far from 0.01 the normal distribution says on which side it is."""
    deviation = math.sqrt(math.fsum(value * value for value in differences))
    roughly = _NORMAL.cdf(math.fsum(differences) / deviation) if deviation else 1.0
    return chance_of_fall(differences) if 1e-4 < roughly < 0.05 else roughly


def compared(pairs: Pairs) -> Outcome:
    """The same by all of ``compare``, some fifty times slower."""
    before, after = (_run([pair[side] for pair in pairs]) for side in (0, 1))
    return compare_runs(before, after).outcome


def _run(scores: Sequence[Sequence[float]]) -> Run:
    rows: list[Row] = []
    for number, trials in enumerate(scores):
        mean = sum(trials) / len(trials)
        row = {"test_id": f"t{number}", "suite": "s", "target": "t", "score": mean, "execution_status": "ok"}
        rows.append(Row.of({**row, "trial_scores": list(trials)} if len(trials) > 1 else row)[0])
    return Run(path=Path("run"), rows=rows, problems=())


def row(kind: str, tests: int, pairs: int) -> str:
    """A line of the table."""
    runs = drawn(kind, tests)
    pairs = max(pairs // 5, 1) if kind.startswith("graded") else pairs
    seen = Counter(said(next(runs)) for _ in range(pairs))
    return f"| {kind} | {tests} | " + " | ".join(f"{seen[word] / pairs:.1%}" for word in WORDS) + " |"


def main() -> int:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    print(f"| kind | tests | {' | '.join(WORDS)} |\n|---|---|---|---|---|")
    for kind in KINDS:
        for tests in TESTS:
            print(row(kind, tests, pairs), flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
