"""What an agent did, read off its calls of models."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from agentv_sandbox.gateway.trajectory import trajectory
from agentv_sandbox.models_api.policy import GatewayPolicy
from agentv_sandbox.models_api.reading import MAX_CALLS
from tests.agents.model_server import ModelServer, do, say

from .conftest import KEY, Client, opened
from .probes import MODELS

SCRIPT = {
    "go": [
        say("I look.", do("run", command="ls"), do("run", command="cat a")),
        say("", do("run", command="rm b")),
        say("all done"),
    ]
}
SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
POLICY = GatewayPolicy(models=MODELS)


def drive(client: Client, dialect: str, *, stream: bool) -> None:
    """An agent that does what the model says, in ``dialect``."""
    talk: list[Any] = []
    for number in range(3):
        body, path = request(dialect, talk, stream=stream)
        reply = client.ask(path, body)
        assert reply.status == 200, reply.body
        while len(lines := client.grant.model_log.splitlines()) <= number:  # it is noted after its last byte
            time.sleep(0.01)
        line = json.loads(lines[-1])
        [message] = trajectory(json.dumps({**line, "time": "2026-01-01T00:00:00+00:00"}))
        talk += answered(dialect, message)


def request(dialect: str, talk: list[Any], *, stream: bool) -> tuple[dict, str]:
    prompt = "please do script:go"
    if dialect == "anthropic":
        tools = [{"name": "Bash", "description": "d", "input_schema": SCHEMA}]
        messages = [{"role": "user", "content": prompt}, *talk]
        body = {"model": "claude-sonnet-4-5", "messages": messages, "tools": tools, "max_tokens": 9}
        return {**body, "stream": stream}, "/v1/messages"
    if dialect == "responses":
        tools = [{"type": "function", "name": "bash", "description": "d", "parameters": SCHEMA}]
        user = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": prompt}]}
        return {"model": "gpt-5", "input": [user, *talk], "tools": tools, "stream": stream}, "/v1/responses"
    if dialect == "chat":
        tools = [{"type": "function", "function": {"name": "bash", "parameters": SCHEMA}}]
        messages = [{"role": "user", "content": prompt}, *talk]
        body = {"model": "gpt-5", "messages": messages, "tools": tools, "stream": stream}
        return body, "/v1/chat/completions"
    tools = [{"functionDeclarations": [{"name": "bash", "description": "d", "parametersJsonSchema": SCHEMA}]}]
    contents = [{"role": "user", "parts": [{"text": prompt}]}, *talk]
    end = "streamGenerateContent?alt=sse" if stream else "generateContent"
    return {"contents": contents, "tools": tools}, f"/v1beta/models/gemini-2.5-pro:{end}"


def answered(dialect: str, message: Any) -> list[Any]:
    calls = message.tool_calls or ()
    given = [(call.raw.get("id"), call.input, f"ran {call.input['command']}") for call in calls]
    if dialect == "anthropic":
        uses = [{"type": "tool_use", "id": i, "name": "Bash", "input": x} for i, x, _ in given]
        said = [{"type": "tool_result", "tool_use_id": i, "content": out} for i, _, out in given]
        return [{"role": "assistant", "content": uses}, {"role": "user", "content": said}] if given else []
    if dialect == "responses":
        items: list[Any] = [
            {"type": "function_call", "call_id": i, "name": "bash", "arguments": json.dumps(x)}
            for i, x, _ in given
        ]
        return items + [{"type": "function_call_output", "call_id": i, "output": out} for i, _, out in given]
    if dialect == "chat":
        functions = [
            {"id": i, "type": "function", "function": {"name": "bash", "arguments": json.dumps(x)}}
            for i, x, _ in given
        ]
        said = [{"role": "tool", "tool_call_id": i, "content": out} for i, _, out in given]
        return [{"role": "assistant", "tool_calls": functions}, *said] if given else []
    parts = [{"functionCall": {"name": "bash", "args": x, **({"id": i} if i else {})}} for i, x, _ in given]
    results = [
        {"functionResponse": {"name": "bash", "response": {"output": out}, **({"id": i} if i else {})}}
        for i, _, out in given
    ]
    return [{"role": "model", "parts": parts}, {"role": "user", "parts": results}] if given else []


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("dialect", ["anthropic", "responses", "chat", "gemini"])
def test_calls_of_models_tell_what_was_done(dialect: str, stream: bool) -> None:
    with ModelServer(SCRIPT, key=KEY) as server, opened(server.port, POLICY) as client:
        drive(client, dialect, stream=stream)
    done = trajectory(client.grant.model_log)
    assert [message.content for message in done] == ["I look.", None, "all done"]
    assert [[call.tool.lower() for call in message.tool_calls or ()] for message in done] == [
        ["bash", "bash"],
        ["bash"],
        [],
    ]
    commands = [(call.input, call.output) for message in done for call in message.tool_calls or ()]
    assert [given["command"] for given, _ in commands] == ["ls", "cat a", "rm b"]
    assert [output for _, output in commands] == ["ran ls", "ran cat a", "ran rm b"]
    times = [message.more["start_time"] for message in done]
    assert times == sorted(times) and all(m.more["start_time"] <= m.more["end_time"] for m in done)


def line(number: int, reply: object, *, request: object = None, **more: object) -> str:
    row = {
        "call": number,
        "time": f"2026-01-01T00:00:{number:02}+00:00",
        "request": request or {"tools": [{}]},
        "path": "/v1/messages",
        "status": 200,
        "duration_s": 1.5,
        "reply": reply if isinstance(reply, str) else json.dumps(reply),
    }
    return json.dumps({**row, **more}) + "\n"


def message(*blocks: object) -> dict:
    return {"type": "message", "content": list(blocks)}


TEXT = {"type": "text", "text": "hello"}


def test_titles_failures_and_answers_that_were_cut_are_no_part_of_it() -> None:
    log = (
        line(1, message({"type": "text", "text": "A title"}), request={"messages": []})
        + line(2, message(TEXT))
        + line(3, {"type": "error"}, status=500)
        + line(
            4, 'data: {"type": "content_block_start", "content_block": {"type": "text", "text": "half"}}\n\n'
        )
        + line(5, message(TEXT), path="/v1/messages/count_tokens")
        + line(6, message(TEXT), request={"messages": []}, repeats_fields=["tools"])
    )
    assert [(m.content, m.more["start_time"][17:19]) for m in trajectory(log)] == [
        ("hello", "02"),
        ("hello", "06"),
    ]


def test_a_failed_tool_is_one() -> None:
    use = {"type": "tool_use", "id": "t", "name": "Bash", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "no", "is_error": True}
    log = line(1, message(use)) + line(
        2, message(TEXT), request={"tools": [{}], "messages": [{"role": "user", "content": [result]}]}
    )
    [call] = trajectory(log)[0].tool_calls or ()
    assert (call.failed, call.output) == (True, "no")


HOSTILE = [
    "not json\n[]\n7\nnull\n",
    line(1, {"type": "message", "content": 7}),
    line(1, {"type": "message", "content": [{"type": "tool_use", "name": ["x"], "input": 3}]}),
    line(1, {"choices": [{"message": {"tool_calls": [7, {"function": 3}]}}]}, path="/v1/chat/completions"),
    line(1, {"candidates": [{"content": {"parts": {"a": 1}}}]}, path="/v1/models/x:generateContent"),
    line(1, message(TEXT), time="never", duration_s="long"),
    line(1, message(TEXT), duration_s=1e300),
    line(1, message(TEXT), request={"messages": [{"role": "tool", "tool_call_id": [], "content": {}}]}),
    line(
        1, {"object": "response", "output": [None, {"type": "message", "content": "x"}]}, path="/v1/responses"
    ),
    line(1, "data: " + "[" * 100_000),
]


@pytest.mark.parametrize("log", HOSTILE)
def test_what_makes_no_sense_is_left_out(log: str) -> None:
    for each in trajectory(log):
        assert each.role == "assistant"


def test_a_trajectory_is_bounded() -> None:
    use = {"type": "tool_use", "id": "t", "name": "Bash", "input": {}}
    log = "".join(line(n % 60, message(*[use] * 400)) for n in range(60))
    began = time.process_time()
    done = trajectory(log)
    assert 0 < sum(len(each.tool_calls or ()) for each in done) <= MAX_CALLS
    assert time.process_time() - began < 60
