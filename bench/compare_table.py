"""How often ``compare`` is right: its three answers over simulated pairs of runs.

    python bench/compare_table.py [PAIRS]

Prints, for PAIRS (400) pairs of runs of each kind and number of tests, the share of each answer at the default margin
(0.05) and confidence (0.99). The kinds without a change, and those that fall by the margin, must hardly ever be called
worse and better or equal; those that fall by twice the margin should be called worse.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from agentv_sandbox.report.comparison import compare_runs
from agentv_sandbox.rows.reader import Run
from agentv_sandbox.rows.record import Row

TESTS = (7, 20, 60, 100)
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
    "all passed, each fails with 0.05": passes(1, 0.95),
    "the same, 3 trials": passes(1, 0.95, 3),
    "pass with 0.9, nothing changed": passes(0.9, 0.9),
    "pass with 0.9, then with 0.85": passes(0.9, 0.85),
    "pass with 0.9, then with 0.8": passes(0.9, 0.8),
    "the same, 5 trials": passes(0.9, 0.8, 5),
    "all passed, each fails with 0.1": passes(1, 0.9),
    "graded, nothing changed": graded(0),
    "graded, nothing changed, 5 trials": graded(0, 5),
    "graded, a fall of 0.05": graded(0.05),
    "graded, a fall of 0.1": graded(0.1),
}


def outcome(draw: Draw, tests: int, numbers: random.Random) -> str:
    pairs = [draw(numbers) for _ in range(tests)]
    before, after = (_run([pair[side] for pair in pairs]) for side in (0, 1))
    return compare_runs(before, after).outcome


def _run(scores: Sequence[Sequence[float]]) -> Run:
    rows: list[Row] = []
    for number, trials in enumerate(scores):
        mean = sum(trials) / len(trials)
        row = {"test_id": f"t{number}", "suite": "s", "target": "t", "score": mean, "execution_status": "ok"}
        rows.append(Row.of({**row, "trial_scores": list(trials)} if len(trials) > 1 else row)[0])
    return Run(path=Path("run"), rows=rows, problems=())


def main() -> int:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    print("| kind | tests | better or equal | worse | not enough evidence |\n|---|---|---|---|---|")
    for kind, draw in KINDS.items():
        for tests in TESTS:
            numbers = random.Random(f"{kind} {tests}")
            seen = Counter(outcome(draw, tests, numbers) for _ in range(pairs))
            shares = (seen[word] / pairs for word in ("better or equal", "worse", "not enough evidence"))
            print(f"| {kind} | {tests} | " + " | ".join(f"{share:.1%}" for share in shares) + " |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
