"""What several trials of a test say together, beside the strategy that decides about it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agentv_sandbox.rows.evidence import mean_interval, share_interval
from agentv_sandbox.rows.record import Row

STRATEGY_WORDS = {
    "pass_at_k": "best",
    "pass_all": "worst",
    "mean": "mean",
    "confidence_interval": "lower bound",
}
"""Which of the trials' figures is a row's score."""
MAX_K = 100
"""Largest ``k`` for which pass@k and pass^k are stated."""
_DIGITS = 6


def trial_statistics(
    scores: Sequence[float | None], threshold: float, strategy: str
) -> dict[str, Any] | None:
    """``trial_statistics`` of a row; None for a test without trials. ``scores``: None for an execution error.

    Trials that end at the first pass were not drawn independently of their outcome, so nothing is estimated from them.
    """
    if not strategy:
        return None
    graded = [score for score in scores if score is not None]
    passed = sum(score >= threshold for score in graded)
    counts: dict[str, Any] = {
        "graded": len(graded),
        "passed": passed,
        "errors": len(scores) - len(graded),
    }
    if not graded:
        return counts
    if strategy == "pass_at_k" and passed:
        return {**counts, "ended_at_first_pass": True}
    ks = range(1, min(len(graded), MAX_K) + 1)
    return {
        **counts,
        "mean": _rounded(statistics.fmean(graded)),
        "mean_interval_95": _score_interval(graded),
        "pass_rate": _rounded(passed / len(graded)),
        "pass_rate_interval_95": [_rounded(end) for end in share_interval(passed, len(graded))],
        "pass_at_k": [_rounded(pass_at(k, passed, len(graded))) for k in ks],
        "pass_hat_k": [_rounded(pass_hat(k, passed, len(graded))) for k in ks],
    }


def pass_at(k: int, passed: int, total: int) -> float:
    """Probability that at least one of ``k`` trials passes; unbiased (Chen et al. 2021, arXiv:2107.03374)."""
    return 1 - math.comb(total - passed, k) / math.comb(total, k)


def pass_hat(k: int, passed: int, total: int) -> float:
    """pass^k, the probability that all of ``k`` trials pass; unbiased (Yao et al. 2024, arXiv:2406.12045)."""
    return math.comb(passed, k) / math.comb(total, k)


def totals(tests: Iterable[Mapping[str, Any] | None]) -> dict[str, Any] | None:
    """Means over tests, each of which weighs the same, from their ``trial_statistics``; None where no test has as much
    as two graded trials that are estimated from. ``k`` is the smallest number of graded trials among them (at most
    ``MAX_K``)."""
    known = [each for each in tests if each and each["graded"] > 1 and "pass_at_k" in each]
    if not known:
        return None
    k = min(len(each["pass_at_k"]) for each in known)
    rates = [each["pass_rate"] for each in known]
    return {
        "tests": len(known),
        "k": k,
        "pass_at_1": _rounded(statistics.fmean(rates)),
        "pass_at_1_interval_95": _score_interval(rates),
        "pass_at_k": _rounded(statistics.fmean(each["pass_at_k"][k - 1] for each in known)),
        "pass_hat_k": _rounded(statistics.fmean(each["pass_hat_k"][k - 1] for each in known)),
    }


def row_statistics(row: Row) -> dict[str, Any] | None:
    """The same for a row, which may be of another program; computed anew, so that nobody's figures are repeated."""
    if not row.trial_scores or row.threshold is None:
        return None
    bounded = [None if score is None else min(max(score, 0.0), 1.0) for score in row.trial_scores]
    return trial_statistics(bounded, row.threshold, row.trial_strategy)


def short_words(row: Row) -> str:
    """``mean of 5; 2 passed, 12% to 77%``; empty for a test without trials."""
    figures = row_statistics(row)
    if figures is None:
        return ""
    word = STRATEGY_WORDS.get(row.trial_strategy, row.trial_strategy)
    parts = [f"{word} of {len(row.trial_scores)}; {figures['passed']} passed"]
    if figures["errors"]:
        parts.append(f"{figures['errors']} with errors")
    if interval := figures.get("pass_rate_interval_95"):
        parts.append(f"{interval[0]:.0%} to {interval[1]:.0%}")
    return ", ".join(parts)


def whole_words(row: Row) -> str:
    """All that can be said of a row's trials, in one line; empty for a test without trials."""
    figures = row_statistics(row)
    if figures is None:
        return ""
    parts = [f"{figures['passed']} of {figures['graded']} graded trials passed"]
    if "pass_at_k" in figures:
        k = len(figures["pass_at_k"])
        parts[0] += f" (95 % interval {_range(figures['pass_rate_interval_95'], '.0%')})"
        spread = figures["mean_interval_95"]
        parts.append(f"mean {figures['mean']:.2f}" + (f" ({_range(spread, '.2f')})" if spread else ""))
        parts.append(f"pass@{k} {figures['pass_at_k'][-1]:.2f}, pass^{k} {figures['pass_hat_k'][-1]:.2f}")
    elif figures["passed"]:
        parts.append("no further ones after the first pass, so nothing is estimated from them")
    if figures["errors"]:
        parts.append(f"{figures['errors']} with execution errors")
    return "; ".join(parts)


def totals_words(rows: Iterable[Row]) -> str:
    """One line on the trials of a run; empty where there is nothing to estimate."""
    figures = totals(map(row_statistics, rows))
    if figures is None:
        return ""
    k, spread = figures["k"], figures["pass_at_1_interval_95"]
    range_ = f" ({_range(spread, '.0%')})" if spread else ""
    tests = "1 test" if figures["tests"] == 1 else f"{figures['tests']} tests"
    return (
        f"Trials of {tests}: pass@1 {figures['pass_at_1']:.0%}{range_}, pass@{k} {figures['pass_at_k']:.0%}, "
        f"pass^{k} {figures['pass_hat_k']:.0%}"
    )


def _score_interval(values: Sequence[float]) -> list[float] | None:
    """None also for values that are all the same: Student's interval has no width then, and says nothing."""
    interval = mean_interval(values) if min(values) < max(values) else None
    return None if interval is None else [_rounded(min(max(end, 0.0), 1.0)) for end in interval]


def _range(ends: Sequence[float], form: str) -> str:
    return f"{ends[0]:{form}} to {ends[1]:{form}}"


def _rounded(value: float) -> float:
    return round(value, _DIGITS)
