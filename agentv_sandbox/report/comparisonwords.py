"""What a comparison of two runs shows, and what a person's ratings of one, as sentences."""

from __future__ import annotations

from agentv_sandbox.report.comparison import Comparison
from agentv_sandbox.runfolder.ratings import Agreement


def evidence(comparison: Comparison) -> str:
    """The mean change, its interval and how likely it is if nothing changed."""
    if comparison.mean_difference is None:
        return "no test was graded in both runs"
    interval = comparison.interval
    range_ = f", 95 % interval {interval[0]:+.3f} to {interval[1]:+.3f}" if interval else ""
    tests = "1 test" if comparison.paired == 1 else f"{comparison.paired} tests"
    return (
        f"mean change {comparison.mean_difference:+.3f} over {tests}{range_}; "
        f"chance of such a fall if nothing changed: {_chance(comparison.chance_of_fall)}"
    )


def agreement_words(found: Agreement) -> str:
    """How many results a person rated, and where graders say otherwise."""
    results = "1 result" if found.rated == 1 else f"{found.rated} results"
    parts = [
        f"{results} rated by a person; graders agree on {found.agreed} ({found.agreed / found.rated:.0%})"
    ]
    if found.kappa is not None:
        parts.append(f"kappa {found.kappa:.2f}")
    if found.agreed < found.rated:
        parts.append(f"passed what the person failed: {found.too_kind}")
        parts.append(f"failed what the person passed: {found.too_strict}")
    if found.score_distance is not None:
        parts.append(f"scores differ by {found.score_distance:.2f} on average")
    return ", ".join(parts)


def _chance(value: float) -> str:
    return "under 0.0001" if value < 0.0001 else f"{value:.4f}"
