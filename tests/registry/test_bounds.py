"""What a registry can send without end is bounded in bytes, in number and in time."""

from __future__ import annotations

import json
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from agentv_sandbox.registry import RegistryError, parse_reference, pulled_archive

DIGEST = "sha256:" + "0" * 64
Answer = Callable[[socket.socket], None]


def pull(host: str, timeout_s: float) -> None:
    with tempfile.TemporaryFile() as out:
        pulled_archive(
            parse_reference(f"{host}/team/base:1"),
            out,
            architecture="amd64",
            timeout_s=timeout_s,
            cancelled=lambda: False,
        )


@contextmanager
def serving(answer: Answer) -> Iterator[tuple[str, list[bytes]]]:
    """A server that does ``answer`` to each connection; its name and the first lines of what it was asked."""
    asked: list[bytes] = []
    over = threading.Event()

    def serve(connection: socket.socket) -> None:
        connection.settimeout(60)
        with connection, suppress(OSError):
            while head := _head(connection):
                asked.append(head.partition(b"\r\n")[0])
                answer(connection)

    def accept() -> None:
        while not over.is_set():
            with suppress(OSError):
                threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.05)
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}", asked
        finally:
            over.set()
            thread.join()


def _head(connection: socket.socket) -> bytes:
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = connection.recv(4096)
        if not chunk:
            return b""
        data += chunk
        if not data.startswith(b"G"):  # a greeting of TLS
            connection.sendall(b"HTTP/1.1 400 no\r\n\r\n")
            return b""
    return data


def forever(begin: bytes, piece: bytes, wait_s: float = 0.0) -> Answer:
    def answer(connection: socket.socket) -> None:
        connection.sendall(begin)
        while True:
            connection.sendall(piece)
            time.sleep(wait_s)

    return answer


def once(status: str, body: bytes = b"", *headers: str) -> Answer:
    head = "\r\n".join([f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers, "", ""]).encode()
    return lambda connection: connection.sendall(head + body)


def document(**keys: Any) -> Answer:
    return once("200 OK", json.dumps({"schemaVersion": 2, **keys}).encode())


OK = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNK = b"10000\r\n" + b" " * 65536 + b"\r\n"
PART = {"digest": DIGEST, "size": 1}
BASIC, BEARER = 'WWW-Authenticate: Basic realm="x"', 'WWW-Authenticate: Bearer realm="http://{host}/token"'


@pytest.mark.parametrize(
    ("answer", "says", "most_requests"),
    [
        pytest.param(forever(OK, CHUNK), "more than the 8388608 bytes", 1, id="document"),
        pytest.param(
            forever(b"HTTP/1.1 500 x\r\nTransfer-Encoding: chunked\r\n\r\n", CHUNK),
            "answered 500",
            1,
            id="error",
        ),
        pytest.param(once("302 x", b"", "Location: /v2/again"), "no answer", 25, id="redirects"),
        pytest.param(once("401 x", b"", BASIC), "unauthorized", 3, id="logins"),
        pytest.param(document(config=PART, layers=[PART] * 201), "no layers, or too many", 1, id="layers"),
        pytest.param(document(manifests=[{}] * 100_000), "no image for linux/amd64", 1, id="platforms"),
        pytest.param(
            document(config={"digest": DIGEST, "size": 9 << 20}, layers=[]),
            "too large",
            1,
            id="configuration",
        ),
        pytest.param(
            document(manifests=[{**PART, "platform": {"os": "linux", "architecture": "amd64"}}]),
            "is not the one with this digest",
            2,
            id="index",
        ),
        pytest.param(once("200 OK", b"[" * (4 << 20)), "cannot be read", 1, id="nesting"),
        pytest.param(once("200 OK", b"9" * (4 << 20)), "not read here", 1, id="number"),
    ],
)
def test_bytes_and_numbers_are_bounded(answer: Answer, says: str, most_requests: int) -> None:
    with serving(answer) as (host, asked):
        with pytest.raises(RegistryError, match=says) as caught:
            pull(host, 60)
        assert 0 < len(asked) <= most_requests
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(forever(b"HTTP/1.1 200 OK\r\nX-Slow: ", b"x", 0.05), id="a header"),
        pytest.param(forever(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.05), id="interim answers"),
        pytest.param(forever(OK, b"1\r\nx\r\n", 0.05), id="a document"),
        pytest.param(lambda connection: connection.recv(1), id="nothing"),
    ],
)
def test_time_is_bounded_however_slowly_something_comes(answer: Answer) -> None:
    started = time.monotonic()
    with serving(answer) as (host, _), pytest.raises(RegistryError):
        pull(host, 0.5)
    assert time.monotonic() - started < 20
