"""``benchmark.json`` and ``timing.json``: which rows count for what."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agentv_sandbox.models.case import CaseResult
from agentv_sandbox.models.figures import TokenUsage
from agentv_sandbox.models.suite import Suite
from agentv_sandbox.report import kept_views
from agentv_sandbox.runfolder.folder import RunFolder
from tests.report.made_results import make_case, make_error, make_grader, make_output, make_result, write_case


def figures(tmp_path: Path, suite: Suite, *results: CaseResult) -> tuple[dict[str, Any], dict[str, Any]]:
    with RunFolder.create(tmp_path / "out", tmp_path, experiment="e") as folder:
        for result in results:
            write_case(folder, result, make_case(), suite)
        folder.finish(views=kept_views())
    made = (json.loads((folder.path / name).read_text()) for name in ("benchmark.json", "timing.json"))
    return next(made), next(made)


def test_every_row_counts_for_time_and_only_judged_ones_for_quality(tmp_path: Path, suite: Suite) -> None:
    graders = (make_grader("exact", 0.8), make_grader("below", 0.79))
    usage = TokenUsage(input=100, output=20, cached=3)
    benchmark, timing = figures(
        tmp_path,
        suite,
        make_result("a", 0.8, scores=graders, timestamp="first"),
        make_result("b", output=make_output(token_usage=usage, cost_usd=0.75, duration_ms=500)),
        make_error("c"),
        make_result("d", target="other", scores=(), output=make_output(cost_usd=None, messages=())),
    )
    assert benchmark["metadata"] == {
        "eval_file": str(suite.path),
        "timestamp": "first",
        "targets": ["agent", "other"],
        "tests_run": ["a", "b", "c", "d"],
        "experiment": "e",
        "planned_test_count": 4,
    }
    assert benchmark["run_summary"] == {
        "agent": {
            "pass_rate": {"mean": 0.75, "stddev": 0.25},  # one of two graders, then all
            "time_seconds": {
                "mean": 1.333,
                "stddev": 0.624,
            },  # 1.5, 0.5 and, of the error, the test's own 2.0
            "tokens": {"mean": 67.5, "stddev": 52.5},
            "tool_calls": {"mean": 0.667, "stddev": 0.471},
            "cost_usd": {"mean": 0.5, "stddev": 0.25},
        },
        "other": {
            "pass_rate": {"mean": 1, "stddev": 0},  # without graders, by the test's score
            "time_seconds": {"mean": 1.5, "stddev": 0},
            "tokens": {"mean": 15, "stddev": 0},
        },
    }
    assert benchmark["per_grader_summary"] == {
        "exact:code-grader": {"mean": 0.8, "stddev": 0},
        "below:code-grader": {"mean": 0.79, "stddev": 0},
        "totals:code-grader": {"mean": 1, "stddev": 0},
    }
    assert benchmark["notes"] == ["1 test(s) had execution errors and are excluded from quality pass_rate"]
    assert timing == {
        "total_tokens": 150,
        "duration_ms": 5500,
        "total_duration_seconds": 5.5,
        "token_usage": {"input": 120, "output": 30, "reasoning": 0},
    }


def test_error_with_scores_does_not_count_as_quality(tmp_path: Path, suite: Suite) -> None:
    """A model grader that gave no verdict beside one that did."""
    broken = make_result("a", 0.0, status="execution_error", scores=(make_grader("one", 1.0),))
    benchmark, _ = figures(tmp_path, suite, broken)
    assert benchmark["run_summary"]["agent"]["pass_rate"] == {"mean": 0, "stddev": 0}
    assert "per_grader_summary" not in benchmark


def test_nothing_ran(tmp_path: Path, suite: Suite) -> None:
    benchmark, timing = figures(tmp_path, suite)
    assert benchmark["notes"] == ["No results to summarize"]
    assert (benchmark["run_summary"], timing["total_tokens"], timing["duration_ms"]) == ({}, 0, 0)
