"""What a comparison of two runs shows, as a sentence."""

from __future__ import annotations

from agentv_sandbox.report.comparison import Comparison


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


def _chance(value: float) -> str:
    return "under 0.0001" if value < 0.0001 else f"{value:.4f}"
