"""Rate limits of a server, met once by all containers that use one key."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from agentv_sandbox.base.errors import LlmError
from agentv_sandbox.egress.proxy import EgressProxy
from agentv_sandbox.gateway.meter import Bounds, Meter
from agentv_sandbox.gateway.modelcall import ModelCall
from agentv_sandbox.modelcalls import limiter
from agentv_sandbox.modelcalls.limiter import KeyLimit, RateLimits
from agentv_sandbox.modelcalls.waits import MOST_WAIT_S, asked_wait
from agentv_sandbox.modelclient.llmclient import LlmClient
from agentv_sandbox.models.suite import NetworkPolicy, Target
from agentv_sandbox.models_api.dialects.chat import Chat
from agentv_sandbox.models_api.dialects.openai import OpenAiServer
from agentv_sandbox.models_api.policy import GatewayPolicy
from agentv_sandbox.models_api.records import LlmRequest

from .conftest import Client, Reply
from .probes import CLAUDE, MODELS, PATHS

SERVER = OpenAiServer(url=lambda target, verb: f"{target.settings['base_url']}/{verb}")
ANSWER = {
    "model": CLAUDE["model"],
    "content": [],
    "usage": {"input_tokens": 3, "output_tokens": 2},
    "choices": [{"message": {"role": "assistant", "content": "fine"}, "finish_reason": "stop"}],
}
BODY = {name: value for name, value in CLAUDE.items() if name != "stream"}


@dataclass
class Busy:
    """A server whose limit is as ``limits`` says: the answer's status and headers for a request, by its number."""

    limits: Callable[[int], tuple[int, Mapping[str, str]]]
    port: int = 0
    answers: list[tuple[float, int]] = field(default_factory=list)
    """When each was asked, and with which status it was answered."""
    wait_s: float = 0.0
    running: int = 0
    most_running: int = 0
    body: bytes = b'{"error": {"type": "rate_limit_error", "message": "slow down"}}'
    lock: threading.Lock = field(default_factory=threading.Lock)

    def statuses(self) -> list[int]:
        return [status for _, status in self.answers]


@contextmanager
def serving(busy: Busy) -> Iterator[Busy]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            with busy.lock:
                status, headers = busy.limits(len(busy.answers))
                busy.answers.append((time.monotonic(), status))
                busy.running += 1
                busy.most_running = max(busy.most_running, busy.running)
            time.sleep(busy.wait_s)
            data = json.dumps(ANSWER).encode() if status == 200 else busy.body
            with busy.lock:
                busy.running -= 1
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    busy.port = http.server_address[1]
    threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield busy
    finally:
        http.shutdown()
        http.server_close()


@contextmanager
def containers(
    port: int, limits: RateLimits, count: int = 1, *, key: str = "sk-shared-key", **more
) -> Iterator[list[Client]]:
    secret = {"host": f"127.0.0.1:{port}", "scheme": "http", "header": "x-api-key", "model_server": True}
    with ExitStack() as stack:
        clients = []
        for _ in range(count):
            proxy = EgressProxy({"MODEL_KEY": key}, limits=limits)
            opened = proxy.grant(
                NetworkPolicy(), {"MODEL_KEY": secret}, gateway=GatewayPolicy(models=MODELS), **more
            )
            clients.append(Client(stack.enter_context(opened), f"127.0.0.1:{port}"))
        yield clients


def ask(client: Client) -> Reply:
    return client.ask(PATHS["anthropic"], BODY)


def until_it_waits(client: Client) -> None:
    """A server's answer is known to the others only when its call waits: by when it was asked they could be too."""
    while not client.grant.waits.seconds:
        time.sleep(0.01)


def test_a_limit_is_met_once_and_waited_for_by_all_containers() -> None:
    first_only = Busy(lambda number: (429, {"Retry-After": "1"}) if number == 0 else (200, {}))
    began = time.monotonic()
    with (
        serving(first_only) as busy,
        containers(busy.port, RateLimits(), 6) as clients,
        ThreadPoolExecutor(18) as pool,
    ):
        asked_first = pool.submit(ask, clients[0])
        until_it_waits(clients[0])
        others = [pool.submit(ask, client) for client in clients for _ in range(3)]
        assert [each.result().status for each in (asked_first, *others)] == [200] * 19
    times = [at for at, _ in busy.answers]
    assert busy.statuses() == [429] + [200] * 19
    assert min(times[1:]) - times[0] >= 0.95, "somebody asked before the time that the server named"
    uses = [client.grant.model_use for client in clients]
    assert sum(use.calls for use in uses) == 19
    assert [use.rate_limited for use in uses] == [1, 0, 0, 0, 0, 0]
    whole = time.monotonic() - began
    assert all(0.2 < client.grant.waits.seconds < whole for client in clients), (
        "the wait is of each container, once"
    )
    assert [json.loads(line).get("rate_limited") for line in clients[0].grant.model_log.splitlines()].count(
        1
    ) == 1


def test_after_a_limit_calls_do_not_start_all_at_once() -> None:
    limit, lock, started = KeyLimit(), threading.Lock(), []
    may_end = [threading.Event() for _ in range(8)]

    def ask_once(_: int) -> None:
        with limit.turn() as turn:
            with lock:
                number = len(started)
                started.append(number)
            assert may_end[number].wait(20)
            turn.passed()

    def settled(count: int) -> int:
        """How many have started, once ``count`` have and others had the time to."""
        while len(started) < count:
            time.sleep(0.01)
        time.sleep(0.4)
        return len(started)

    with limit.turn() as turn:
        turn.limited(0.1)
    with ThreadPoolExecutor(8) as pool:
        asking = [pool.submit(ask_once, number) for number in range(8)]
        assert settled(1) == 1
        may_end[0].set()
        assert settled(3) == 3, "one success lets two run beside each other"
        for event in may_end:
            event.set()
        assert [each.result() for each in asking] == [None] * 8


def test_a_limit_that_lasts_too_long_is_said_once_by_the_server_and_then_by_the_gateway() -> None:
    long = Busy(lambda _: (429, {"Retry-After": "3600", "request-id": "r-1"}))
    with serving(long) as busy, containers(busy.port, RateLimits(), 2) as (one, other):
        real, ours = ask(one), ask(other)
    assert busy.statuses() == [429]
    assert (real.status, real.headers["retry-after"], real.headers["request-id"]) == (429, "3600", "r-1")
    assert (ours.status, ours.json["error"]["type"]) == (429, "rate_limit_error")
    assert 590 < int(ours.headers["retry-after"]) <= MOST_WAIT_S
    assert "x-should-retry" not in ours.headers
    assert "rate limit lasts longer" in other.grant.model_refusals[0]
    assert (one.grant.model_use.calls, other.grant.model_use.calls) == (1, 0)


def test_all_waits_of_a_call_together_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs give up on an answer that does not come, however short each of the waits is."""
    monkeypatch.setitem(ModelCall.__init__.__kwdefaults__, "patience_s", 1.2)
    busy = Busy(lambda number: (429 if number < 9 else 200, {"Retry-After": "0.4"}))
    with serving(busy), containers(busy.port, RateLimits()) as (client,):
        assert ask(client).status == 429
    assert 2 <= len(busy.answers) <= 3


FINAL = {
    "used up": (429, {}, b'{"error": {"code": "insufficient_quota", "message": "no money"}}'),
    "not to be asked again": (429, {"x-should-retry": "false", "Retry-After": "1"}, b"{}"),
    "overloaded without a word": (529, {}, b"{}"),
}


@pytest.mark.parametrize("name", FINAL)
def test_what_no_waiting_helps_is_passed_on_at_once(name: str) -> None:
    status, headers, body = FINAL[name]
    busy = Busy(lambda _: (status, headers), body=body)
    with serving(busy), containers(busy.port, RateLimits()) as (client,):
        assert [ask(client).status for _ in range(2)] == [status, status]
        assert ask(client).body == body
    assert busy.statuses() == [status] * 3


def test_a_limit_without_a_time_is_waited_for_shortly(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (limiter._FIRST_UNSAID_S, limiter._MOST_UNSAID_S) == (1, 8)
    monkeypatch.setattr(limiter, "_FIRST_UNSAID_S", 0.1)
    with serving(Busy(lambda _: (429, {}))) as busy, containers(busy.port, RateLimits()) as (client,):
        assert ask(client).status == 429
        until = time.monotonic() + 30
        while (
            not (visits := client.log()) and time.monotonic() < until
        ):  # written when its connection has ended
            time.sleep(0.01)
        (visit,) = visits
        assert (visit["decision"], visit["status"], visit["reason"]) == ("allowed", 429, "")
    assert busy.statuses() == [429] * 3
    assert busy.answers[2][0] - busy.answers[0][0] >= 0.29


def test_another_key_waits_for_nobody() -> None:
    limits = RateLimits()
    with (
        serving(Busy(lambda n: (429, {"Retry-After": "3600"}) if n == 0 else (200, {}))) as busy,
        containers(busy.port, limits) as (one,),
        containers(busy.port, limits, key="sk-other") as (other,),
    ):
        assert (ask(one).status, ask(other).status) == (429, 200)
        assert other.grant.waits.seconds == 0.0


def test_no_more_calls_at_once_than_the_target_says() -> None:
    busy = Busy(lambda _: (200, {}), wait_s=0.05)
    with (
        serving(busy),
        containers(busy.port, RateLimits(), 4, most_at_once=2) as clients,
        ThreadPoolExecutor(12) as pool,
    ):
        assert {reply.status for reply in pool.map(ask, clients * 4)} == {200}
    assert busy.most_running == 2


def test_attempts_that_the_server_had_no_room_for_use_up_no_budget() -> None:
    every_other = Busy(lambda number: (503, {"Retry-After": "0.1"}) if number % 2 == 0 else (200, {}))
    with (
        serving(every_other) as busy,
        containers(busy.port, RateLimits(), meter=Meter(Bounds(calls=3))) as (client,),
    ):
        assert [ask(client).status for _ in range(4)] == [200, 200, 200, 403]
    assert busy.statuses() == [503, 200] * 3
    use = client.grant.model_use
    assert (use.calls, use.failed, use.rate_limited, use.usage.input) == (3, 0, 3, 9)


def test_who_goes_away_while_waiting_is_not_asked_for() -> None:
    with serving(Busy(lambda n: (429, {"Retry-After": "15"}) if n == 0 else (200, {}))) as busy:
        limits = RateLimits()
        with containers(busy.port, limits) as (stays,), ThreadPoolExecutor(2) as pool:
            waiting = pool.submit(ask, stays)
            until_it_waits(stays)
            with containers(busy.port, limits) as (leaves,):
                gone = pool.submit(ask, leaves)
                until_it_waits(leaves)
                # The end of the block is the end of its container.
            assert gone.exception() is not None or gone.result().status == 502
            assert waiting.result().status == 200
    assert busy.statuses() == [429, 200]
    assert leaves.grant.model_use.calls == 0


def test_a_grader_with_the_same_key_waits_too() -> None:
    limits = RateLimits()
    with serving(Busy(lambda n: (429, {"Retry-After": "1"}) if n == 0 else (200, {}))) as busy:
        target = Target(
            name="judge",
            provider="openai",
            settings={"base_url": f"http://127.0.0.1:{busy.port}/v1", "model": "m", "api_key_env": "KEY"},
        )
        with (
            containers(busy.port, limits) as (client,),
            LlmClient({"KEY": "sk-shared-key"}, limits=limits) as llm,
            ThreadPoolExecutor(1) as pool,
        ):
            agents = pool.submit(ask, client)
            until_it_waits(client)
            assert llm.complete(target, LlmRequest(user="U"), Chat(SERVER)).text == "fine"
            assert agents.result().status == 200
        assert busy.statuses() == [429, 200, 200]
        assert busy.answers[1][0] - busy.answers[0][0] >= 0.95
        with LlmClient({"KEY": "sk-shared-key"}, limits=limits) as llm:
            busy.limits = lambda _: (429, {"Retry-After": "3600"})
            with pytest.raises(LlmError, match="HTTP 429"):
                llm.complete(target, LlmRequest(user="U"), Chat(SERVER))
            with pytest.raises(LlmError, match="rate limit lasts longer"):
                llm.complete(target, LlmRequest(user="U"), Chat(SERVER))
    assert busy.statuses() == [429, 200, 200, 429]


def written(value: str) -> str:
    """``http:30`` as the moment 30 seconds from now."""
    form, _, seconds = value.partition(":")
    if form not in ("http", "iso"):
        return value
    moment = datetime.now(UTC) + timedelta(seconds=float(seconds))
    return format_datetime(moment, usegmt=True) if form == "http" else moment.isoformat()


SAID: list[tuple[int, dict[str, str], bytes, float | None]] = [
    (429, {"retry-after": "7"}, b"", 7),
    (429, {"retry-after": "0.5"}, b"", 0.5),
    (503, {"retry-after": "7"}, b"", 7),
    (529, {"retry-after-ms": "1500", "retry-after": "9"}, b"", 1.5),
    (429, {"retry-after": "http:30"}, b"", 30),
    (429, {"retry-after": "http:-30"}, b"", 0),
    (
        429,
        {
            "anthropic-ratelimit-requests-remaining": "0",
            "anthropic-ratelimit-requests-reset": "iso:20",
            "anthropic-ratelimit-tokens-remaining": "5",
            "anthropic-ratelimit-tokens-reset": "iso:90",
        },
        b"",
        20,
    ),
    (429, {"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1m0.5s"}, b"", 60.5),
    (429, {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "20ms"}, b"", 0.02),
    (429, {}, b'{"error": {"details": [{"@type": "x/RetryInfo", "retryDelay": "34.07s"}]}}', 34.07),
    (429, {}, b'{"error": {"details": [{"violations": [{"quotaId": "RequestsPerDay-Free"}]}]}}', None),
    (429, {}, b"", 0),
    (503, {}, b"", None),
    (500, {"retry-after": "7"}, b"", None),
    (200, {"retry-after": "7"}, b"", None),
    (429, {"retry-after": "9" * 12}, b"", MOST_WAIT_S),
]
HOSTILE = [
    "-1",
    "nan",
    "inf",
    "1e9",
    "9" * 400,
    "٣",
    "0x10",
    "",
    "1,2",
    "Mon, 99 Foo 99999999999 99:99:99 GMT",
    "\x00",
]


@pytest.mark.parametrize(("status", "headers", "body", "seconds"), SAID)
def test_how_long_servers_ask_to_wait(
    status: int, headers: dict[str, str], body: bytes, seconds: float | None
) -> None:
    headers = {name: written(value) for name, value in headers.items()}
    assert asked_wait(status, headers, body) == (None if seconds is None else pytest.approx(seconds, abs=1.5))


@pytest.mark.parametrize("value", HOSTILE)
def test_what_is_not_a_time_is_as_if_it_were_not_there(value: str) -> None:
    for name in ("retry-after", "retry-after-ms"):
        assert asked_wait(429, {name: value}, b"") == 0
        assert asked_wait(503, {name: value}, b"") is None
    reset = {"anthropic-ratelimit-tokens-remaining": "0", "anthropic-ratelimit-tokens-reset": value}
    assert asked_wait(429, reset, b"[" * 100_000) == 0
    delay = json.dumps({"error": {"details": [{"retryDelay": value}, value, {"retryDelay": 3}]}}).encode()
    assert asked_wait(429, {}, delay) == 0
