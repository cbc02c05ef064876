"""The log of what was said to models and by them."""

from __future__ import annotations

import json

import pytest

from agentv_sandbox.gateway.calls import MAX_ALL, MAX_REPLY
from tests.agents.model_server import INPUT, ModelServer

from .conftest import KEY, opened
from .probes import CHAT, CLAUDE, PATHS
from .test_usage import PRICED, raw_server, stream


def lines(client) -> list[dict]:
    return [json.loads(line) for line in client.grant.model_log.splitlines()]


def test_a_call_is_there_in_full_and_later_ones_with_what_is_new(server: ModelServer) -> None:
    more = [*CLAUDE["messages"], {"role": "assistant", "content": "hi"}, {"role": "user", "content": "on"}]
    with opened(server.port, PRICED) as client:
        reply = client.ask(PATHS["anthropic"], CLAUDE)
        client.ask(PATHS["anthropic"], {**CLAUDE, "messages": more, "max_tokens": 7})
        client.ask(PATHS["anthropic"], {**CLAUDE, "model": "claude-opus-4-1"})
    first, second = lines(client)
    assert first["request"] == CLAUDE
    assert first["reply"] == reply.body.decode()
    assert first["usage"]["input"] == INPUT and first["cost_usd"] > 0
    assert (first["call"], first["status"], first["path"]) == (1, 200, PATHS["anthropic"])
    assert 0 <= first["first_byte_s"] <= first["duration_s"]
    assert second["repeats_messages"] == 1
    assert second["repeats_fields"] == ["tools"]
    assert second["request"]["messages"] == more[1:]
    assert (second["request"]["max_tokens"], second["request"]["model"]) == (7, CLAUDE["model"])


def test_the_key_is_masked_in_what_a_server_repeats() -> None:
    said = {"choices": [{"delta": {"content": f"your key is {KEY}"}}]}
    with raw_server(lambda _: stream([said])) as port, opened(port) as client:
        client.ask(PATHS["chat"], CHAT)
    assert KEY not in client.grant.model_log
    assert "your key is ****" in client.grant.model_log


@pytest.mark.slow
def test_the_log_is_bounded() -> None:
    endless = stream([{"choices": [{"delta": {"content": "x" * (3 * MAX_REPLY)}}]}])
    with raw_server(lambda _: endless) as port, opened(port) as client:
        for number in range(16):
            client.ask(PATHS["chat"], {**CHAT, "messages": [{"role": "user", "content": f"{number}"}]})
    *kept, last = lines(client)
    assert len(client.grant.model_log) < MAX_ALL + 1000
    assert kept[0]["reply_bytes_left_out"] > 2 * MAX_REPLY
    assert last == {"calls_left_out": 16 - len(kept)}
    assert len(kept) > 8


def test_a_request_too_large_to_keep_is_left_out(server: ModelServer) -> None:
    with opened(server.port, PRICED) as client:
        body = {**CHAT, "messages": [{"role": "user", "content": "x" * (5 << 20)}]}
        assert client.ask(PATHS["chat"], body).status == 200
    [line] = lines(client)
    assert line["request_bytes_left_out"] > 5 << 20
    assert "request" not in line
