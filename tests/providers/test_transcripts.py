"""Sessions that Claude Code, Codex and Copilot kept, read as answers; AgentV imports the same ones."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agentv_sandbox.agents import session
from agentv_sandbox.models.case import AgentResponse
from agentv_sandbox.models.figures import TokenUsage
from agentv_sandbox.models.json.value import Json
from agentv_sandbox.models.suite import Target
from agentv_sandbox.providers import transcripts
from agentv_sandbox.providers.transcripts import NotATranscriptError, read_transcript
from tests.agentv import agentv_command

from .test_copilot_log import SESSION as COPILOT

ID = "0190d1d4-1111-4222-8333-0123456789ab"
TARGET = Target(name="agent", provider="mock")


def claude(kind: str, second: int, content: Json, **more: Json) -> dict[str, Json]:
    message: dict[str, Json] = {"role": kind, "content": content}
    if kind == "assistant":
        usage = {"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": second}
        message |= {"id": more.pop("id", "m1"), "model": "claude-fable", "usage": usage}
    at = f"2026-11-24T10:00:{second:02}.000Z"
    known = {"sessionId": ID, "cwd": "/work", "version": "2.1.330", "requestId": str(message.get("id"))}
    return {"type": kind, "timestamp": at, "uuid": f"u{second}", **known, "message": message, **more}


def text(said: str) -> dict[str, Json]:
    return {"type": "text", "text": said}


CLAUDE = [
    {"type": "file-history-snapshot", "snapshot": {}},
    claude("user", 1, "What is here?"),
    claude("assistant", 2, [text("I look.")]),
    claude("assistant", 3, [{"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}}]),
    claude("user", 4, [{"type": "tool_result", "tool_use_id": "t1", "content": [text("a.txt")]}]),
    claude("assistant", 5, [text("Words of another agent.")], isSidechain=True, id="m7"),
    claude("assistant", 6, [text("There is a.txt.")], id="m2"),
]


def codex(kind: str, second: int, **payload: Json) -> dict[str, Json]:
    return {"timestamp": f"2026-11-24T10:00:{second:02}.000Z", "type": kind, "payload": payload}


TOTALS = {"input_tokens": 50, "cached_input_tokens": 20, "output_tokens": 9, "reasoning_output_tokens": 3}
CODEX = [
    codex("session_meta", 0, id=ID, cwd="/work", cli_version="0.140.0"),
    codex("turn_context", 1, model="gpt-5.5", cwd="/work"),
    codex("event_msg", 1, type="user_message", message="What is here?"),
    codex("response_item", 2, type="reasoning", summary=[]),
    codex(
        "response_item",
        3,
        type="message",
        role="assistant",
        content=[{"type": "output_text", "text": "I look."}],
    ),
    codex(
        "response_item", 4, type="function_call", name="exec_command", call_id="c1", arguments='{"cmd": "ls"}'
    ),
    codex("response_item", 5, type="function_call_output", call_id="c1", output="a.txt"),
    codex(
        "response_item", 5, type="custom_tool_call", name="apply_patch", call_id="c2", input="*** Begin Patch"
    ),
    codex("response_item", 5, type="custom_tool_call_output", call_id="c2", output="Done"),
    codex("response_item", 5, type="web_search_call", action={"type": "search", "query": "weather"}),
    codex("event_msg", 6, type="token_count", info={"total_token_usage": TOTALS}),
    codex(
        "response_item",
        7,
        type="message",
        role="assistant",
        content=[{"type": "output_text", "text": "There is a.txt."}],
    ),
]


AGENTV: list[dict[str, Json]] = [
    {"schema_version": "agentv.transcript.v1", "role": "user", "content": "What is here?"},
    {
        "schema_version": "agentv.transcript.v1",
        "role": "assistant",
        "content": [text("There is a.txt.")],
        "tool_calls": [
            {"tool": "Bash", "input": {"command": "ls"}, "output": "a.txt", "id": "t1", "status": "ok"}
        ],
        "transcript_token_usage": {"input": 7, "output": 3},
        "transcript_duration_ms": 5000,
        "source": {"provider": "claude", "model": "claude-fable"},
    },
]


def lines(*events: Mapping[str, Json] | str) -> bytes:
    texts = [event if isinstance(event, str) else json.dumps(event) for event in events]
    return "".join(f"{text}\n" for text in texts).encode()


def read(*events: Mapping[str, Json] | str, by: Any = None) -> AgentResponse:
    return read_transcript(lines(*events), TARGET, by)[0]


def calls(response: AgentResponse) -> list[tuple[Json, ...]]:
    rows = [message.wire() for message in response.messages]
    made = [call for row in rows for call in row.get("tool_calls", ())]
    return [(call["tool"], call["input"], call.get("output")) for call in made]


def test_a_session_of_claude() -> None:
    response = read(*CLAUDE)
    assert response.answer == "There is a.txt."
    assert calls(response) == [("Bash", {"command": "ls"}, "a.txt")]
    assert response.token_usage == TokenUsage(input=30, output=9, cached=10)
    assert response.duration_ms == 5000
    assert response.agent == {"program": "claude", "version": "2.1.330", "model": "claude-fable"}


def test_a_last_event_without_a_time_ends_nothing() -> None:
    assert read(*CLAUDE, {"type": "last-prompt"}).duration_ms == 5000


def test_a_command_of_codex_that_fails() -> None:
    said = "Wall time: 0.0000 seconds\nProcess exited with code 3\nOutput:\noops\n"
    ended = codex("response_item", 5, type="function_call_output", call_id="c1", output=said)
    (message,) = read(*CODEX[4:6], ended).messages
    (call,) = message.wire()["tool_calls"]
    assert (call["output"], call["status"]) == ("oops\n", "error")


def test_a_session_of_codex() -> None:
    response = read(*CODEX)
    assert response.answer == "There is a.txt."
    assert calls(response) == [
        ("Bash", {"command": "ls"}, "a.txt"),
        ("Edit", {"input": "*** Begin Patch"}, "Done"),
        ("web_search", {"query": "weather"}, None),
    ]
    assert response.token_usage == TokenUsage(input=50, output=9, cached=20, reasoning=3)
    assert response.agent == {"program": "codex", "version": "0.140.0", "model": "gpt-5.5"}


@pytest.mark.parametrize(
    "command", [["bash", "-lc", "ls -l"], "ls -l", ["ls", "-l"]], ids=["wrapped", "text", "words"]
)
def test_a_shell_of_codex_in_any_form(command: Json) -> None:
    given = json.dumps({"command": command})
    call = codex("response_item", 4, type="function_call", name="shell", call_id="c", arguments=given)
    assert calls(read(CODEX[4], call)) == [("Bash", {"command": "ls -l"}, None)]


def test_a_session_of_copilot() -> None:
    response = read(*COPILOT)
    assert response.answer == "Hello, notes."
    assert [call[0] for call in calls(response)] == ["Skill", "Bash", "Skill"]
    assert response.duration_ms == 10_000


@pytest.mark.parametrize("events", [CLAUDE, CODEX, COPILOT], ids=["claude", "codex", "copilot"])
def test_all_figures_are_a_claim_and_the_agents_word(events: list[dict[str, Json]]) -> None:
    told, measured = read(*events), read(*events, by="host")
    assert told.claim == measured.claim is not None
    assert told.measure.by_agent == ("tool_calls", "duration_ms", "token_usage")
    assert (measured.token_usage, measured.duration_ms, measured.cost_usd) == (None, None, None)
    assert measured.measure.by_agent == () and not measured.measure.calls_known


def theirs(program: str, folder: Path, *options: str) -> list[Any]:
    """Messages of the model, as AgentV imports them."""
    argv = [*agentv_command(), "import", program, "--session-id", ID, *options, "-o", "theirs.jsonl"]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = map(json.loads, (folder / "theirs.jsonl").read_text().splitlines())
    return [row for row in rows if row["role"] == "assistant"]


@pytest.mark.slow
def test_agentv_imports_the_same_of_claude(tmp_path: Path) -> None:
    place = tmp_path / "projects/-work" / f"{ID}.jsonl"
    place.parent.mkdir(parents=True)
    place.write_bytes(lines(*CLAUDE))
    rows, ours = theirs("claude", tmp_path, "--projects-dir", "projects"), read(*CLAUDE)
    assert rows[-1]["content"] == ours.answer
    assert rows[-1]["transcript_duration_ms"] == ours.duration_ms
    made = [
        (call["tool"], call["input"], call["output"]) for row in rows for call in row.get("tool_calls", ())
    ]
    assert made == calls(ours)
    again = read_transcript((tmp_path / "theirs.jsonl").read_bytes(), TARGET, None)[0]
    assert (again.answer, calls(again), again.duration_ms) == (ours.answer, calls(ours), 5000)
    assert again.agent == {"program": "claude", "model": "claude-fable"}
    assert again.token_usage is not None and again.measure == ours.measure


@pytest.mark.slow
def test_agentv_imports_the_same_of_codex_but_for_the_names_that_runs_have(tmp_path: Path) -> None:
    place = tmp_path / "sessions/2026/11/24" / f"rollout-2026-11-24T10-00-00-{ID}.jsonl"
    place.parent.mkdir(parents=True)
    place.write_bytes(lines(*CODEX))
    rows, ours = theirs("codex", tmp_path, "--sessions-dir", "sessions"), read(*CODEX)
    assert rows[-1]["content"] == ours.answer
    assert rows[-1]["transcript_duration_ms"] == ours.duration_ms
    made = [(call["tool"], call["output"]) for row in rows for call in row.get("tool_calls", ())]
    names = {"Bash": "exec_command", "Edit": "apply_patch"}
    assert made == [(names[tool], output) for tool, _, output in calls(ours) if tool in names]


# -- a stranger's file --------------------------------------------------------------------------------------
DEEP = '{"type": "assistant", "message": ' + "[" * 50_000


@pytest.mark.parametrize(
    "events",
    [
        ["7", "{", DEEP, '{"type": ["x"]}', '{"type": "assistant", "message": []}'],
        [{"type": "assistant", "message": {"id": 7, "model": [], "usage": [], "content": {"type": "text"}}}],
        [{"type": "response_item", "payload": {"type": "message", "role": "assistant", "content": 7}}],
        [{"type": "response_item", "payload": {"type": "function_call", "name": 1, "call_id": {}}}],
        [{"type": "assistant.message", "data": {"messageId": [], "content": 1, "toolRequests": [7]}}],
        ['{"type": "x.y", "timestamp": "9999-12-31T23:59:59-23:59", "data": {}}'],
        [],
    ],
    ids=["no objects", "claude", "codex", "a call", "copilot", "a time", "empty"],
)
def test_what_is_no_session_is_refused_in_a_sentence(events: list[Any]) -> None:
    with pytest.raises(NotATranscriptError, match=r"is not a session|has no message of the model"):
        read_transcript(lines(*events), TARGET, None)


@pytest.mark.parametrize(
    "events", [CLAUDE, CODEX, COPILOT, AGENTV], ids=["claude", "codex", "copilot", "agentv"]
)
def test_values_of_other_types_anywhere_do_no_harm(events: list[dict[str, Json]]) -> None:
    whole = json.dumps(events)
    for place in re.finditer(r'(?<=": )("(?:[^"\\]|\\.)*"|\d+)', whole):
        for odd in ("[[7]]", '{"a": "b"}', "null", "true", "-1", "1e999", '"\\ud800"'):
            changed = json.loads(whole[: place.start()] + odd + whole[place.end() :])
            try:
                read(*changed)
            except NotATranscriptError:
                continue


def test_a_call_twice_counts_once_and_a_result_without_a_call_not_at_all() -> None:
    again = [
        CODEX[5],
        CODEX[5],
        codex("response_item", 5, type="function_call_output", call_id="x", output="y"),
    ]
    assert len(calls(read(CODEX[4], *again))) == 1


def test_a_line_cannot_say_what_only_a_stream_says() -> None:
    """The lines are put into an object; what closes it early is no line."""
    forged = '{}, "cut": true, "at": 7'
    response, notes = read_transcript(
        lines(*CLAUDE, forged, '{"type": "result", "total_cost_usd": 0}'), TARGET, None
    )
    assert response.cost_usd is None and not any("more events" in note for note in notes)


def test_sizes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "MAX_EVENTS", 50)
    _, notes = read_transcript(lines(*CLAUDE, *["{}"] * 100), TARGET, None)
    assert any("more events than are read" in note for note in notes)
    long = claude("assistant", 9, [text("x" * (session.MAX_KEPT + 1))], id="m9")
    response, notes = read_transcript(lines(*CLAUDE, long), TARGET, None)
    assert any("were left out" in note for note in notes)
    assert len(response.answer) < session.MAX_KEPT + 100


def test_what_was_asked_more_than_once_is_said() -> None:
    _, notes = read_transcript(lines(*CLAUDE, claude("user", 8, "And now?")), TARGET, None)
    assert any("a person wrote 2 messages" in note for note in notes)
    assert transcripts.MAX_BYTES <= 64 << 20
