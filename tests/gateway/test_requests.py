"""Requests besides the abuses of the table: sizes, times, headers, models, and what is written anew."""

from __future__ import annotations

import json
import socket
import threading
import time

import pytest

from agentv_sandbox.egress import wire
from agentv_sandbox.gateway.examining import BODY_BYTES
from agentv_sandbox.models.suite import Target
from agentv_sandbox.models_api.policy import GatewayPolicy
from agentv_sandbox.models_api.servers import is_model_server
from agentv_sandbox.providers import PROVIDERS
from tests.agents.model_server import ModelServer
from tests.unix import connect_to

from .conftest import KEY, opened
from .probes import CHAT, CLAUDE, CODEX, GEMINI, MODELS, PATHS


def talk(client, head: str, body: bytes = b"") -> bytes:
    """Raw bytes to the proxy, and all that comes back."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(30)
        connect_to(sock, client.socket)
        sock.sendall(head.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body)
        answer = b""
        while data := sock.recv(65536):
            answer += data
        return answer


def head(client, *lines: str) -> str:
    first = f"POST /{client.route}/v1/messages HTTP/1.1\nHost: x\nContent-Type: application/json"
    return "\n".join([first, f"x-api-key: {client.grant.env['MODEL_KEY']}", *lines])


def test_a_body_that_says_it_is_huge_is_refused_before_it_comes(server: ModelServer) -> None:
    with opened(server.port) as client:
        answer = talk(client, head(client, f"Content-Length: {BODY_BYTES + 1}"))
    assert b" 413 " in answer.split(b"\r\n")[0]
    assert b"request_too_large" in answer
    assert server.seen == []
    assert client.grant.model_refusals == (
        f"the model gateway refused: the body is larger than {BODY_BYTES} bytes",
    )


def test_a_body_that_grows_without_an_end_is_refused(server: ModelServer) -> None:
    chunk = b"100000\r\n" + b" " * 0x100000 + b"\r\n"
    with opened(server.port) as client, socket.socket(socket.AF_UNIX) as sock:
        connect_to(sock, client.socket)
        sock.settimeout(30)
        sock.sendall(head(client, "Transfer-Encoding: chunked\n\n").replace("\n", "\r\n").encode())
        sent = 0
        try:
            while sent < 3 * BODY_BYTES:
                sock.sendall(chunk)
                sent += len(chunk)
        except OSError:
            pass
    assert sent < 2 * BODY_BYTES
    assert client.log()[0]["status"] == 413
    assert server.seen == []


def test_a_slow_body_is_not_waited_for(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "_MODEL_BODY_TIMEOUT_S", 0.5)
    with opened(server.port) as client, socket.socket(socket.AF_UNIX) as sock:
        connect_to(sock, client.socket)
        sock.settimeout(30)
        sock.sendall((head(client, "Content-Length: 50") + "\n\n").replace("\n", "\r\n").encode())
        started = time.monotonic()
        try:
            while time.monotonic() - started < 20:
                sock.sendall(b" ")  # each byte is in time, all of them are not
                time.sleep(0.05)
        except OSError:
            pass
        assert time.monotonic() - started < 15
    assert client.log()[0]["status"] == 408
    assert server.seen == []


def test_headers_that_say_who_asks_or_what_is_meant_are_dropped(server: ModelServer) -> None:
    smuggled = {
        "Authorization": "Bearer mine",
        "Cookie": "a=b",
        "OpenAI-Organization": "org-other",
        "OpenAI-Project": "proj_other",
        "X-Goog-User-Project": "other",
        "X-Goog-Api-Key": "AIza",
        "X-HTTP-Method-Override": "DELETE",
        "X-Original-URL": "/v1/files",
        "X-Forwarded-Host": "evil.example",
        "Helicone-Target-Url": "https://evil.example",
        "Range": "bytes=0-3",
        "anthropic-version": "2023-06-01",
        "anthropic-beta": "interleaved-thinking-2025-05-14",
    }
    with opened(server.port) as client:
        reply = client.ask(PATHS["anthropic"], CLAUDE, headers=smuggled)
    assert reply.status == 200
    assert server.seen[0].headers.keys() == {
        "host",
        "x-api-key",
        "accept-encoding",
        "content-type",
        "content-length",
        "connection",
        "anthropic-version",
        "anthropic-beta",
    }


SMUGGLED = (
    "Content-Length: 2\nContent-Length: 40",
    "Content-Length: 2\nTransfer-Encoding: chunked",
    "Content-Length: +2",
    "Transfer-Encoding: chunked, identity",
    "Content-Length : 2",
)


@pytest.mark.parametrize("lines", SMUGGLED)
def test_a_second_request_cannot_hide_in_the_first(lines: str, server: ModelServer) -> None:
    hidden = b"{}GET /v1/files HTTP/1.1\r\nHost: x\r\n\r\n"
    with opened(server.port) as client:
        answer = talk(client, head(client, lines), hidden)
    assert b" 400 " in answer.split(b"\r\n")[0]
    assert server.seen == []


def test_what_is_sent_is_written_anew(server: ModelServer) -> None:
    spaced = json.dumps(CHAT, indent=3).replace("hello", "h\\u00e9llo \\ud83d").encode()
    with opened(server.port) as client:
        assert client.ask(PATHS["chat"], spaced).status == 200
    with opened(server.port) as client:
        assert client.ask(PATHS["gemini"], {**GEMINI, "generation_config": {"top_p": 1}}).status == 400
        moved = {key: value for key, value in GEMINI.items() if key != "generationConfig"}
        assert client.ask(PATHS["gemini"], {**moved, "generation_config": {"top_p": 1}}).status == 200
    assert server.seen[0].body["messages"][0]["content"] == "h\u00e9llo \ud83d"
    assert int(server.seen[0].headers["content-length"]) == len(
        json.dumps(server.seen[0].body, separators=(",", ":"))
    )
    assert server.seen[1].body["generation_config"] == {"top_p": 1}


def test_an_answer_is_not_kept_by_default(server: ModelServer) -> None:
    unsaid = {key: value for key, value in CODEX.items() if key != "store"}
    with opened(server.port) as client:
        client.ask(PATHS["responses"], unsaid)
    with opened(server.port, GatewayPolicy(models=MODELS, allow=frozenset({"stored_responses"}))) as client:
        client.ask(PATHS["responses"], unsaid)
    assert [seen.body.get("store") for seen in server.seen] == [False, None]


def test_without_a_named_model_the_first_one_is_kept_to(server: ModelServer) -> None:
    policy = GatewayPolicy(side_models=("claude-haiku-*",))
    with opened(server.port, policy) as client:
        asked = [
            "claude-haiku-4-5",
            "claude-sonnet-4-5",
            "claude-opus-4-1",
            "claude-sonnet-4-5",
            "claude-haiku-5",
        ]
        got = [client.ask("/v1/messages", {**CLAUDE, "model": model}).status for model in asked]
    assert got == [200, 200, 403, 200, 200]
    assert (
        "'claude-opus-4-1' is not one of this target's (claude-sonnet-4-5, claude-haiku-*)"
        in (client.grant.model_refusals[0])
    )


NAMES = [
    ("claude", "claude-sonnet-4-5", "claude-sonnet-4-5", True),
    ("claude", "claude-sonnet-4-5", "claude-sonnet-4-5-20250929", True),
    ("claude", "claude-sonnet-4-5", "claude-sonnet-4-5-20250929-extra", False),
    ("claude", "claude-sonnet-4-5", "claude-opus-4-1", False),
    ("claude", "claude-sonnet-4-5", "claude-haiku-4-5-20251001", True),
    ("claude", "sonnet", "claude-sonnet-4-5-20250929", True),
    ("claude", "sonnet", "claude-3-7-sonnet-20250219", True),
    ("claude", "sonnet", "claude-opus-4-1", False),
    ("claude", "sonnet[1m]", "claude-sonnet-4-5", True),
    ("claude", "opusplan", "claude-opus-4-1", True),
    ("codex", "gpt-5", "gpt-5-2025-08-07", True),
    ("codex", "gpt-5", "gpt-5-pro", False),
    ("codex", "gpt-5", "gpt-5\n", False),
]


@pytest.mark.parametrize(("kind", "written", "asked", "admitted"), NAMES)
def test_a_target_s_model_by_its_names(kind: str, written: str, asked: str, admitted: bool) -> None:
    provider = PROVIDERS["claude-cli" if kind == "claude" else kind]
    policy = provider.gateway_policy(Target(name="t", provider=provider.name, settings={"model": written}))
    assert policy.admits(asked, None) is admitted


def test_the_same_api_at_other_places(server: ModelServer) -> None:
    azure = "/openai/deployments/gpt-5/chat/completions?api-version=2024-10-21"
    rules = GatewayPolicy(models=MODELS, apis=frozenset({"anthropic", "responses", "chat"}))
    with opened(server.port, rules, path="/team/llm") as client:
        got = {
            path: client.ask(path, body).status
            for path, body in {
                azure: {**CHAT, "model": "gpt-5"},
                "/openai/v1/responses?api-version=v1": CODEX,
                "/api/v1/chat/completions": CHAT,
                "/team/llm/chat/completions": CHAT,
                "/team/llm/v1/messages": CLAUDE,
                "/other/llm/v1/messages": CLAUDE,
                "/openai/deployments/gpt-5-pro/chat/completions": CHAT,
                "/openai/v1/responses?api-version=../v1": CODEX,
            }.items()
        }
    assert list(got.values()) == [200, 200, 200, 200, 200, 404, 400, 403]


def test_tokens_can_be_counted(server: ModelServer) -> None:
    body = {key: CLAUDE[key] for key in ("model", "messages", "tools")}
    with opened(server.port) as client:
        assert client.ask("/v1/messages/count_tokens", body).status == 200
        assert client.ask("/v1/messages/count_tokens", {**body, "model": "claude-opus-4-1"}).status == 403
    with opened(server.port) as client:
        count = {"generateContentRequest": {**GEMINI, "model": "models/gemini-2.5-pro"}}
        assert client.ask("/v1beta/models/gemini-2.5-pro:countTokens", count).status == 200
        hidden = {"generateContentRequest": {**GEMINI, "tools": [{"googleSearch": {}}]}}
        assert client.ask("/v1beta/models/gemini-2.5-pro:countTokens", hidden).status == 403
    assert client.grant.model_use.calls == 0


def test_a_server_that_encodes_its_answer_is_not_passed_on() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, opened(listener.getsockname()[1]) as client:
        answers = []

        def serve() -> None:
            sock, _ = listener.accept()
            with sock:
                sock.recv(1 << 20)
                sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nab")
                sock.shutdown(socket.SHUT_WR)
                while sock.recv(1 << 16):  # closing with unread data would reset the connection
                    pass

        thread = threading.Thread(target=serve)
        thread.start()
        answers.append(client.ask(PATHS["chat"], CHAT).status)
        thread.join()
    assert answers == [502]
    assert "encoded its answer" in client.log()[0]["reason"]


def test_servers_of_models_are_known_by_their_names() -> None:
    known = ["api.anthropic.com", "api.openai.com", "openrouter.ai", "me.openai.azure.com"]
    assert all(map(is_model_server, known))
    assert not any(
        map(is_model_server, ["api.github.com", "evilopenai.azure.com.example", "openai.azure.com"])
    )


def test_the_key_is_in_no_log(server: ModelServer) -> None:
    with opened(server.port) as client:
        client.ask(PATHS["chat"], {**CHAT, "nonsense": KEY})
        client.ask(PATHS["chat"], CHAT)
    assert len(client.log()) == 2
