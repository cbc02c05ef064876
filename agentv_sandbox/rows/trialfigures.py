"""What several trials of a test say together, beside the strategy that decides about it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace

from agentv_sandbox.base.dataclass import dataclass
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


@dataclass(frozen=True, kw_only=True)
class Estimates:
    """What graded trials say of further ones."""

    mean: float
    mean_interval_95: list[float] | None
    pass_rate: float
    pass_rate_interval_95: list[float]
    pass_at_k: list[float]
    pass_hat_k: list[float]


@dataclass(frozen=True, kw_only=True)
class TrialFigures:
    graded: int
    passed: int
    errors: int
    ended_at_first_pass: bool = False
    estimates: Estimates | None = None
    """None where nothing can be estimated."""

    def wire(self) -> dict[str, object]:
        """``trial_statistics`` of a row."""
        counts = {"graded": self.graded, "passed": self.passed, "errors": self.errors}
        ended = {"ended_at_first_pass": True} if self.ended_at_first_pass else {}
        return {**counts, **ended, **(asdict(self.estimates) if self.estimates else {})}


def trial_figures(scores: Sequence[float | None], threshold: float, strategy: str) -> TrialFigures | None:
    """None for a test without trials. ``scores``: None for an execution error.

    Trials that end at the first pass were not drawn independently of their outcome, so nothing is estimated from them.
    """
    if not strategy:
        return None
    graded = [score for score in scores if score is not None]
    passed, total = sum(score >= threshold for score in graded), len(graded)
    counts = TrialFigures(graded=total, passed=passed, errors=len(scores) - total)
    if not graded:
        return counts
    if strategy == "pass_at_k" and passed:
        return replace(counts, ended_at_first_pass=True)
    ks = range(1, min(total, MAX_K) + 1)
    estimates = Estimates(
        mean=_rounded(statistics.fmean(graded)),
        mean_interval_95=_score_interval(graded),
        pass_rate=_rounded(passed / total),
        pass_rate_interval_95=[_rounded(end) for end in share_interval(passed, total)],
        pass_at_k=[_rounded(pass_at(k, passed, total)) for k in ks],
        pass_hat_k=[_rounded(pass_hat(k, passed, total)) for k in ks],
    )
    return replace(counts, estimates=estimates)


def pass_at(k: int, passed: int, total: int) -> float:
    """Probability that at least one of ``k`` trials passes; unbiased (Chen et al. 2021, arXiv:2107.03374)."""
    return 1 - math.comb(total - passed, k) / math.comb(total, k)


def pass_hat(k: int, passed: int, total: int) -> float:
    """pass^k, the probability that all of ``k`` trials pass; unbiased (Yao et al. 2024, arXiv:2406.12045)."""
    return math.comb(passed, k) / math.comb(total, k)


@dataclass(frozen=True, kw_only=True)
class TrialTotals:
    """Means over tests, each of which weighs the same."""

    tests: int
    k: int
    """The smallest number of graded trials among them, at most ``MAX_K``."""
    pass_at_1: float
    pass_at_1_interval_95: list[float] | None
    pass_at_k: float
    pass_hat_k: float


def totals(tests: Iterable[TrialFigures | None]) -> TrialTotals | None:
    """None where no test has as much as two graded trials that are estimated from."""
    known = [each.estimates for each in tests if each and each.graded > 1 and each.estimates]
    if not known:
        return None
    k = min(len(each.pass_at_k) for each in known)
    rates = [each.pass_rate for each in known]
    return TrialTotals(
        tests=len(known),
        k=k,
        pass_at_1=_rounded(statistics.fmean(rates)),
        pass_at_1_interval_95=_score_interval(rates),
        pass_at_k=_rounded(statistics.fmean(each.pass_at_k[k - 1] for each in known)),
        pass_hat_k=_rounded(statistics.fmean(each.pass_hat_k[k - 1] for each in known)),
    )


def row_figures(row: Row) -> TrialFigures | None:
    """The same for a row, which may be of another program; computed anew, so that nobody's figures are repeated."""
    if not row.trial_scores or row.threshold is None:
        return None
    bounded = [None if score is None else min(max(score, 0.0), 1.0) for score in row.trial_scores]
    return trial_figures(bounded, row.threshold, row.trial_strategy)


def short_words(row: Row) -> str:
    """``mean of 5; 2 passed, 12% to 77%``; empty for a test without trials."""
    figures = row_figures(row)
    if figures is None:
        return ""
    word = STRATEGY_WORDS.get(row.trial_strategy, row.trial_strategy)
    parts = [f"{word} of {len(row.trial_scores)}; {figures.passed} passed"]
    if figures.errors:
        parts.append(f"{figures.errors} with errors")
    if figures.estimates:
        parts.append(_range(figures.estimates.pass_rate_interval_95, ".0%"))
    return ", ".join(parts)


def whole_words(row: Row) -> str:
    """All that can be said of a row's trials, in one line; empty for a test without trials."""
    figures = row_figures(row)
    if figures is None:
        return ""
    parts = [f"{figures.passed} of {figures.graded} graded trials passed"]
    if said := figures.estimates:
        k, spread = len(said.pass_at_k), said.mean_interval_95
        parts[0] += f" (95 % interval {_range(said.pass_rate_interval_95, '.0%')})"
        parts.append(f"mean {said.mean:.2f}" + (f" ({_range(spread, '.2f')})" if spread else ""))
        parts.append(f"pass@{k} {said.pass_at_k[-1]:.2f}, pass^{k} {said.pass_hat_k[-1]:.2f}")
    elif figures.passed:
        parts.append("no further ones after the first pass, so nothing is estimated from them")
    if figures.errors:
        parts.append(f"{figures.errors} with execution errors")
    return "; ".join(parts)


def totals_words(rows: Iterable[Row]) -> str:
    """One line on the trials of a run; empty where there is nothing to estimate."""
    figures = totals(map(row_figures, rows))
    if figures is None:
        return ""
    k, spread = figures.k, figures.pass_at_1_interval_95
    range_ = f" ({_range(spread, '.0%')})" if spread else ""
    tests = "1 test" if figures.tests == 1 else f"{figures.tests} tests"
    return (
        f"Trials of {tests}: pass@1 {figures.pass_at_1:.0%}{range_}, pass@{k} {figures.pass_at_k:.0%}, "
        f"pass^{k} {figures.pass_hat_k:.0%}"
    )


def _score_interval(values: Sequence[float]) -> list[float] | None:
    """None also for values that are all the same: Student's interval has no width then, and says nothing."""
    interval = mean_interval(values) if min(values) < max(values) else None
    return None if interval is None else [_rounded(min(max(end, 0.0), 1.0)) for end in interval]


def _range(ends: Sequence[float], form: str) -> str:
    return f"{ends[0]:{form}} to {ends[1]:{form}}"


def _rounded(value: float) -> float:
    return round(value, _DIGITS)
