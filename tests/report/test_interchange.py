"""A run folder from a stranger as ATIF documents and as OpenTelemetry spans."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agentv_sandbox.base.errors import InputError
from agentv_sandbox.report.views.interchange import MAX_TEXT, write_atif, write_spans
from agentv_sandbox.rows.reader import Run

ROW = {
    "test_id": "a",
    "suite": "s",
    "target": "t",
    "score": 1.0,
    "execution_status": "ok",
    "timestamp": "2026-03-07T00:00:00+00:00",
    "transcript_path": "a/transcript.jsonl",
    "model_log_path": "a/model.jsonl",
}
SAID = {"role": "assistant", "content": "hello"}


def folder(path: Path, row: Mapping[str, Any], said: list[Any], calls: str = "") -> Run:
    (path / "a").mkdir(parents=True)
    (path / "index.jsonl").write_text(json.dumps({**ROW, **row}) + "\n")
    lines = [line if isinstance(line, str) else json.dumps(line) for line in said]
    (path / "a/transcript.jsonl").write_text("\n".join(lines))
    (path / "a/model.jsonl").write_text(calls)
    return Run.open(path)


def written(run: Run, out: Path) -> tuple[Any, list[Any]]:
    write_atif(run, out / "atif")
    write_spans(run, out / "otel")
    [document] = [json.loads(path.read_text()) for path in (out / "atif").iterdir()]
    spans = json.loads((out / "otel/spans.otlp.json").read_text())
    return document, spans["resourceSpans"][0]["scopeSpans"][0]["spans"]


HOSTILE: list[tuple[Mapping[str, Any], list[Any]]] = [
    ({"agent": 7, "token_usage": [], "cost_usd": 1e300}, [SAID]),
    ({"agent": {"version": ["x"], "program": {}}, "duration_ms": -5}, [SAID]),
    ({"start_time": "9999-12-31T23:59:59+00:00", "duration_ms": 1e11}, [SAID]),
    ({"start_time": "0001-01-01T00:00:00", "end_time": "never"}, [SAID]),
    ({}, ["{", "[]", "7", "[" * 50_000, SAID]),
    ({}, [{"role": 7, "content": {"a": 1}, "tool_calls": 3}, SAID]),
    (
        {},
        [
            {
                **SAID,
                "tool_calls": [7, {"tool": 1}, {"tool": "x" * 9000, "id": [], "input": "i", "output": None}],
            }
        ],
    ),
    ({}, [{**SAID, "start_time": 5, "tool_calls": [{"tool": "x", "start_time": {}, "end_time": "2026"}]}]),
    ({"target": "../../x", "test_id": "../y\u2028\x1b[2J"}, [SAID]),
]


@pytest.mark.parametrize(("row", "said"), HOSTILE)
def test_what_makes_no_sense_is_left_out(row: Mapping[str, Any], said: list[Any], tmp_path: Path) -> None:
    calls = (
        '{"time": "2026-01-01T00:00:00", "duration_s": 1e300, "status": "x", "usage": 3, "path": []}\n{\n7\n'
    )
    document, spans = written(folder(tmp_path / "run", row, said, calls), tmp_path / "out")
    assert [step["step_id"] for step in document["steps"]] == list(range(1, len(document["steps"]) + 1))
    for step in document["steps"]:
        names = {call["tool_call_id"] for call in step.get("tool_calls", ())}
        assert all(isinstance(call["arguments"], dict) for call in step.get("tool_calls", ()))
        assert {each["source_call_id"] for each in step.get("observation", {}).get("results", ())} <= names
    assert isinstance(document["agent"]["version"], str)
    assert spans[0]["name"].startswith("invoke_agent")
    for span in spans:
        assert int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"]) < 1 << 64
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "run"]


def test_calls_of_one_name_stay_apart(tmp_path: Path) -> None:
    calls = [{"tool": "x", "id": "same", "output": "1"}, {"tool": "x", "id": "same", "output": "2"}]
    document, _ = written(folder(tmp_path / "run", {}, [{**SAID, "tool_calls": calls}]), tmp_path / "out")
    [step] = document["steps"]
    assert len({call["tool_call_id"] for call in step["tool_calls"]}) == 2


def test_the_agents_span_names_the_fault(tmp_path: Path) -> None:
    """AgentV's code is the same for most of them; a row of AgentV's own has nothing else."""
    code = {"execution_status": "execution_error", "failure_reason_code": "provider_error"}
    for number, (row, expected) in enumerate(
        [({**code, "fault": "timeout"}, "timeout"), (code, "provider_error")]
    ):
        out = tmp_path / str(number)
        _, [span] = written(folder(out / "run", row, [SAID]), out)
        values = {each["key"]: each["value"] for each in span["attributes"]}
        assert values["error.type"] == {"stringValue": expected}


def test_texts_of_spans_are_bounded(tmp_path: Path) -> None:
    call = {"tool": "x", "output": "y" * (2 * MAX_TEXT)}
    _, spans = written(folder(tmp_path / "run", {}, [{**SAID, "tool_calls": [call]}]), tmp_path / "out")
    texts = [each["value"].get("stringValue", "") for span in spans for each in span["attributes"]]
    assert MAX_TEXT < max(map(len, texts)) < MAX_TEXT + 100


@pytest.mark.parametrize("path", ["../secret", "/etc/hostname", "a/link"])
def test_nothing_outside_of_the_folder_is_read(path: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(json.dumps(SAID))
    run = folder(tmp_path / "run", {"transcript_path": path}, [SAID])
    (tmp_path / "run/a/link").symlink_to(tmp_path / "secret")
    assert write_atif(run, tmp_path / "out") == (0, 1)
    assert list((tmp_path / "out").iterdir()) == []


def test_a_folder_that_is_not_empty_is_refused(tmp_path: Path) -> None:
    run = folder(tmp_path / "run", {}, [SAID])
    with pytest.raises(InputError, match="is not empty"):
        write_spans(run, tmp_path / "run")
