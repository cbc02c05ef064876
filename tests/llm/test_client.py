"""The LLM client against real servers: what is sent, what is made of the answer, what happens on faults."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from agentv_sandbox.base.errors import Cancelled, LlmError
from agentv_sandbox.modelcalls.limiter import RateLimits
from agentv_sandbox.modelclient.llmclient import LlmClient
from agentv_sandbox.models.case import AnswerImage
from agentv_sandbox.models.figures import TokenUsage
from agentv_sandbox.models.suite import Target
from agentv_sandbox.models_api.records import LlmReply, LlmRequest
from agentv_sandbox.providers import PROVIDERS
from tests.llm.servers import Answer, Asked, Server, chat, sse

KEY = "sk-very-secret"
PNG = AnswerImage(media_type="image/png", source="data:image/png;base64,AAAA")
LINK = AnswerImage(media_type="image/png", source="https://x.y/z.png")
SCHEMA = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
REQUEST = LlmRequest(system="S", user="U", images=(PNG, LINK), schema=SCHEMA, temperature=0.5, max_tokens=9)
QUICK = {"retry_initial_delay_ms": 1, "retry_max_delay_ms": 1000, "max_retries": 2}


def target(provider: str, **settings: Any) -> Target:
    return Target(
        name="t", provider=provider, settings={"model": "m", "api_key_env": "KEY", **QUICK, **settings}
    )


def ask(llm: LlmClient, target: Target, request: LlmRequest) -> LlmReply:
    return PROVIDERS[target.provider].ask(target, request, llm)


def client(**env: str) -> LlmClient:
    return LlmClient({"KEY": KEY, **env})


JSON_SCHEMA = {"name": "evaluation", "schema": SCHEMA, "strict": True}
CHAT_BODY = {
    "model": "m",
    "messages": [
        {"role": "system", "content": "S"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "U"},
                {"type": "image_url", "image_url": {"url": PNG.source}},
                {"type": "image_url", "image_url": {"url": LINK.source}},
            ],
        },
    ],
    "temperature": 0.5,
    "max_tokens": 9,
    "response_format": {"type": "json_schema", "json_schema": JSON_SCHEMA},
}
RESPONSES_BODY = {
    "model": "m",
    "input": [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "U"},
                {"type": "input_image", "image_url": PNG.source},
                {"type": "input_image", "image_url": LINK.source},
            ],
        }
    ],
    "store": False,
    "instructions": "S",
    "temperature": 0.5,
    "max_output_tokens": 9,
    "text": {"format": {"type": "json_schema", **JSON_SCHEMA}},
}
RESPONSES_REPLY = {
    "output": [
        {"type": "reasoning", "summary": []},
        {"type": "message", "content": [{"type": "output_text", "text": "Hello"}]},
    ],
    "usage": {"input_tokens": 11, "output_tokens": 7, "input_tokens_details": {"cached_tokens": 4}},
}
ANTHROPIC_BODY = {
    "model": "m",
    "max_tokens": 9,
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
                {"type": "image", "source": {"type": "url", "url": LINK.source}},
                {"type": "text", "text": "U"},
            ],
        }
    ],
    "system": "S",
    "temperature": 0.5,
    "tools": [{"name": "evaluation", "input_schema": SCHEMA}],
    "tool_choice": {"type": "tool", "name": "evaluation"},
}
GEMINI_BODY = {
    "contents": [
        {
            "role": "user",
            "parts": [
                {"text": "U"},
                {"inlineData": {"mimeType": "image/png", "data": "AAAA"}},
                {"fileData": {"mimeType": "image/png", "fileUri": LINK.source}},
            ],
        }
    ],
    "systemInstruction": {"parts": [{"text": "S"}]},
    "generationConfig": {
        "temperature": 0.5,
        "maxOutputTokens": 9,
        "responseMimeType": "application/json",
        "responseJsonSchema": SCHEMA,
    },
}
GEMINI_REPLY = {
    "candidates": [
        {"content": {"parts": [{"text": "hm", "thought": True}, {"text": "Hello"}]}, "finishReason": "STOP"}
    ],
    "usageMetadata": {"promptTokenCount": 11, "candidatesTokenCount": 5, "thoughtsTokenCount": 2},
}
BEARER = {"authorization": f"Bearer {KEY}"}

PROTOCOLS = [
    # id, target (BASE stands for the server), path, headers, body, reply, tokens, cost
    (
        "openai chat",
        target("openai", base_url="BASE"),
        "/v1/chat/completions",
        BEARER,
        CHAT_BODY,
        chat("Hello", prompt_tokens_details={"cached_tokens": 4}),
        TokenUsage(input=11, output=7, cached=4),
        None,
    ),
    (
        "openai responses",
        target(
            "openai",
            api_format="responses",
            base_url="BASE/",
            input_cost_per_million="1000000",
            output_cost_per_million=2_000_000,
        ),
        "/v1/responses",
        BEARER,
        RESPONSES_BODY,
        Answer(body=json.dumps(RESPONSES_REPLY).encode()),
        TokenUsage(input=11, output=7, cached=4),
        25.0,
    ),
    (
        "azure chat",
        target("azure", api_format="chat", endpoint="BASE", version="2030-01-01"),
        "/v1/openai/deployments/m/chat/completions?api-version=2030-01-01",
        {"api-key": KEY},
        {
            **{k: v for k, v in CHAT_BODY.items() if k != "max_tokens"},
            "max_completion_tokens": 9,
        },
        chat("Hello"),
        TokenUsage(input=11, output=7),
        None,
    ),
    (
        "azure by its other names",
        target(
            "azure", api_format="chat", resource="BASE", api_version="2030-01-01", deployment="d", model=""
        ),
        "/v1/openai/deployments/d/chat/completions?api-version=2030-01-01",
        {"api-key": KEY},
        {
            **{k: v for k, v in CHAT_BODY.items() if k != "max_tokens"},
            "max_completion_tokens": 9,
            "model": "d",
        },
        chat("Hello"),
        TokenUsage(input=11, output=7),
        None,
    ),
    (
        "azure responses",
        target("azure", endpoint="BASE"),
        "/v1/openai/v1/responses?api-version=v1",
        {"api-key": KEY},
        RESPONSES_BODY,
        Answer(body=json.dumps(RESPONSES_REPLY).encode()),
        TokenUsage(input=11, output=7, cached=4),
        None,
    ),
    (
        "openrouter",
        target("openrouter", base_url="BASE"),
        "/v1/chat/completions",
        BEARER,
        {**CHAT_BODY, "usage": {"include": True}},
        chat("Hello", cost=0.25),
        TokenUsage(input=11, output=7),
        0.25,
    ),
    (
        "anthropic",
        target("anthropic", base_url="BASE"),
        "/v1/messages",
        {"x-api-key": KEY, "anthropic-version": "2023-06-01"},
        ANTHROPIC_BODY,
        Answer(
            body=json.dumps(
                {
                    "content": [{"type": "text", "text": "Hello"}],
                    "usage": {"input_tokens": 11, "output_tokens": 7, "cache_read_input_tokens": 4},
                }
            ).encode()
        ),
        TokenUsage(input=15, output=7, cached=4),
        None,
    ),
    (
        "gemini",
        target("gemini", base_url="BASE"),
        "/v1/models/m:generateContent",
        {"x-goog-api-key": KEY},
        GEMINI_BODY,
        Answer(body=json.dumps(GEMINI_REPLY).encode()),
        TokenUsage(input=11, output=7, reasoning=2),
        None,
    ),
]


def at(made: Target, url: str) -> Target:
    """``made`` with the server's address in place of ``BASE``."""
    settings = {k: v.replace("BASE", url) if isinstance(v, str) else v for k, v in made.settings.items()}
    return Target(name=made.name, provider=made.provider, settings=settings)


@pytest.mark.parametrize(
    ("made", "path", "headers", "body", "reply", "tokens", "cost"),
    [p[1:] for p in PROTOCOLS],
    ids=[p[0] for p in PROTOCOLS],
)
def test_exact_requests(made, path, headers, body, reply, tokens, cost) -> None:
    with Server([reply]) as server, client() as llm:
        got = ask(llm, at(made, server.url), REQUEST)
    [asked] = server.asked
    assert asked.path == path
    assert asked.body == body
    assert headers.items() <= asked.headers.items()
    assert (got.text, got.token_usage, got.cost_usd, got.attempts) == ("Hello", tokens, cost, 1)
    assert got.request_json == {"url": server.url.removesuffix("/v1") + path, "body": body}
    assert KEY not in repr(got)
    assert got.duration_ms > 0


def test_plain_request_sends_nothing_optional() -> None:
    with Server([chat("x")]) as server, client() as llm:
        ask(
            llm,
            at(
                Target(
                    name="t",
                    provider="openai",
                    settings={"api_format": "chat", "base_url": "BASE", "model": "m"},
                ),
                server.url,
            ),
            LlmRequest(user="U"),
        )
    [asked] = server.asked
    assert asked.body == {"model": "m", "messages": [{"role": "user", "content": "U"}]}
    assert "authorization" not in asked.headers


STREAMS = [
    (
        "openai chat",
        target("openai", api_format="chat", base_url="BASE", stream=True),
        sse(
            {"choices": [{"delta": {"role": "assistant", "content": "Hel"}}]},
            {"choices": [{"delta": {"content": "lo"}, "finish_reason": "stop"}]},
            {"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 7}},
        ),
    ),
    (
        "openai responses",
        target("openai", api_format="responses", base_url="BASE", stream=True),
        sse(
            {"type": "response.output_text.delta", "delta": "Hel"},
            {"type": "response.completed", "response": RESPONSES_REPLY},
            done=False,
        ),
    ),
    (
        "anthropic",
        target("anthropic", base_url="BASE", stream=True),
        sse(
            {"type": "message_start", "message": {"usage": {"input_tokens": 11, "output_tokens": 1}}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "ping"},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hel"}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "lo"}},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}},
            {"type": "message_stop"},
            done=False,
        ),
    ),
    (
        "gemini",
        target("gemini", base_url="BASE", stream=True),
        sse(
            {"candidates": [{"content": {"parts": [{"text": "Hel"}]}}]},
            {
                **GEMINI_REPLY,
                "candidates": [{"content": {"parts": [{"text": "lo"}]}, "finishReason": "STOP"}],
            },
            done=False,
        ),
    ),
]


@pytest.mark.parametrize(("made", "reply"), [s[1:] for s in STREAMS], ids=[s[0] for s in STREAMS])
def test_streams(made: Target, reply: Answer) -> None:
    with Server([reply]) as server, client() as llm:
        got = ask(llm, at(made, server.url), LlmRequest(user="U"))
    assert got.text == "Hello"
    assert got.token_usage is not None
    assert (got.token_usage.input, got.token_usage.output) == (11, 7)
    assert server.asked[0].body.get("stream", True) is True


@pytest.mark.parametrize(("made", "reply"), [s[1:] for s in STREAMS], ids=[s[0] for s in STREAMS])
def test_a_stream_that_ends_early_is_tried_again(made: Target, reply: Answer) -> None:
    events = reply.body.split(b"\n\n")
    early = Answer(body=b"\n\n".join(events[:1]) + b"\n\n", headers=reply.headers)
    broken = Answer(body=reply.body, headers=reply.headers, cut=len(reply.body) // 2)
    with Server([early, broken, reply]) as server, client() as llm:
        got = ask(llm, at(made, server.url), LlmRequest(user="U"))
    assert (got.text, got.attempts) == ("Hello", 3)


def test_anthropic_structured_answer_is_the_tools_input() -> None:
    body = {"content": [{"type": "tool_use", "name": "evaluation", "input": {"score": 1}}]}
    with Server([Answer(body=json.dumps(body).encode())]) as server, client() as llm:
        got = ask(llm, at(target("anthropic", base_url="BASE"), server.url), REQUEST)
    assert json.loads(got.text) == {"score": 1}


CHAT = target("openai", api_format="chat", base_url="BASE")
OK = chat("Hello")
PASSING = [
    ("429", Answer(status=429)),
    ("500", Answer(status=500, body=b"oops")),
    ("503", Answer(status=503)),
    ("529", Answer(status=529)),
    ("cut body", Answer(body=OK.body, cut=10)),
    ("invalid JSON", Answer(body=b"<html>")),
    ("wrong shape", Answer(body=b'{"ok": true}')),
    ("choices is a number", Answer(body=b'{"choices": 3}')),
    ("deep nesting", Answer(body=b"[" * 200_000)),
    ("compressed", Answer(body=OK.body, headers={"content-encoding": "gzip"})),
    ("too large", Answer(body=OK.body + b" " * (17 << 20))),
]


@pytest.mark.parametrize("fault", [f[1] for f in PASSING], ids=[f[0] for f in PASSING])
def test_faults_that_may_pass_are_tried_again(fault: Answer) -> None:
    with Server([fault, OK]) as server, client() as llm:
        assert ask(llm, at(CHAT, server.url), LlmRequest(user="U")).attempts == 2
    with Server([fault]) as server, client() as llm, pytest.raises(LlmError, match="target 't'"):
        ask(llm, at(CHAT, server.url), LlmRequest(user="U"))
    assert len(server.asked) == 3


LASTING = [
    ("401", Answer(status=401, body=f"bad key {KEY}".encode()), r"HTTP 401: bad key \[redacted\]"),
    ("403", Answer(status=403), "HTTP 403"),
    ("404", Answer(status=404, body=b"no model"), "HTTP 404: no model"),
    ("redirect", Answer(status=302, headers={"location": "http://127.0.0.1:1/"}), "HTTP 302"),
]


@pytest.mark.parametrize(("fault", "why"), [f[1:] for f in LASTING], ids=[f[0] for f in LASTING])
def test_faults_that_last_are_not(fault: Answer, why: str) -> None:
    with Server([fault]) as server, client() as llm, pytest.raises(LlmError, match=why) as caught:
        ask(llm, at(CHAT, server.url), LlmRequest(user="U"))
    assert len(server.asked) == 1
    assert KEY not in str(caught.value)
    assert caught.value.status == fault.status


def test_retry_codes_of_the_target_count() -> None:
    made = target("openai", api_format="chat", base_url="BASE", retry_status_codes=[418])
    with Server([Answer(status=418), OK]) as server, client() as llm:
        assert ask(llm, at(made, server.url), LlmRequest(user="U")).attempts == 2
    with Server([Answer(status=429), OK]) as server, client() as llm, pytest.raises(LlmError, match="429"):
        ask(llm, at(made, server.url), LlmRequest(user="U"))


@pytest.mark.parametrize("form", ["seconds", "date"])
def test_retry_after_holds_back_all_workers(form: str) -> None:
    def too_many(_asked: Asked) -> Answer:
        date = format_datetime(datetime.now(UTC) + timedelta(seconds=2.5), usegmt=True)
        return Answer(status=429, headers={"retry-after": "1" if form == "seconds" else date})

    limits = RateLimits()
    made = target("openai", api_format="chat", base_url="BASE", retry_max_delay_ms=3000)
    with Server([too_many, OK]) as server, LlmClient({"KEY": KEY}, limits=limits) as llm:
        made = at(made, server.url)
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(ask, llm, made, LlmRequest(user="U"))
            while not any(limit._until for limit in limits._limits.values()):
                time.sleep(0.01)
            second = pool.submit(ask, llm, made, LlmRequest(user="U"))
            assert first.result().attempts == 2
            assert second.result().attempts == 1
    first_at, *later = [asked.at for asked in server.asked]
    assert min(later) - first_at >= 0.9


def test_a_server_that_wants_us_back_tomorrow_is_not_waited_for() -> None:
    answer = Answer(status=429, headers={"retry-after": "86400"})
    with Server([answer]) as server, client() as llm, pytest.raises(LlmError, match="429"):
        ask(llm, at(CHAT, server.url), LlmRequest(user="U"))
    assert len(server.asked) == 1


def test_a_hanging_server_times_out() -> None:
    made = target("openai", api_format="chat", base_url="BASE", timeout_seconds=0.3, max_retries=1)
    why = r"no answer within 0\.3 s"
    with Server([Answer(delay_s=30)]) as server, client() as llm, pytest.raises(LlmError, match=why):
        ask(llm, at(made, server.url), LlmRequest(user="U"))
    assert len(server.asked) == 2


def test_a_reply_that_drips_ends_in_time() -> None:
    made = target("openai", api_format="chat", base_url="BASE", timeout_seconds=0.5, max_retries=0)
    drip = Answer(body=OK.body, drip_s=0.1)
    with Server([drip]) as server, client() as llm, pytest.raises(LlmError, match=r"no answer within 0\.5 s"):
        ask(llm, at(made, server.url), LlmRequest(user="U"))


def test_refused_connection() -> None:
    with Server([OK]) as server:
        made = at(CHAT, server.url)
    with client() as llm, pytest.raises(LlmError, match="ConnectError"):
        ask(llm, made, LlmRequest(user="U"))


def test_interrupt_ends_the_waiting() -> None:
    made = target(
        "openai", api_format="chat", base_url="BASE", retry_initial_delay_ms=60_000, retry_max_delay_ms=60_000
    )
    with Server([Answer(status=500)]) as server:
        llm = LlmClient({"KEY": KEY}, cancelled=lambda: bool(server.asked))
        with llm, pytest.raises(Cancelled):
            ask(llm, at(made, server.url), LlmRequest(user="U"))


def test_interrupt_ends_an_exchange_under_way() -> None:
    """The limit of the exchange is what ends it otherwise."""
    made = target("openai", api_format="chat", base_url="BASE", timeout_seconds=10, max_retries=0)
    with Server([Answer(delay_s=30)]) as server:
        llm = LlmClient({"KEY": KEY}, cancelled=lambda: bool(server.asked))
        with llm, pytest.raises(Cancelled):
            ask(llm, at(made, server.url), LlmRequest(user="U"))


def test_server_without_structured_output_is_asked_without_from_then_on() -> None:
    def plain_only(asked: Asked) -> Answer:
        return Answer(status=400) if "response_format" in asked.body else OK

    with Server([plain_only]) as server, client() as llm:
        made = at(CHAT, server.url)
        assert ask(llm, made, REQUEST).text == "Hello"
        assert ask(llm, made, REQUEST).text == "Hello"
    assert ["response_format" in asked.body for asked in server.asked] == [True, False, False]


def test_structured_output_can_be_switched_off() -> None:
    made = target("openai", api_format="chat", base_url="BASE", structured_output=False)
    with Server([OK]) as server, client() as llm:
        ask(llm, at(made, server.url), REQUEST)
    assert "response_format" not in server.asked[0].body


def test_key_is_looked_up_by_name() -> None:
    with LlmClient({}) as llm, pytest.raises(LlmError, match="environment variable KEY is not set"):
        ask(llm, CHAT, LlmRequest(user="U"))


@pytest.mark.parametrize("url", ["not a url", "ftp://x/y", "http://[::1", ""])
def test_bad_addresses_are_clear_errors_and_asked_once(url: str) -> None:
    server = target("openai", base_url=url or "http://", api_format="chat", retry_initial_delay_ms=1)
    with client() as llm, pytest.raises(LlmError, match="target 't'") as caught:
        ask(llm, server, LlmRequest(user="U"))
    assert "tried" not in caught.value.message


def test_mock() -> None:
    with client() as llm:
        assert ask(llm, Target(name="m", provider="mock", settings={"response": "{}"}), REQUEST).text == "{}"
        default = json.loads(ask(llm, Target(name="m", provider="mock"), REQUEST).text)
    assert list(default) == ["answer"]


def test_agents_are_not_llms() -> None:
    with client() as llm, pytest.raises(LlmError, match="provider 'cli' is not an LLM"):
        ask(llm, Target(name="c", provider="cli"), REQUEST)


def test_requests_in_flight_are_bounded() -> None:
    flying, most = 0, 0

    def count(_asked: Asked) -> Answer:
        nonlocal flying, most
        flying += 1
        most = max(most, flying)
        time.sleep(0.05)
        flying -= 1
        return OK

    made = target("openai", api_format="chat", base_url="BASE", max_concurrency=2)
    with Server([count]) as server, client() as llm, ThreadPoolExecutor(8) as pool:
        made = at(made, server.url)
        list(pool.map(lambda _: ask(llm, made, LlmRequest(user="U")), range(8)))
    assert most <= 2


def test_rate_limit_spreads_requests() -> None:
    made = target("openai", api_format="chat", base_url="BASE", requests_per_minute=600)
    started = time.monotonic()
    with Server([OK]) as server, client() as llm, ThreadPoolExecutor(6) as pool:
        made = at(made, server.url)
        list(pool.map(lambda _: ask(llm, made, LlmRequest(user="U")), range(6)))
    assert time.monotonic() - started >= 0.5


@pytest.mark.parametrize(
    ("made", "path"),
    [
        (target("openai", base_url="ROOT"), "/v1/chat/completions"),
        (target("openai", endpoint="ROOT/gateway/", model="", variant="m"), "/gateway/v1/chat/completions"),
        (target("openai", base_url="ROOT/v1beta/openai"), "/v1beta/openai/chat/completions"),
        (target("azure", endpoint="ROOT"), "/openai/v1/responses?api-version=v1"),
    ],
)
def test_agentvs_default_protocols_and_addresses(made: Target, path: str) -> None:
    answer = Answer(body=json.dumps(RESPONSES_REPLY).encode()) if made.provider == "azure" else chat("Hello")
    with Server([answer]) as server, client() as llm:
        root = server.url.removesuffix("/v1")
        settings = {k: v.replace("ROOT", root) if isinstance(v, str) else v for k, v in made.settings.items()}
        assert ask(llm, Target(name="t", provider=made.provider, settings=settings), REQUEST).text == "Hello"
    [asked] = server.asked
    assert (asked.path, asked.body["model"]) == (path, "m")
