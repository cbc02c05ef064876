"""The start of TLS in a tunnel: which server is meant must be said, and be the one that was asked for."""

from __future__ import annotations

import random
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from agentv_sandbox.egress import tunnel
from agentv_sandbox.egress.endpoint import Refused, parse_endpoint
from agentv_sandbox.egress.grant import Grant
from agentv_sandbox.egress.hello import ALERT, HelloGuard
from agentv_sandbox.egress.trouble import network_troubles, server_faults
from agentv_sandbox.models.suite import NetworkPolicy
from tests.egress.test_proxy import proxy, rows
from tests.llm.test_environment import certificate
from tests.unix import connect_to, socket_of

HOST = "good.example"


def extension(kind: int, data: bytes) -> bytes:
    return kind.to_bytes(2, "big") + len(data).to_bytes(2, "big") + data


def sni(*names: str, kind: int = 0) -> bytes:
    rows = b"".join(bytes([kind]) + len(n).to_bytes(2, "big") + n.encode() for n in names)
    return extension(0, len(rows).to_bytes(2, "big") + rows)


def message(*extensions: bytes, cut: int = 0, more: bytes = b"") -> bytes:
    block = b"".join(extensions)
    body = b"\x03\x03" + bytes(32) + b"\x00" + b"\x00\x02\x13\x01" + b"\x01\x00"
    body += len(block).to_bytes(2, "big") + block + more
    body = body[: len(body) - cut]
    return b"\x01" + len(body).to_bytes(3, "big") + body


def records(data: bytes, size: int = 1 << 14) -> bytes:
    parts = [data[at : at + size] for at in range(0, len(data), size)]
    return b"".join(b"\x16\x03\x01" + len(part).to_bytes(2, "big") + part for part in parts)


def hello(*extensions: bytes, **how) -> bytes:
    return records(message(*extensions, **how))


GOOD = hello(sni(HOST), extension(16, b"\x00\x03\x02h2"))
REFUSED = {
    "another server": hello(sni("evil.example")),
    "no server": hello(extension(16, b"\x00\x03\x02h2")),
    "no extensions": records(
        b"\x01" + (41).to_bytes(3, "big") + b"\x03\x03" + bytes(32) + b"\0\0\2\x13\1\1\0"
    ),
    "encrypted (ECH)": hello(sni(HOST), extension(0xFE0D, b"\x00" * 40)),
    "encrypted (older)": hello(sni(HOST), extension(0xFFCE, b"\x00" * 40)),
    "encrypted, outer extensions": hello(sni(HOST), extension(0xFD00, b"\x02\x00\x00")),
    "two names": hello(sni(HOST, "evil.example")),
    "two names, ours last": hello(sni("evil.example", HOST)),
    "two lists": hello(sni(HOST), sni("evil.example")),
    "a name of another kind": hello(sni(HOST, kind=1)),
    "a longer name": hello(sni(f"{HOST}.evil.example")),
    "a name within": hello(sni(f"evil.{HOST}")),
    "a final dot": hello(sni(f"{HOST}.")),
    "an address": hello(sni("127.0.0.1")),
    "NUL": hello(sni(f"{HOST}\x00.evil.example")),
    "not ASCII": hello(sni("gööd.example")),
    "empty": hello(sni("")),
    "a list that is too short": hello(extension(0, b"\x00\x01\x00")),
    "bytes after the list": hello(extension(0, sni(HOST)[4:] + b"x")),
    "bytes after the extensions": hello(sni(HOST), more=b"xx"),
    "cut": hello(sni(HOST), cut=3),
    "two messages in a record": records(message(sni(HOST)) + message(sni("evil.example"))),
    "another message first": records(b"\x02\x00\x00\x01x"),
    "an empty record": b"\x16\x03\x01\x00\x00" + GOOD,
    "a large record": b"\x16\x03\x01\x50\x00" + bytes(100),
    "a large hello": records(message(sni(HOST), extension(21, bytes(40_000)))),
    "a hello that says it is large": b"\x16\x03\x01\x00\x04\x01\xff\xff\xff",
    "an alert first": b"\x15\x03\x01\x00\x02\x01\x00" + GOOD,
    "SSL 2": b"\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10" + bytes(40),
    "other data between its records": records(message(sni(HOST)), 60)[:65] + b"\x17\x03\x03\x00\x01x",
    "plain HTTP": b"GET / HTTP/1.1\r\nHost: good.example\r\n\r\n",
    "SSH": b"SSH-2.0-x\r\n",
}


def guard(host: str = f"{HOST}:443", *, needs_tls: bool = True) -> HelloGuard:
    return HelloGuard(parse_endpoint(host), needs_tls=needs_tls)


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_a_hello_that_is_not_for_the_host_is_refused(name: str, size: int) -> None:
    watching, data, passed = guard(), REFUSED[name], b""
    with pytest.raises(Refused):
        for at in range(0, len(data), size):
            passed += watching.feed(data[at : at + size])
    assert passed == b"", "something of it reached the server"


@pytest.mark.parametrize("record", [1, 3, 50, 1 << 14])
@pytest.mark.parametrize("segment", [1, 5, 100_000])
def test_the_hosts_own_hello_passes_however_it_is_cut(record: int, segment: int) -> None:
    for host in (HOST, HOST.upper()):
        watching, data = (
            guard(),
            records(message(sni(host)), record) + b"\x14\x03\x03\x00\x01\x01\x17\x03\x03\x00\x01x",
        )
        passed = b"".join(watching.feed(data[at : at + segment]) for at in range(0, len(data), segment))
        assert (passed, watching.done, watching.is_waiting) == (data, True, False)


def test_a_second_hello_is_held_to_the_same() -> None:
    change = b"\x14\x03\x03\x00\x01\x01"
    watching = guard()
    assert watching.feed(GOOD + change + GOOD) == GOOD + change + GOOD
    for first in (GOOD, GOOD + change):
        watching = guard()
        assert watching.feed(first) == first
        with pytest.raises(Refused, match=r"evil\.example"):
            watching.feed(REFUSED["another server"])


def test_addresses_have_no_name_to_say() -> None:
    for host, good in (("192.0.2.1:443", b""), ("127.0.0.1:8443", sni("localhost"))):
        data = hello(good) if good else hello()
        assert guard(host).feed(data) == data
        with pytest.raises(Refused):
            guard(host).feed(hello(sni("evil.example")))


def test_other_ports_may_speak_what_they_like_but_not_tls_for_others() -> None:
    for data in (REFUSED["plain HTTP"], REFUSED["SSH"], b"\x00\x01"):
        assert guard("good.example:22", needs_tls=False).feed(data) == data
    with pytest.raises(Refused):
        guard("good.example:22", needs_tls=False).feed(REFUSED["another server"])


def test_no_bytes_break_it_or_pass_unread() -> None:
    chance = random.Random(3)
    for _ in range(3000):
        data = bytearray(GOOD)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        watching = guard()
        with suppress(Refused):
            if passed := watching.feed(bytes(data)):
                assert HOST.encode() in passed.lower()


@contextmanager
def tls_server(folder: Path) -> Iterator[tuple[int, list[bytes], list[str | None]]]:
    """Port, what came to it as bytes, and the names that clients gave."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate(folder))
    names: list[str | None] = []
    context.sni_callback = lambda _sock, name, _context: names.append(name)
    came: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve(sock: socket.socket) -> None:
            with sock, suppress(OSError):
                sock.settimeout(60)
                came.append(sock.recv(10, socket.MSG_PEEK))
                with context.wrap_socket(sock, server_side=True) as tls:
                    tls.recv(100)
                    tls.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")

        def accept() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1], came, names
        listener.shutdown(socket.SHUT_RDWR)


def connected(grant: Grant, host: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(60)
    connect_to(sock, socket_of(grant))
    sock.sendall(f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += sock.recv(1)
    assert b" 200 " in head.split(b"\r\n")[0], head
    return sock


def asked(sock: socket.socket, name: str | None) -> bytes:
    """What a real client of TLS gets that says ``name``."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with context.wrap_socket(sock, server_hostname=name) as tls:
        tls.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        return tls.recv(100)


def test_a_real_client_reaches_the_host_that_it_asked_for_and_no_other(tmp_path: Path) -> None:
    with tls_server(tmp_path) as (port, came, names):
        front = f"front.example:{port}"
        allow = NetworkPolicy(allow=(front, f"127.0.0.1:{port}"))
        with proxy(resolve=lambda _: ["127.0.0.1"]).grant(allow, {}) as grant:
            assert asked(connected(grant, front), "front.example").startswith(b"HTTP/1.1 200")
            assert names == ["front.example"]
            for name in ("hidden.example", None):
                with pytest.raises(ssl.SSLError, match="ACCESS_DENIED"):
                    asked(connected(grant, front), name)
        # The twin: without the proxy, this server answers for any name.
        assert asked(socket.create_connection(("127.0.0.1", port)), "hidden.example").startswith(
            b"HTTP/1.1 200"
        )
    assert names == ["front.example", "hidden.example"]
    assert [row["decision"] for row in rows(grant)] == ["allowed", "refused", "refused"]
    assert "names the server 'hidden.example'" in rows(grant)[1]["reason"]
    assert "names no server (SNI)" in network_troubles(grant.log)[1]
    assert len(came) == 4 and came[1:3] == [b"", b""], "bytes of a refused hello came to the server"


@pytest.mark.engine  # which runs where ports below 1024 may be served
def test_the_port_of_https_carries_tls_alone() -> None:
    with socket.create_server(("127.0.0.1", 443)) as listener:
        for policy, reached in (
            (NetworkPolicy(allow=("localhost:443",)), False),
            (NetworkPolicy(allow=("localhost:443",), plain=("localhost:443",)), True),
        ):
            with proxy().grant(policy, {}) as grant, connected(grant, "localhost:443") as sock:
                server, _ = listener.accept()
                with server:
                    sock.sendall(b"GET / HTTP/1.1\r\n\r\n")
                    server.settimeout(60)
                    assert server.recv(10).startswith(b"GET") is reached
                    if not reached:
                        assert sock.recv(20) == ALERT


def test_a_hello_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tunnel, "_HELLO_TIMEOUT_S", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host = f"127.0.0.1:{listener.getsockname()[1]}"
        with proxy().grant(NetworkPolicy(allow=(host,)), {}) as grant, connected(grant, host) as sock:
            time.sleep(0.5)  # silence is no fault where anything may be spoken
            sock.sendall(GOOD[:20])
            assert sock.recv(20) == ALERT
    assert "did not come in time" in rows(grant)[0]["reason"]


ANSWERS = {
    b"HTTP/1.1 400 Bad Request\r\n\r\n": "does not speak TLS",
    b"\x15\x03\x03\x00\x02\x02\x70": "refused the TLS connection (alert 112)",
    b"": "closed the connection in place of a TLS answer",
}


@pytest.mark.parametrize("answer", ANSWERS)
def test_faults_of_tls_and_names_are_said_of_listed_hosts(answer: bytes) -> None:
    def resolve(host: str) -> list[str]:
        if host.startswith("missing"):
            raise socket.gaierror(-2, "Name or service not known")
        return ["127.0.0.1"]

    with socket.create_server(("127.0.0.1", 0)) as listener:
        host = f"{HOST}:{listener.getsockname()[1]}"
        allow = NetworkPolicy(allow=(host, host.replace(HOST, "127.0.0.1"), "missing.example:443"))
        with proxy(resolve=resolve).grant(allow, {}) as grant:
            with connected(grant, host) as sock:
                sock.sendall(GOOD)
                server, _ = listener.accept()
                assert server.recv(100) == GOOD
                server.sendall(answer)
                server.close()
                assert sock.recv(100) == answer
            with pytest.raises(AssertionError, match="403"):
                connected(grant, "missing.example:443")
    faults = " ".join(server_faults(grant.log))
    assert ANSWERS[answer] in faults
    assert "missing.example:443 could not be used: missing.example does not resolve" in faults
