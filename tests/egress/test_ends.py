"""Bounds of one container's traffic, and what is open when the container is gone."""

from __future__ import annotations

import json
import socket
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from agentv_sandbox.egress.endpoint import Refused
from agentv_sandbox.egress.ledger import Budget, Ledger, Visit
from agentv_sandbox.egress.proxy import sweep
from tests.egress.test_proxy import connect, policy, post, proxy, rows, status, talk
from tests.unix import connect_to, socket_of


def test_a_tunnel_ends_with_its_container() -> None:
    """An upload that goes on would be one that nobody counts or knows of."""
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(socket.AF_UNIX) as client:
        allowed = f"127.0.0.1:{listener.getsockname()[1]}"
        with proxy().grant(policy(allowed), {}) as grant:
            connect_to(client, socket_of(grant))
            client.sendall(connect(allowed)[0])
            server, _ = listener.accept()
            assert client.recv(65536).startswith(b"HTTP/1.1 200")
            client.sendall(b"ping")
            assert server.recv(4) == b"ping"
        server.settimeout(60)
        with server:
            assert server.recv(1) == b""
    assert [(row["decision"], row["bytes_up"]) for row in rows(grant)] == [("allowed", 4)]


def test_what_a_client_sends_right_behind_its_connect_arrives_and_its_end_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        allowed = f"127.0.0.1:{listener.getsockname()[1]}"
        got = []

        def serve() -> None:
            server, _ = listener.accept()
            with server:
                server.settimeout(60)
                while data := server.recv(100):
                    got.append(data)
                server.sendall(b"heard " + b"".join(got))

        thread = threading.Thread(target=serve)
        thread.start()
        with proxy().grant(policy(allowed), {}) as grant, socket.socket(socket.AF_UNIX) as client:
            client.settimeout(60)
            connect_to(client, socket_of(grant))
            client.sendall(connect(allowed)[0] + b"early")
            client.shutdown(socket.SHUT_WR)
            answer = b""
            while data := client.recv(65536):
                answer += data
        thread.join(10)
    assert answer.endswith(b"heard early")
    assert rows(grant)[0]["bytes_up"] == 5


def test_a_proxy_that_is_just_starting_is_not_swept_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another run that starts at the same time looks for sockets at which nobody listens."""
    chmod = Path.chmod

    def beside_a_sweep(path: Path, mode: int) -> None:
        sweep()
        chmod(path, mode)
        sweep()

    monkeypatch.setattr(Path, "chmod", beside_a_sweep)
    with proxy().grant(policy("a.example:443"), {}) as grant:
        assert status(talk(grant, b"GET /x HTTP/1.1\r\nHost: x\r\n\r\n")) == 403


def test_nothing_is_opened_any_more_when_the_container_is_gone() -> None:
    ledger = Ledger(Budget())
    with socket.socket() as late:
        ledger.hold(late)
        ledger.close()
        with pytest.raises(Refused, match="container is gone"):
            ledger.hold(late)


def test_the_log_of_a_container_that_never_stops_asking_is_bounded() -> None:
    with proxy(budget=Budget(requests=2)).grant(policy("good.example:443"), {}) as grant:
        for _ in range(6):
            assert status(talk(grant, b"GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n")) == 403
    reasons = [row["reason"] for row in rows(grant)]  # each is noted a moment after its answer
    assert len(reasons) == 3
    assert set(reasons) == {"no such route", "more than 2 requests in one container"}


def test_no_field_of_a_log_row_forges_another_or_grows_without_bounds() -> None:
    text = "a\x1b[31m\n" * 1000
    row = Visit(time="t", method=text, route=text, reason=text).to_json()
    for name in ("method", "route", "reason"):
        assert "\x1b" not in row[name]
        assert 10 < len(row[name]) < 400


def test_a_handler_gets_no_body_that_is_too_large() -> None:
    asked = []

    def handler(*request: object) -> SimpleNamespace:
        asked.append(request)
        return SimpleNamespace(status=200, body=b"{}")

    with proxy().grant(policy(), {}, handlers={"llm": handler}) as grant:
        assert status(post(grant, "/llm/", {}, "x" * (8 << 20))) == 200
        assert status(post(grant, "/llm/", {}, "x" * ((8 << 20) + 1))) == 403
    assert len(asked) == 1


def test_headers_that_end_at_a_hop_are_not_passed_on(model_server) -> None:
    allowed = f"127.0.0.1:{model_server.port}"
    with proxy().grant(policy(allowed), {}) as grant:
        head = f"GET http://{allowed}/ HTTP/1.1\r\nHost: x\r\nConnection: X-Hop, close\r\n"
        assert status(talk(grant, f"{head}X-Hop: 1\r\nX-Other: 2\r\n\r\n".encode())) == 200
    names = {name.lower() for name, _ in model_server.seen[0]["headers"]}
    assert "x-other" in names
    assert "x-hop" not in names


@pytest.mark.parametrize("target", ["http://{allowed}/a#b", "http://{allowed}/a\\b", "/llm/a#b"])
def test_addresses_that_two_programs_read_differently(target: str, model_server) -> None:
    allowed = f"127.0.0.1:{model_server.port}"
    handlers = {"llm": lambda *_: SimpleNamespace(status=200, body=b"{}")}
    with proxy().grant(policy(allowed), {}, handlers=handlers) as grant:
        line = f"GET {target.format(allowed=allowed)} HTTP/1.1\r\nHost: x\r\n\r\n"
        assert status(talk(grant, line.encode())) == 403
    assert model_server.seen == []


def test_the_log_is_in_the_order_in_which_requests_began() -> None:
    """A connection that lasts is noted after those that began later and ended before it."""
    ledger = Ledger(Budget())
    first, second = (Visit(time="t", method=method) for method in ("FIRST", "SECOND"))
    ledger.note(second)
    ledger.note(first)
    assert [json.loads(line)["method"] for line in ledger.jsonl().splitlines()] == ["FIRST", "SECOND"]
