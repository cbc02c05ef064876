"""Sessions that GitHub Copilot recorded, read from the project; AgentV reads the same ones."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from agentv_sandbox.models.case import AgentResponse
from agentv_sandbox.models.figures import TokenUsage
from agentv_sandbox.models.json.value import Json
from agentv_sandbox.models.suite import Target
from agentv_sandbox.providers.copilot_log import CopilotLog
from tests.agentv import agentv_command
from tests.pipeline.helpers import Bench, case

USAGE = {"inputTokens": 2000, "outputTokens": 100, "cacheReadTokens": 800, "reasoningTokens": 20}
READ = {"toolCallId": "c0", "name": "bash", "arguments": {"command": "cat notes.txt"}}
SKILL = {"toolCallId": "c1", "name": "skill", "arguments": {"skill": "greet"}}


def event(kind: str, second: int, **data: Json) -> dict[str, Json]:
    stamp = f"2026-11-23T01:24:{second:02}.500Z"
    return {"type": kind, "data": data, "id": f"e{second}", "timestamp": stamp, "parentId": None}


SESSION = [
    event("session.start", 10, sessionId="5a-1", copilotVersion="1.0.102", context={"cwd": "/workspace"}),
    event("user.message", 11, content="Greet the notes."),
    event("skill.invoked", 12, name="notes", path="/workspace/.github/skills/notes/SKILL.md"),
    event("assistant.turn_start", 13, turnId="0"),
    event(
        "assistant.message", 14, messageId="m0", model="gpt-4.1", content="Look.", toolRequests=[READ, SKILL]
    ),
    event("tool.execution_start", 15, toolCallId="c0", toolName="bash", arguments=READ["arguments"]),
    event(
        "tool.execution_complete",
        16,
        toolCallId="c0",
        success=True,
        shellExecution={"exitCode": 0},
        result={"content": "a note"},
    ),
    event("tool.execution_start", 16, toolCallId="c1", toolName="skill", arguments=SKILL["arguments"]),
    event("tool.execution_complete", 17, toolCallId="c1", success=True, result={"content": "loaded"}),
    event("skill.invoked", 17, name="greet", path="/workspace/.github/skills/greet/SKILL.md"),
    event("assistant.turn_start", 18, turnId="1"),
    event("assistant.message", 19, messageId="m1", model="gpt-4.1", content="Hello, notes.", toolRequests=[]),
    event("session.shutdown", 20, currentModel="gpt-4.1", modelMetrics={"gpt-4.1": {"usage": USAGE}}),
]
"""In the form of version 1.0.102."""


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path, {})
    yield made
    made.engine.close()


def write(folder: Path, *lines: Mapping[str, Json] | str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    (folder / "events.jsonl").write_text("\n".join(texts) + "\n")
    return folder


def target(**settings: Json) -> Target:
    return Target(name="agent", provider="copilot-log", settings=settings)


def answer(bench: Bench, **settings: Json) -> AgentResponse:
    result = bench.run(bench.suite([case("t")], targets={"agent": target(**settings)}))["t"]
    assert result.response is not None, result.failure
    assert not bench.engine_runs("agent")
    return result.response


@pytest.mark.parametrize(
    "settings", [{"session_dir": "state/5a-1"}, {"session_state_dir": "state", "session_id": "5a-1"}]
)
def test_a_recorded_session_is_graded_without_a_container(bench: Bench, settings: dict[str, Json]) -> None:
    write(bench.folder / "state/5a-1", *SESSION)
    response = answer(bench, **settings)
    assert response.failure is None
    assert response.answer == "Hello, notes."
    calls = [call for message in response.messages for call in message.wire().get("tool_calls", ())]
    assert [(call["tool"], call["input"], call.get("output")) for call in calls] == [
        ("Skill", {"skill": "notes"}, None),
        ("Bash", {"command": "cat notes.txt"}, "a note"),
        ("Skill", {"skill": "greet"}, "loaded"),
    ]
    assert response.token_usage == TokenUsage(input=2000, output=100, cached=800, reasoning=20)
    assert (response.start_time, response.duration_ms) == ("2026-11-23T01:24:10.500Z", 10_000)
    facts = {"program": "copilot", "version": "1.0.102", "model": "gpt-4.1", "turns": 2}
    assert response.agent == facts


@pytest.mark.slow
def test_agentv_reads_the_same_session_alike(tmp_path: Path) -> None:
    """It has each call twice, as it was asked for and as it was carried out, and the user's words."""
    write(tmp_path / "state/5a-1", *SESSION)
    (tmp_path / ".agentv").mkdir()
    settings = "{name: default, provider: copilot-log, session_dir: state/5a-1}"
    (tmp_path / ".agentv/targets.yaml").write_text(f"targets: [{settings}]\n")
    suite = "tests: [{id: t, input: x, assertions: [{type: skill-trigger, skill: greet}, "
    suite += "{type: equals, value: 'Hello, notes.'}, {type: token-usage, max_input: 2000}]}]\n"
    (tmp_path / "s.eval.yaml").write_text(suite)
    argv = [*agentv_command(), "eval", "run", "s.eval.yaml", "--output", "theirs"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    theirs = json.loads((tmp_path / "theirs/index.jsonl").read_text())
    (tmp_path / "ours").mkdir()
    bench = Bench(tmp_path / "ours", {})
    try:
        write(bench.folder / "state/5a-1", *SESSION)
        ours = answer(bench, session_dir="state/5a-1")
    finally:
        bench.engine.close()
    assert theirs["score"] == 1
    assert ours.answer == "Hello, notes."
    assert theirs["duration_ms"] == ours.duration_ms
    assert ours.token_usage is not None
    usage = {"input": ours.token_usage.input, "output": ours.token_usage.output}
    assert theirs["token_usage"] == usage


def test_what_is_no_event_is_skipped(bench: Bench) -> None:
    deep = '{"type": "assistant.message", "data": ' + "[" * 100_000
    odd: list[Any] = ["{", "7", '{"type": 7}', deep, '{"type": "skill.invoked", "data": {"name": ["x"]}}']
    odd += [
        '{"type": "session.shutdown", "timestamp": "9999-12-31T23:59:59-23:59", "data": {"modelMetrics": []}}'
    ]
    odd += ['}\n{"type": "assistant.message"}', '{"type": "x", "timestamp": "2026-11-23T01:24:10"}']
    write(bench.folder / "s", *odd, *SESSION)
    assert answer(bench, session_dir="s").answer == "Hello, notes."


def test_a_session_without_an_answer_is_an_error(bench: Bench) -> None:
    write(bench.folder / "s", *SESSION[:2])
    failure = answer(bench, session_dir="s").failure
    assert failure is not None and "has no message of the model" in failure.message


def test_nothing_outside_the_project_is_read(bench: Bench, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = write(tmp_path_factory.mktemp("outside"), *SESSION)
    (bench.folder / "link").symlink_to(outside)
    for path, said in ((str(outside), "lies outside"), ("link", "lies outside"), ("gone", "not found")):
        result = bench.run(bench.suite([case("t")], targets={"agent": target(session_dir=path)}))["t"]
        assert result.failure is not None and said in result.failure.message


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({}, "session_dir is required"),
        ({"discover": "latest"}, "discover is not supported"),
        ({"session_id": "5a-1"}, "session_dir is required"),
        ({"session_id": "../x", "session_state_dir": "s"}, "must be the name of a folder"),
    ],
)
def test_settings_that_name_no_session_are_refused(settings: dict[str, Json], said: str) -> None:
    (problem,) = CopilotLog().check(target(**settings))
    assert said in problem.message
