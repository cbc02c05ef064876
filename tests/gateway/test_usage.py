"""Tokens, money and bounds, as the gateway counts them."""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import IncompleteRead

import pytest

from agentv_sandbox.gateway.meter import Bounds, Meter
from agentv_sandbox.gateway.replies import ReplyReader
from agentv_sandbox.models_api.dialects.anthropic import Anthropic
from agentv_sandbox.models_api.policy import GatewayPolicy
from agentv_sandbox.models_api.prices import Price
from agentv_sandbox.models_api.sse import MAX_EVENT
from tests.agents.model_server import CACHED, INPUT, OUTPUT, REASONING, ModelServer, Reply, anthropic_events
from tests.unix import connect_to

from .conftest import KEY, Client, opened
from .probes import BODIES, CHAT, CLAUDE, MODELS, PATHS

PRICES = {"*": Price(input=3, output=15, cached=0.3)}
CALL_USD = ((INPUT - CACHED) * 3 + CACHED * 0.3 + OUTPUT * 15) / 1e6
PRICED = GatewayPolicy(models=MODELS, prices=PRICES, apis=frozenset(BODIES))


@pytest.mark.slow
def test_usage_is_the_servers_own_over_500_calls() -> None:
    """All dialects, streamed and not, some with an error before."""
    chance = random.Random(7)
    with ModelServer({}, key=KEY) as server, opened(server.port, PRICED) as client:

        def ask(number: int) -> int:
            dialect = list(BODIES)[number % 4]
            body, path = dict(BODIES[dialect]), PATHS[dialect]
            if chance.random() < 0.4:
                body.pop("stream", None)
                body.pop("stream_options", None)
                path = path.replace("streamGenerateContent?alt=sse", "generateContent")
            wrong = {"model": "nobody"} if number % 10 == 0 and dialect != "gemini" else {}
            return client.ask(path, {**body, **wrong}).status

        with ThreadPoolExecutor(8) as pool:
            statuses = list(pool.map(ask, range(500)))
    answered = statuses.count(200)
    assert answered == len(server.seen) > 400
    use = client.grant.model_use
    assert (use.calls, use.failed, use.without_usage, use.without_price) == (answered, 0, 0, 0)
    assert (use.usage.input, use.usage.output, use.usage.cached) == (
        answered * INPUT,
        answered * OUTPUT,
        answered * CACHED,
    )
    thinking = sum(seen.kind != "anthropic" for seen in server.seen)
    assert use.usage.reasoning == thinking * REASONING
    assert use.cost == pytest.approx(answered * CALL_USD)


class Billing:
    """A server of models that keeps its own accounts: one call in ten has to wait, one is cut off."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.asked = self.limited = self.cut = self.input = self.output = 0

    def answer(self) -> bytes:
        with self.lock:
            self.asked += 1
            kind = self.asked % 10
            if kind == 3:
                self.limited += 1
                return b"HTTP/1.1 429 Wait\r\nretry-after-ms: 5\r\nContent-Length: 2\r\n\r\n{}"
            said = 10 + self.asked % 50
            self.input += INPUT
            self.output += said
            self.cut += kind == 7
        usage = {"input_tokens": INPUT, "output_tokens": 1}
        body = b"".join(
            b"data: " + json.dumps(event).encode() + b"\n\n"
            for event in (
                {"type": "message_start", "message": {"model": CLAUDE["model"], "usage": usage}},
                {"type": "message_delta", "usage": {"output_tokens": said}},
            )
        )
        missing = 100 if kind == 7 else 0
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {len(body) + missing}\r\n\r\n"
        return head.encode() + body

    def serve(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve_one, args=(sock,), daemon=True).start()

    def _serve_one(self, sock: socket.socket) -> None:
        with sock, sock.makefile("rb") as stream:
            size = 0
            while (line := stream.readline().lower()).strip():
                size = int(line.split(b":")[1]) if line.startswith(b"content-length:") else size
            stream.read(size)
            sock.sendall(self.answer())


@pytest.mark.slow
def test_usage_is_the_servers_own_with_waits_and_cut_streams() -> None:
    server = Billing()
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        threading.Thread(target=server.serve, args=(listener,), daemon=True).start()
        with opened(listener.getsockname()[1], PRICED) as client, ThreadPoolExecutor(8) as pool:

            def ask(_: int) -> int:
                try:
                    return client.ask(PATHS["anthropic"], CLAUDE).status
                except IncompleteRead:
                    return 0

            statuses = list(pool.map(ask, range(500)))
        listener.shutdown(socket.SHUT_RDWR)
    use = client.grant.model_use
    assert (statuses.count(200) + statuses.count(0), use.calls) == (500, 500)
    assert statuses.count(0) == server.cut > 40
    assert use.rate_limited == server.limited > 40
    assert server.asked == 500 + server.limited
    assert (use.usage.input, use.usage.output) == (server.input, server.output)
    assert use.cost == pytest.approx((server.input * 3 + server.output * 15) / 1e6)


@contextmanager
def raw_server(answer: Callable[[int], bytes]) -> Iterator[int]:
    """Sends ``answer(number of the call)`` and closes."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            number = 0
            while True:
                try:
                    sock, _ = listener.accept()
                except OSError:
                    return
                with sock:
                    sock.settimeout(60)
                    data = b""
                    while b"\r\n\r\n" not in data:
                        data += sock.recv(65536)
                    size = int(data.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                    while len(data.split(b"\r\n\r\n", 1)[1]) < size:
                        data += sock.recv(65536)
                    sock.sendall(answer(number))
                number += 1

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def stream(events: list[dict]) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
    return head + b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)


def test_of_a_cut_stream_counts_what_the_server_had_said() -> None:
    events = [row for _, row in anthropic_events(Reply("hello there"), "claude-sonnet-4-5")]
    # Of the n-th call, n events arrive, the last one cut in its middle; then an answer that is broken off.
    with raw_server(lambda n: stream(events)[: 100 + 120 * n]) as port, opened(port, PRICED) as client:
        for _ in range(16):
            client.ask(PATHS["anthropic"], CLAUDE)
    sent = [stream(events)[: 100 + 120 * n] for n in range(16)]
    starts = [data.split(b"\n\n")[:-1] for data in sent]
    begun = sum(any(b"message_start" in event for event in rows) for rows in starts)
    ended = sum(any(b"message_delta" in event for event in rows) for rows in starts)
    assert 0 < ended < begun < 16
    use = client.grant.model_use
    assert use.calls == 16
    assert use.without_usage == 16 - begun
    assert use.usage.input == begun * INPUT
    assert use.usage.output == ended * OUTPUT + (begun - ended)
    assert use.cost is None  # since some of it is not known


@pytest.mark.parametrize("reads", [10, 0])
def test_a_client_that_goes_away_early_is_counted_all_the_same(reads: int) -> None:
    long = [{"choices": [{"delta": {"content": "x" * 60_000}}]}] * 100
    last = {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 7}}
    gone = threading.Event()

    def answer(_: int) -> bytes:
        assert reads or gone.wait(10)
        return stream([*long, last])

    with raw_server(answer) as port, opened(port, PRICED) as client:
        with socket.socket(socket.AF_UNIX) as sock:
            connect_to(sock, client.socket)
            sock.sendall(chat_request(client))
            while not reads and not client.grant.ledger._open:
                threading.Event().wait(0.01)
            sock.recv(reads)
        threading.Event().wait(0.1)
        gone.set()
        meter = client.grant.meter
        for _ in range(200):
            if meter.use.calls:
                break
            threading.Event().wait(0.05)
    assert (meter.use.usage.input, meter.use.usage.output) == (5, 7)


def chat_request(client: Client) -> bytes:
    body = json.dumps(CHAT)
    lines = [
        f"POST /{client.route}/v1/chat/completions HTTP/1.1",
        "Host: x",
        "Content-Type: application/json",
        f"x-api-key: {client.grant.env['MODEL_KEY']}",
        f"Content-Length: {len(body)}",
        "",
        body,
    ]
    return "\r\n".join(lines).encode()


def leave_early(client: Client, waits: threading.Event) -> None:
    """A container that asks and is gone before the answer begins."""
    with socket.socket(socket.AF_UNIX) as sock:
        connect_to(sock, client.socket)
        sock.sendall(chat_request(client))
        assert waits.wait(10)


def test_an_answer_under_way_at_the_end_of_a_container_is_counted() -> None:
    last = {
        "choices": [{"delta": {}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 7},
    }
    asked = threading.Event()

    def answer(_: int) -> bytes:
        asked.set()
        time.sleep(1.5)  # the container's end comes first
        return stream([last])

    with raw_server(answer) as port, opened(port, PRICED) as client:
        leave_early(client, asked)
    use = client.grant.model_use
    assert (use.calls, use.failed, use.without_usage) == (1, 0, 0)
    assert (use.usage.input, use.usage.output) == (5, 7)


def test_an_answer_that_has_to_be_cut_makes_the_cost_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agentv_sandbox.egress.proxy._FINISH_GRACE_S", 0.5)
    asked, done = threading.Event(), threading.Event()

    def answer(_: int) -> bytes:
        asked.set()
        done.wait(20)
        return b""

    with raw_server(answer) as port:
        with opened(port, PRICED) as client:
            leave_early(client, asked)
        use = client.grant.model_use
        done.set()
    assert (use.calls, use.failed, use.without_usage, use.cost) == (1, 1, 1, None)


def test_an_event_that_only_we_asked_for_is_not_seen_by_the_client(server: ModelServer) -> None:
    unasked = {key: value for key, value in CHAT.items() if key != "stream_options"}
    with opened(server.port, PRICED) as client:
        with_usage = client.ask(PATHS["chat"], CHAT).body
        without = client.ask(PATHS["chat"], unasked).body
    assert server.seen[1].body["stream_options"] == {"include_usage": True}
    rows = [line for line in with_usage.split(b"\n\n") if b'"choices": []' not in line]
    assert len(rows) < len(with_usage.split(b"\n\n"))
    strip = [row.split(b'"created"')[0] for row in rows]
    assert [row.split(b'"created"')[0] for row in without.split(b"\n\n")] == strip
    assert without.endswith(b"data: [DONE]\n\n")
    assert client.grant.model_use.usage.input == 2 * INPUT


@pytest.mark.parametrize("size", [1, 7, 1000, 1 << 20])
def test_a_reply_is_read_alike_in_pieces_of_any_size(size: int) -> None:
    events = b"".join(
        f"event: {name}\r\ndata: {json.dumps(row)}\r\n\r\n".encode()
        for name, row in anthropic_events(Reply("hello"), "m-1")
    )
    reader = ReplyReader(Anthropic())
    reader.start(200, "text/event-stream; charset=utf-8")
    passed = (
        b"".join(reader.feed(events[at : at + size]) for at in range(0, len(events), size)) + reader.end()
    )
    assert passed == events
    assert reader.usage is not None
    assert (reader.usage.input, reader.usage.output, reader.model) == (INPUT, OUTPUT, "m-1")


@pytest.mark.slow
def test_an_event_without_an_end_is_not_kept() -> None:
    reader = ReplyReader(Anthropic(), drop_usage_event=True)
    reader.start(200, "text/event-stream")
    piece, passed, kept = b"x" * (1 << 20), 0, 0
    for _ in range(64):
        passed += len(reader.feed(piece))
        assert reader._events is not None
        kept = max(kept, len(reader._events._buffer))
    assert kept <= MAX_EVENT + len(piece)
    assert passed + len(reader.feed(b"\n\n")) == 64 * len(piece) + 2
    reader.feed(b'data: {"type": "message_delta", "usage": {"output_tokens": 3}}\n\n')
    assert reader.usage is not None and reader.usage.output == 3


HOSTILE = [
    {"usage": None},
    {"usage": 7},
    {"usage": {"input_tokens": -5, "output_tokens": True}},
    {"usage": {"input_tokens": 1e300, "output_tokens": "9"}},
    {"message": [], "response": 3, "usage": []},
    {"usage": {"cache_creation": [], "cache_read_input_tokens": {}}},
    {"usageMetadata": {"promptTokenCount": None}},
]


@pytest.mark.parametrize("dialect", BODIES)
def test_a_reply_that_makes_no_sense_counts_nothing(dialect: str) -> None:
    answers = [stream([row]) for row in HOSTILE]
    with raw_server(lambda n: answers[n]) as port, opened(port, PRICED) as client:
        for _ in HOSTILE:
            client.ask(PATHS[dialect], BODIES[dialect])
    use = client.grant.model_use
    assert (use.calls, use.usage.input, use.usage.output) == (len(HOSTILE), 0, 0)


BOUNDS = [
    (Bounds(calls=7), 7),
    (Bounds(tokens=5 * (INPUT + OUTPUT)), 5),
    (Bounds(tokens=5 * (INPUT + OUTPUT) + 1), 6),
    (Bounds(cost_usd=4 * CALL_USD), 4),
    (Bounds(cost_usd=4.5 * CALL_USD), 5),
]


@pytest.mark.parametrize(("bounds", "calls"), BOUNDS)
@pytest.mark.parametrize("at_once", [1, 16])
def test_a_budget_stops_within_one_call(
    bounds: Bounds, calls: int, at_once: int, server: ModelServer
) -> None:
    with opened(server.port, PRICED, meter=Meter(bounds)) as client, ThreadPoolExecutor(at_once) as pool:
        statuses = list(pool.map(lambda _: client.ask(PATHS["anthropic"], CLAUDE).status, range(20)))
    assert len(server.seen) == statuses.count(200) == calls
    assert statuses.count(403) == 20 - calls
    assert "the budget of this test is spent" in client.grant.model_refusals[0]


def test_a_budget_above_counts_all_tests(server: ModelServer) -> None:
    suite = Meter(Bounds(cost_usd=10 * CALL_USD), subject="suite")
    suite.spend(4 * CALL_USD)
    for _ in range(4):
        with opened(server.port, PRICED, meter=Meter(Bounds(calls=3), parent=suite)) as client:
            for _ in range(5):
                client.ask(PATHS["anthropic"], CLAUDE)
    assert len(server.seen) == 6
    assert "the budget of this suite is spent" in client.grant.model_refusals[0]


def test_list_prices_come_with_the_library_and_own_ones_win(server: ModelServer) -> None:
    with opened(server.port) as client:
        client.ask(PATHS["anthropic"], CLAUDE)
    assert client.grant.model_use.cost == pytest.approx(0.00267)  # 600 at 3, 400 at 0.3, 50 at 15
    policy = GatewayPolicy(models=("my-model", *MODELS), prices={"claude-*": Price(input=1, output=0)})
    with opened(server.port, policy) as client:
        client.ask(PATHS["anthropic"], CLAUDE)
    assert client.grant.model_use.cost == pytest.approx(INPUT / 1e6)
    with opened(server.port, policy) as client:
        client.ask(PATHS["anthropic"], {**CLAUDE, "model": "my-model"})
    assert client.grant.model_use.without_price == 1
    assert client.grant.model_use.cost is None


def test_money_is_bounded_for_models_with_a_price_alone(server: ModelServer) -> None:
    policy = GatewayPolicy(models=("my-model", *MODELS), needs_price=True)
    with opened(server.port, policy, meter=Meter(Bounds(cost_usd=1))) as client:
        assert client.ask(PATHS["anthropic"], {**CLAUDE, "model": "my-model"}).status == 403
        assert client.ask(PATHS["anthropic"], CLAUDE).status == 200
    assert "the price of 'my-model' is unknown" in client.grant.model_refusals[0]


def test_without_a_word_on_tokens_no_bound_is_kept_for_long() -> None:
    with (
        raw_server(lambda _: stream([{"type": "message_stop"}])) as port,
        opened(port, PRICED, meter=Meter(Bounds(tokens=10_000))) as client,
    ):
        statuses = [client.ask(PATHS["anthropic"], CLAUDE).status for _ in range(8)]
    assert statuses == [200] * 4 + [403] * 4
    assert client.grant.model_use.cost is None
