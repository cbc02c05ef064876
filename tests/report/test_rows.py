"""Figures and spans of one row."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentv_sandbox.models.case import AgentResponse, CaseFailure, CaseResult, Changes, FileChange
from agentv_sandbox.models.suite import Suite, Target
from agentv_sandbox.rows.rowfile import read_rows
from agentv_sandbox.rows.rows import MAX_INPUT, grading
from agentv_sandbox.runfolder.folder import RunFolder
from tests.answers import message
from tests.report.made_results import make_case, make_error, make_grader, make_output, make_result, write_case


def written(tmp_path: Path, suite: Suite, result: CaseResult) -> tuple[dict[str, Any], Path]:
    with RunFolder.create(tmp_path / f"out-{result.trial}", tmp_path) as folder:
        place = write_case(folder, result, make_case(), suite)
    [row] = read_rows(folder.path).rows
    return row, place


def test_the_agents_time_and_the_tests(tmp_path: Path, suite: Suite) -> None:
    row, _ = written(tmp_path, suite, make_result())
    assert (row["duration_ms"], row["total_duration_ms"]) == (1500, 2000)
    row, _ = written(tmp_path, suite, replace(make_error(), trial=1))
    assert (row["duration_ms"], row["total_duration_ms"]) == (2000, 2000)


def test_an_answer_without_a_time_has_none_in_its_row_however_long_its_graders_took(
    tmp_path: Path, suite: Suite
) -> None:
    result = make_result(output=make_output(duration_ms=None))
    row, place = written(tmp_path, suite, result)
    assert "duration_ms" not in row
    assert row["total_duration_ms"] == 2000
    assert json.loads((place / "timing.json").read_text())["duration_ms"] == 0
    tries = replace(result, trial=1, trials=(replace(result, trial=1), make_result(trial=2)))
    assert written(tmp_path, suite, tries)[0]["duration_ms"] == 1500


def test_a_row_says_which_target_its_own_stands_for(tmp_path: Path, suite: Suite) -> None:
    alias = Target(name="agent", provider="mock", stands_for="other")
    row, _ = written(tmp_path, replace(suite, targets={"agent": alias}), make_result())
    assert (row["target"], row["stands_for"]) == ("agent", "other")


@pytest.mark.parametrize(("attempts", "shown"), [(1, None), (2, 2)])
def test_repeated_attempts_are_reported(
    attempts: int, shown: int | None, tmp_path: Path, suite: Suite
) -> None:
    row, _ = written(tmp_path, suite, make_result(response=AgentResponse(attempts=attempts)))
    assert row.get("attempts") == shown


def test_a_long_request_stands_in_its_own_file_alone(tmp_path: Path, suite: Suite) -> None:
    room = MAX_INPUT - len(json.dumps({"p": ""}))
    graders = [make_grader(f"g{n}", input={"p": "x" * (room + n)}, raw_reply="r") for n in (0, 1)]
    row, place = written(tmp_path, suite, make_result(scores=tuple(graders)))
    assert ["input" in score for score in row["scores"]] == [True, False]
    assert json.loads((place / "prompts/g1.json").read_text())["request"] == graders[1].input


def test_changes_are_counted_by_what_is_new() -> None:
    kinds = ("added", "added", "deleted", "renamed", "mode", "modified")
    files = tuple(FileChange(path=str(n), kind=kind) for n, kind in enumerate(kinds))  # type: ignore[arg-type]
    document = grading(make_result(output=make_output(changes=Changes(diff="d", files=files))))
    assert document["workspace_changes"] == {"files_modified": 4, "files_created": 2, "diff_summary": "d"}


def test_failure_keeps_earlier_grader_results() -> None:
    failure = CaseFailure(
        stage="evaluator", code="evaluator_error", message="no verdict", fault="grader_failed"
    )
    judged = grading(make_result(failure=failure, status="execution_error"))
    assert [row["text"] for row in judged["assertions"]] == ["totals holds"]
    alone = grading(make_error())
    assert [row["text"] for row in alone["assertions"]] == ["Error: the agent timed out after 3 s"]
    assert alone["summary"] == {"passed": 0, "failed": 1, "total": 1, "pass_rate": 0}
    assert alone["execution_metrics"]["errors_encountered"] == 1


def test_blank_lines_of_an_index_are_no_rows(tmp_path: Path) -> None:
    (tmp_path / "index.jsonl").write_bytes(b'{"a": 1}\n\n  \r\n{"b": 2}\n')
    read = read_rows(tmp_path)
    assert (list(read.rows), list(read.problems)) == ([{"a": 1}, {"b": 2}], [])


def trace(tmp_path: Path, suite: Suite, result: CaseResult) -> dict[str, Any]:
    return json.loads((written(tmp_path, suite, result)[1] / "outputs/trace.json").read_text())  # type: ignore[no-any-return]


def test_a_span_for_each_tool_call_says_whether_it_went_well(tmp_path: Path, suite: Suite) -> None:
    calls = [{"tool": "A", "status": status} for status in ("ok", "error", "timeout", "cancelled")]
    said = message("x", tool_calls=[*calls, "no call", {"input": 1}])
    document = trace(tmp_path, suite, make_result(output=make_output(messages=(said,))))
    root, *spans = document["trace"]["spans"]
    assert [span["status"]["code"] for span in spans] == ["OK", "ERROR", "ERROR", "OK"]
    assert {span["name"] for span in spans} == {"execute_tool A"}
    assert {span["parent_span_id"] for span in spans} == {root["span_id"]}
    assert len({span["span_id"] for span in (root, *spans)}) == 5


def test_trials_of_a_test_are_traces_of_their_own(tmp_path: Path, suite: Suite) -> None:
    with RunFolder.create(tmp_path / "out", tmp_path) as folder:
        places = [write_case(folder, make_result(trial=trial), make_case(), suite) for trial in (0, 1, 2)]
    traces = [json.loads((place / "outputs/trace.json").read_text()) for place in places]
    assert [made["eval"]["attempt"] for made in traces] == [0, 0, 1]
    assert len({made["trace"]["trace_id"] for made in traces}) == 3
    assert len({made["artifact_id"] for made in traces}) == 3
