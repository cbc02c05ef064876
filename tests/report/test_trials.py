"""What several trials of a test say: figures held against SciPy's, and the words in every report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from agentv_sandbox.models.case import CaseResult
from agentv_sandbox.models.suite import Suite
from agentv_sandbox.report import kept_views
from agentv_sandbox.report.page import render
from agentv_sandbox.report.summary import verdict_line
from agentv_sandbox.report.views.junit import junit
from agentv_sandbox.rows.reader import Run
from agentv_sandbox.rows.record import Row
from agentv_sandbox.rows.restoring import result_of
from agentv_sandbox.rows.rowfile import read_rows
from agentv_sandbox.rows.trialfigures import (
    TrialFigures,
    pass_at,
    pass_hat,
    row_figures,
    totals,
    trial_figures,
)
from agentv_sandbox.runfolder.folder import RunFolder
from tests.pagedata import details_of
from tests.report.made_results import make_case, make_grader, make_result, row_of, write_case
from tests.report.test_summary import printed


def said(figures: TrialFigures | None) -> dict[str, Any]:
    assert figures is not None
    return figures.wire()


def wire(scores: list[float | None], threshold: float, strategy: str) -> dict[str, Any]:
    return said(trial_figures(scores, threshold, strategy))


def test_statistics_of_trials_are_scipys() -> None:
    """``stats.t.interval``, ``stats.binomtest(k, n).proportion_ci(method="wilson")`` of SciPy 1.17."""
    assert wire([0.9, None, 0.7, 0.8], 0.8, "mean") == {
        "graded": 3,
        "passed": 2,
        "errors": 1,
        "mean": 0.8,
        "mean_interval_95": [pytest.approx(0.551586, abs=1e-6), 1.0],  # SciPy's upper end is 1.048: no score
        "pass_rate": pytest.approx(2 / 3, abs=1e-6),
        "pass_rate_interval_95": [pytest.approx(0.207660, abs=1e-6), pytest.approx(0.938508, abs=1e-6)],
        "pass_at_k": [pytest.approx(2 / 3, abs=1e-6), 1.0, 1.0],
        "pass_hat_k": [pytest.approx(2 / 3, abs=1e-6), pytest.approx(1 / 3, abs=1e-6), 0.0],
    }


HYPERGEOMETRIC = {
    (5, 2): ([0.4, 0.7, 0.9, 1.0, 1.0], [0.4, 0.1, 0.0, 0.0, 0.0]),
    (5, 5): ([1.0] * 5, [1.0] * 5),
    (4, 0): ([0.0] * 4, [0.0] * 4),
}
"""``1 - stats.hypergeom.pmf(0, n, c, k)`` and ``stats.hypergeom.pmf(k, n, c, k)``, by number of trials and passes."""


@pytest.mark.parametrize(("total", "passed"), HYPERGEOMETRIC)
def test_passes_at_k_are_hypergeometric(total: int, passed: int) -> None:
    at, hat = HYPERGEOMETRIC[total, passed]
    ks = range(1, total + 1)
    assert [pass_at(k, passed, total) for k in ks] == pytest.approx(at)
    assert [pass_hat(k, passed, total) for k in ks] == pytest.approx(hat)


def test_nothing_is_estimated_from_trials_that_ended_at_the_first_pass() -> None:
    counts = {"graded": 3, "passed": 1, "errors": 0}
    assert wire([0.1, 0.2, 0.9], 0.8, "pass_at_k") == {**counts, "ended_at_first_pass": True}
    assert wire([0.1, 0.2, 0.3], 0.8, "pass_at_k")["pass_rate"] == 0.0
    assert totals([trial_figures([0.1, 0.9], 0.8, "pass_at_k")]) is None


def test_equal_scores_give_no_interval_of_the_mean() -> None:
    """Student's has no width then: three passes of three would look like certainty."""
    figures = wire([1.0, 1.0, 1.0], 0.8, "mean")
    assert figures["mean_interval_95"] is None
    assert figures["pass_rate_interval_95"][0] == pytest.approx(0.438503, abs=1e-6)
    assert wire([None], 0.8, "mean") == {"graded": 0, "passed": 0, "errors": 1}
    assert trial_figures([], 0.8, "") is None


def tried(name: str, *scores: float, strategy: str = "mean") -> CaseResult:
    trials = tuple(
        make_result(name, score, trial=number, scores=(make_grader(score=score, cost_usd=0.5),))
        for number, score in enumerate(scores, 1)
    )
    mean = sum(scores) / len(scores)
    return make_result(name, mean, trial_scores=scores, trial_strategy=strategy, trials=trials, shown_trial=1)


MIXED, GOOD = tried("mixed", 1.0, 0.0, 1.0, 0.0, 1.0), tried("good", 1.0, 0.9, 1.0)


def test_the_verdict_names_what_the_strategy_compares() -> None:
    rows = [row_of(MIXED), row_of(GOOD)]
    assert verdict_line(rows) == (
        "RESULT: FAIL  (1/2 with the mean of their trials >= 80%, mean over tests: 78%)"
    )
    rows = [row_of(MIXED), row_of(make_result("once"))]
    assert "1/2 >= 80% by the strategy of their trials, mean over tests: 80%" in verdict_line(rows)
    text = printed([MIXED, GOOD], width=160)
    assert "mean of 5; 3 passed, 23% to 88%" in text
    assert "Trials of 2 tests: pass@1 80% (0% to 100%), pass@3 100%, pass^3 55%" in text
    assert "the mean of 5 trials, 0.60, is below the threshold 0.80" in text
    assert "scored >=" not in text


def test_every_trial_has_its_entry_folder_verdict_and_cost(tmp_path: Path, suite: Suite) -> None:
    with RunFolder.create(tmp_path / "run", tmp_path) as folder:
        write_case(folder, MIXED, make_case("mixed"), suite)
        folder.finish(views=kept_views())
    [row] = read_rows(folder.path).rows
    assert row["trial_statistics"] == said(row_figures(row))
    assert [entry["execution_status"] for entry in row["trials"]] == [
        "ok",
        "quality_failure",
        "ok",
        "quality_failure",
        "ok",
    ]
    assert [(folder.path / entry["artifact_dir"]).is_dir() for entry in row["trials"]] == [True] * 5
    assert row["cost_usd"] == sum(entry["cost_usd"] for entry in row["trials"]) == 1.25
    assert row["spent_usd"] == sum(entry["spent_usd"] for entry in row["trials"])
    assert [entry["scores"][0]["score"] for entry in row["trials"]] == row["trial_scores"]
    figures = json.loads((folder.path / "benchmark.json").read_text())["run_summary"]["agent"]
    assert (figures["pass_rate"]["mean"], figures["trials"]["pass_hat_k"]) == (0.6, 0.0)
    restored = result_of(row)
    assert restored is not None and [each.score for each in restored.trials] == row["trial_scores"]
    (details,) = details_of(render([Run.open(folder.path)]))
    words = "3 of 5 graded trials passed (95 % interval 23% to 88%); mean 0.60 (0.00 to 1.00)"
    assert details["trials_words"].startswith(words)
    assert [each["folder"] for each in details["trials"]] == [
        entry["artifact_dir"] for entry in row["trials"]
    ]
    assert all(each["details"]["graders"] for each in details["trials"])
    [properties] = ElementTree.fromstring(junit([row])).iter("properties")
    named = {each.get("name"): each.get("value") for each in properties}
    assert named["trial_strategy"] == "mean" and str(named["trials"]).startswith("3 of 5 graded trials")


def test_figures_of_a_hostile_row_are_bounded() -> None:
    row = {"trial_scores": [10**400, -5, 0.5, None] * 20_000, "threshold": 0.8, "trial_strategy": "\x1b[31m"}
    figures = said(row_figures(Row.of(row)[0]))
    assert figures["graded"] == 60_000
    assert len(figures["pass_at_k"]) == 100 and figures["mean"] == pytest.approx(0.5)
