"""An interrupt while the host works on one huge answer."""

from __future__ import annotations

import json
import signal
import time

import pytest

from tests.e2e.conftest import Project

pytestmark = pytest.mark.engine

TARGETS = """
targets:
  - {name: agent, provider: replay, fixtures: recorded.jsonl, source_target: live}
"""
SUITE = """
name: recorded
execution: {target: agent, workers: 1}
assertions: [{type: contains, value: done}]
tests:
  - {id: quick, criteria: c, input: go}
"""
HUGE = [f"huge{n}" for n in range(8)]


def recorded(test_id: str, calls: int) -> str:
    message = {
        "role": "assistant",
        "content": "done",
        "tool_calls": [{"tool": "t", "duration_ms": 1}] * calls,
    }
    row = {"schema_version": "agentv.replay_fixture.v1", "suite": "recorded", "source_target": "live"}
    return json.dumps({**row, "test_id": test_id, "output": [message]}) + "\n"


def test_an_interrupt_ends_work_on_a_huge_answer_and_keeps_the_rows(project: Project) -> None:
    """Eight such answers take minutes."""
    tests = "".join(f"  - {{id: {name}, criteria: c, input: go}}\n" for name in HUGE)
    fixtures = recorded("quick", 1) + "".join(recorded(name, 80_000) for name in HUGE)
    project.write({"targets.yaml": TARGETS, "m.eval.yaml": SUITE + tests, "recorded.jsonl": fixtures})
    process = project.start("m.eval.yaml")
    index = project.output / "index.jsonl"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (index.is_file() and index.read_text().endswith("\n")):
        time.sleep(0.1)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    text, _ = process.communicate(timeout=60)
    assert process.returncode == 130, text
    rows = [json.loads(line) for line in index.read_text().splitlines()]
    assert [row["test_id"] for row in rows] == ["quick", *HUGE][: len(rows)]
    assert 1 <= len(rows) < 5
    assert (project.output / "report.html").is_file()
    assert "Traceback" not in text
