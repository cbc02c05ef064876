"""Answers without an end are cut, also where no budget is set."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from agentv_sandbox.models_api.policy import BOUNDS, GatewayPolicy

from .conftest import opened
from .probes import CHAT, CLAUDE, MODELS, PATHS

EVENT = b'data: {"type": "ping"}\n\n'
FIRST = b'data: {"type": "message_start", "message": {"usage": {"input_tokens": 7, "output_tokens": 1}}}\n\n'


@contextmanager
def endless(pause_s: float, status: bytes = b"200 OK") -> Iterator[tuple[int, list[int]]]:
    """A server whose answers go on until the connection is closed: its port, and the bytes of each answer."""
    sizes: list[int] = []

    def serve() -> None:
        sock, _ = listener.accept()
        with sock, suppress(OSError):
            sock.recv(1 << 20)
            sock.sendall(b"HTTP/1.1 " + status + b"\r\nContent-Type: text/event-stream\r\n\r\n" + FIRST)
            sizes.append(0)
            while not over.wait(pause_s):
                piece = EVENT * (1 if pause_s else 1000)
                sock.sendall(piece)
                sizes[-1] += len(piece)

    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listener.getsockname()[1], sizes
        finally:
            over.set()
            thread.join(20)
        assert not thread.is_alive()


def cut(client, path: str, body: object) -> bytes:
    """What came of an answer before it ended in its middle."""
    with pytest.raises((http.client.IncompleteRead, ConnectionError)) as caught:
        client.ask(path, body)
    return getattr(caught.value, "partial", b"")


def test_a_stream_that_goes_on_in_drips_is_cut_after_a_time() -> None:
    rules = GatewayPolicy(models=MODELS, bounds={"answer_seconds": 0.3})
    began = time.monotonic()
    with endless(0.02) as (port, _), opened(port, rules) as client:
        assert FIRST in cut(client, PATHS["anthropic"], CLAUDE)
    assert time.monotonic() - began < 20
    [row] = client.log()
    assert "cut an answer that takes longer than 0.3 s" in row["reason"]
    assert "gateway: {bounds: {answer_seconds: ...}} permits more" in row["reason"]
    use = client.grant.model_use
    assert (use.calls, use.usage.input, use.without_usage) == (1, 7, 1)


def test_a_server_that_says_nothing_more_is_cut_after_a_time() -> None:
    rules = GatewayPolicy(models=MODELS, bounds={"answer_seconds": 0.3})
    with endless(100) as (port, _), opened(port, rules) as client:
        cut(client, PATHS["chat"], CHAT)
    assert "cut an answer that takes longer than 0.3 s" in client.log()[0]["reason"]


def test_a_stream_that_goes_on_fast_is_cut_at_a_size() -> None:
    rules = GatewayPolicy(models=MODELS, bounds={"answer_bytes": 300_000})
    with endless(0) as (port, sizes), opened(port, rules) as client:
        assert len(cut(client, PATHS["anthropic"], CLAUDE)) <= 300_000
    assert sizes[0] < 50_000_000
    assert "cut an answer that is larger than 300,000 bytes" in client.log()[0]["reason"]


def test_an_answer_that_asks_to_wait_is_cut_too() -> None:
    rules = GatewayPolicy(models=MODELS, bounds={"answer_seconds": 0.3})
    with endless(0.02, b"429 Too Many Requests") as (port, _), opened(port, rules) as client:
        assert client.ask(PATHS["chat"], CHAT).status == 502
    assert "cut an answer" in client.log()[0]["reason"]


def test_bounds_hold_where_nothing_is_said() -> None:
    """Those of an answer at least as large as what a model says at its longest."""
    assert GatewayPolicy().bound("answer_seconds") == BOUNDS["answer_seconds"] == 3600
    assert GatewayPolicy().bound("answer_bytes") == BOUNDS["answer_bytes"] == 64 << 20
