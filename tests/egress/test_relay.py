"""The way out over a relay container, where containers do not see the host's sockets."""

from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from agentv_sandbox.containers.policy import Role
from agentv_sandbox.containers.sandbox import Sandbox
from agentv_sandbox.egress import mux
from agentv_sandbox.egress.mux import CREDIT, DATA, END, HEAD, OPEN, PIECE, READY, WINDOW, Broken, Mux
from agentv_sandbox.egress.proxy import EgressProxy
from agentv_sandbox.egress.relay import SOCKET, WayOut
from agentv_sandbox.models.container import ExecResult, Mount
from agentv_sandbox.models.suite import NetworkPolicy
from tests.egress.test_container import CLIENT
from tests.fake_engine import finished
from tests.unix import connect_to

AGENT = """
import json, os, sys, threading, urllib.request
key, url = os.environ['MODEL_KEY'], os.environ['MODEL_URL']
def ask(n):
    data = json.dumps({'n': n, 'pad': 'x' * 200000}).encode()
    request = urllib.request.Request(url + '/v1/x', data, {'Authorization': 'Bearer ' + key})
    answer = json.load(urllib.request.urlopen(request, timeout=60))
    sizes.append((n, len(answer['body'])))
sizes = []
threads = [threading.Thread(target=ask, args=(n,)) for n in range(24)]
[t.start() for t in threads]
[t.join() for t in threads]
print(len(sizes), sum(size > 200000 for _, size in sizes))
"""
GARBAGE = """
import os, socket, sys, time
def connect():
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(60)
    sock.connect('/run/agentv-egress/proxy.sock')
    return sock
for n in range(200):
    try:
        with connect() as sock:
            sock.sendall(os.urandom(5000))
    except OSError:
        pass
idle = []
for n in range(100):
    try:
        idle.append(connect())
    except OSError:
        break
for sock in idle:
    sock.close()
try:
    os.unlink('/run/agentv-egress/proxy.sock')
    print('removed it')
except OSError:
    print('could not remove it')
time.sleep(1)
sock = connect()
sock.sendall(b'CONNECT evil.example:443 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')
print(sock.recv(100).split(b'\\r\\n')[0].decode())
"""


@pytest.mark.engine
def test_the_rules_and_the_log_are_those_of_a_shared_socket(
    sandbox: Sandbox, tool_image: str, model_server
) -> None:
    sandbox.tool_image = tool_image
    local = f"localhost:{model_server.port}"
    policy = NetworkPolicy(allow=(local, "model.example:8080"))
    seen = []
    for way in ("socket", "relay"):
        proxy = EgressProxy({}, resolve=lambda _: ["127.0.0.1"], way=WayOut(sandbox, way))
        with proxy.grant(policy, {}) as grant:
            assert grant.mounts[0].kind == ("bind" if way == "socket" else "volume")
            argv = ["python3", "-c", CLIENT, str(model_server.port), "9"]
            result = sandbox.run(
                Role.AGENT,
                grant.wrap(argv),
                image=tool_image,
                mounts=grant.mounts,
                env=grant.env,
                stdin=b"in",
            )
        rows = [json.loads(line) for line in grant.log.splitlines()]
        kept = [
            {k: v for k, v in row.items() if k not in ("time", "duration_s", "bytes_down")} for row in rows
        ]
        seen.append((result.exit_code, json.loads(result.stdout), kept, grant.faults()))
    assert seen[0] == seen[1]
    assert seen[0][1]["as on the host"] == 200


@pytest.mark.engine
def test_many_large_calls_at_once_over_one_relay(sandbox: Sandbox, tool_image: str, model_server) -> None:
    sandbox.tool_image = tool_image
    secret = {"host": f"127.0.0.1:{model_server.port}", "scheme": "http", "base_url_env": "MODEL_URL"}
    proxy = EgressProxy({"MODEL_KEY": "sk-real-relay"}, way=WayOut(sandbox, "relay"))
    with proxy.grant(NetworkPolicy(), {"MODEL_KEY": secret}) as grant:
        argv = grant.wrap(["python3", "-c", AGENT])
        result = sandbox.run(Role.AGENT, argv, image=tool_image, mounts=grant.mounts, env=grant.env)
    assert result.stdout.split() == [b"24", b"24"], result.stderr
    assert "sk-real-relay" not in grant.log and len(model_server.seen) == 24


@pytest.mark.engine
def test_garbage_floods_and_idle_connections_do_not_bring_it_down(sandbox: Sandbox, tool_image: str) -> None:
    sandbox.tool_image = tool_image
    with EgressProxy({}, way=WayOut(sandbox, "relay")).grant(
        NetworkPolicy(allow=("a.example:443",)), {}
    ) as grant:
        result = sandbox.run(Role.AGENT, ["python3", "-c", GARBAGE], image=tool_image, mounts=grant.mounts)
    assert result.stdout.splitlines() == [b"could not remove it", b"HTTP/1.1 403 "], result.stderr
    assert grant.faults() == ()


@pytest.mark.engine
def test_a_relay_that_is_killed_ends_its_calls_and_is_named(sandbox: Sandbox, tool_image: str) -> None:
    sandbox.tool_image = tool_image
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        policy = NetworkPolicy(allow=(f"localhost:{port}",))
        with (
            EgressProxy({}, way=WayOut(sandbox, "relay")).grant(policy, {}) as grant,
            ThreadPoolExecutor(1) as pool,
        ):
            code = f"import socket; s = socket.create_connection(('127.0.0.1', {port})); s.send(b'x'); print(s.recv(9))"
            argv = grant.wrap(["python3", "-c", code])
            running = pool.submit(
                sandbox.run, Role.AGENT, argv, image=tool_image, mounts=grant.mounts, env=grant.env
            )
            with listener.accept()[0] as sock:
                sock.settimeout(60)
                assert sock.recv(1) == b"x"
                mine = sandbox.engine.owned({"agentv-sandbox.run": sandbox.run_id})
                [relay] = [each for each in mine if each.kind == "container" and "-relay-" in each.name]
                sandbox.engine.destroy(relay)
                assert sock.recv(1) == b"", "the call went on without its relay"
            assert running.result(30).stdout == b"b''\n"
            assert grant.faults() == ("the relay container of the way out ended early",)


@pytest.mark.engine
@pytest.mark.usefixtures("each_umask")
def test_whether_a_relay_is_needed_is_found_out_once(sandbox: Sandbox, tool_image: str) -> None:
    sandbox.tool_image = tool_image
    way = WayOut(sandbox)
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda _: way.needs_relay, range(4))) == {False}


def test_another_run_that_looks_first_takes_no_greeting() -> None:
    """As the start of each run does with the sockets of earlier ones."""

    def run(*_: object, mounts: Sequence[Mount], **__: object) -> ExecResult:
        place = Path(str(mounts[0].source)) / SOCKET
        for _number in range(3):
            with socket.socket(socket.AF_UNIX) as other:
                other.settimeout(10)
                connect_to(other, place)
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(10)
            connect_to(sock, place)
            return finished(sock.recv(5))

    sandbox = cast(Sandbox, SimpleNamespace(run=run, tool_image=""))
    assert not WayOut(sandbox).needs_relay


@contextmanager
def pair(**options) -> Iterator[tuple[Mux, Mux, socket.socket]]:
    """Two ends over a socket; ``options``: of the host's. The last is where connections are opened."""
    left, right = socket.socketpair()
    path = f"/tmp/agentv-mux-{os.getpid()}-{random.random()}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(16)
        listener.setblocking(False)

        def end(sock: socket.socket, **more) -> Mux:
            sock.setblocking(False)
            number = sock.fileno()
            return Mux((number, number), lambda: sock.recv(100_000) or None, sock.send, **more)

        try:
            yield end(left, **options), end(right, listener=listener), listener
        finally:
            Path(path).unlink()
            left.close()
            right.close()


def test_a_connection_that_nobody_reads_holds_up_no_other() -> None:
    served: list[socket.socket] = []

    def on_open() -> socket.socket:
        ours, theirs = socket.socketpair()
        served.append(theirs)
        return ours

    with pair(on_open=on_open) as (host, relay, listener):
        clients = [socket.socket(socket.AF_UNIX) for _ in range(2)]
        for client in clients:
            client.connect(listener.getsockname())
            client.setblocking(False)

        def turn(times: int = 40) -> None:
            for _ in range(times):
                relay.step(0.001)
                host.step(0.001)

        turn()
        stuck, fine = clients
        sent = 0
        for _ in range(300):
            with suppress(BlockingIOError):
                sent += stuck.send(b"s" * 10_000)
            turn(2)
        assert sent < 2_000_000, "it is not held back"
        fine.send(b"hello")
        turn()
        served[1].setblocking(False)
        assert served[1].recv(10) == b"hello"
        served[1].send(b"answer")
        served[1].close()
        turn()
        assert (fine.recv(10), fine.recv(10)) == (b"answer", b"")
        # What was stuck arrives whole once somebody reads.
        got, deadline = 0, time.monotonic() + 20
        served[0].setblocking(False)
        while got < sent and time.monotonic() < deadline:
            with suppress(BlockingIOError):
                got += len(served[0].recv(1 << 20))
            turn(2)
        assert got == sent
        for client in clients:
            client.close()
        served[0].close()
        turn()
        assert not host._links and not relay._links


BROKEN = {
    "an unknown kind": HEAD.pack(1, 77, 0),
    "a piece that is too large": HEAD.pack(1, DATA, PIECE + 1),
    "credit that was never used": HEAD.pack(1, OPEN, 0) + HEAD.pack(1, CREDIT, 1),
    "more than may be under way": HEAD.pack(1, OPEN, 0)
    + (HEAD.pack(1, DATA, PIECE) + bytes(PIECE)) * (WINDOW // PIECE + 1),
    "the same connection twice": HEAD.pack(1, OPEN, 0) * 2,
    "too many connections": b"".join(HEAD.pack(n, OPEN, 0) for n in range(200)),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_relay_that_does_not_keep_to_the_form_is_left(name: str) -> None:
    held: list[socket.socket] = []

    def on_open() -> socket.socket:
        ours, theirs = socket.socketpair()
        held.append(theirs)
        return ours

    left, right = socket.socketpair()
    left.setblocking(False)
    end = Mux((left.fileno(),) * 2, lambda: left.recv(1 << 20) or None, left.send, on_open=on_open)
    threading.Thread(target=right.sendall, args=(HEAD.pack(0, READY, 0) + BROKEN[name],), daemon=True).start()
    with pytest.raises(Broken):
        for _ in range(50):
            end.step(0.1)
    assert end.is_ready
    assert len(held) <= 130
    end.close()


def test_what_comes_for_a_connection_that_is_gone_is_ignored() -> None:
    left, right = socket.socketpair()
    left.setblocking(False)
    end = Mux((left.fileno(),) * 2, lambda: left.recv(1 << 20) or None, left.send)
    right.sendall(
        HEAD.pack(9, DATA, 3)
        + b"abc"
        + HEAD.pack(9, END, 0)
        + HEAD.pack(9, CREDIT, 5)
        + HEAD.pack(0, READY, 0)
    )
    assert end.step(1) and end.is_ready


def test_the_script_in_the_container_needs_nothing_but_python(tmp_path) -> None:
    path = tmp_path / "s"
    process = subprocess.Popen(
        ["python3", "-I", "-S", "-c", Path(mux.__file__).read_text(), path.name],
        cwd=tmp_path,  # whose name may be longer than a socket's address
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None and process.stdin is not None
    assert process.stdout.read(HEAD.size) == HEAD.pack(0, READY, 0)
    with socket.socket(socket.AF_UNIX) as client:
        connect_to(client, path)
        assert process.stdout.read(HEAD.size) == HEAD.pack(1, OPEN, 0)
        client.sendall(b"abc")
        assert process.stdout.read(HEAD.size + 3) == HEAD.pack(1, DATA, 3) + b"abc"
        process.stdin.write(HEAD.pack(1, DATA, 2) + b"ok")
        process.stdin.flush()
        assert client.recv(10) == b"ok"
    process.stdin.close()
    process.stdout.read()
    assert process.wait(10) == 0
