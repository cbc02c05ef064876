"""Comparisons of runs as one page, under the rules of ``report.html``: no script, nothing loaded, all data escaped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from agentv_sandbox.report.comparison import Comparison, Figures, TestChange
from agentv_sandbox.report.files import replace_file
from agentv_sandbox.report.page import BUFFERED, WORDS, page_environment

MAX_TESTS = 5000
"""Of one comparison; what changed comes first."""
_BADGES = {"fell": "fail", "error": "error", "missing": "error", "rose": "pass", "mended": "pass"}
FILTERS = ("changed", "fell", "rose", "errors", "flaky", "all")
"""What the page can show of the tests, the one that it opens with first."""


def write_comparison_page(path: Path, comparisons: Sequence[Comparison], sentences: Sequence[str]) -> None:
    """Write ``path``, a new file or one to be replaced. ``sentences``: the verdict on each. Raises OSError."""
    pieces = render(comparisons, sentences)
    replace_file(path, (piece.encode("utf-8", "backslashreplace") for piece in pieces))


def render(comparisons: Sequence[Comparison], sentences: Sequence[str]) -> Iterator[str]:
    """The page as HTML text, in pieces."""
    environment = page_environment()
    environment.filters["score"] = _score
    environment.filters["classes"] = _classes
    environment.filters["faults"] = _faults
    environment.filters["signed"] = _signed
    page = environment.get_template("comparison.html.j2").stream(
        sections=list(zip(comparisons, sentences, strict=True)),
        badges=_BADGES,
        filters=FILTERS,
        counts=[_counts(comparison) for comparison in comparisons],
        max_tests=MAX_TESTS,
    )
    page.enable_buffering(BUFFERED)
    yield from page


def _classes(test: TestChange) -> list[str]:
    """By which of ``FILTERS`` a test is shown."""
    faults = any(figures is not None and figures.fault for figures in (test.before, test.after))
    names = {
        "changed": test.change != "same" or test.flaky or faults,
        "fell": test.change == "fell",
        "rose": test.change == "rose",
        "errors": faults,
        "flaky": test.flaky,
    }
    return [name for name, holds in names.items() if holds]


def _counts(comparison: Comparison) -> dict[str, int]:
    shown = [_classes(test) for test in comparison.tests]
    counts = {name: sum(name in classes for classes in shown) for name in FILTERS}
    return {**counts, "all": len(shown)}


def _score(figures: Figures | None) -> str:
    if figures is None:
        return "–"
    return WORDS.get(figures.status, "?") if figures.score is None else f"{figures.score:.2f}"


def _faults(test: TestChange) -> str:
    """``timeout → agent_exit``; one alone where the other run has none."""
    before, after = (figures.fault if figures is not None else "" for figures in (test.before, test.after))
    return f"{before} → {after}" if before and after and before != after else before or after


def _signed(pair: tuple[float | None, float | None], form: str) -> str:
    """The difference of two figures of which both are known."""
    before, after = pair
    return "–" if before is None or after is None else format(after - before, form)
