"""The proxy as a client sees it, over its real socket and with a real server behind it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest

from agentv_sandbox.base.errors import InputError
from agentv_sandbox.egress.grant import Grant
from agentv_sandbox.egress.ledger import Budget
from agentv_sandbox.egress.proxy import EgressProxy, sweep
from agentv_sandbox.egress.relay import MOUNT
from agentv_sandbox.machine.selfcheck.network import SMUGGLING
from agentv_sandbox.models.suite import NetworkPolicy
from tests.unix import bind_to, connect_to, socket_of

KEY = "sk-canary-5f2c8e71aa"


def talk(grant: Grant, request: bytes, *, then: bytes = b"") -> bytes:
    """Send raw bytes to the proxy; everything that comes back. ``then`` is sent after the first answer."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(60)
        connect_to(sock, socket_of(grant))
        answer = b""
        with suppress(BrokenPipeError):  # it may close before it has read everything
            sock.sendall(request)
        if then:
            answer = sock.recv(65536)
            sock.sendall(then)
        with suppress(ConnectionResetError):  # the proxy does not read what it has refused
            while data := sock.recv(65536):
                answer += data
        return answer


def status(answer: bytes) -> int:
    return int(answer.split(b" ", 2)[1])


def policy(*allow: str) -> NetworkPolicy:
    return NetworkPolicy(allow=allow)


def proxy(**options) -> EgressProxy:
    return EgressProxy({"MODEL_KEY": KEY}, **options)


def connect(
    host: str, then: str = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
) -> tuple[bytes, bytes]:
    return f"CONNECT {host} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode(), then.encode()


def rows(grant: Grant) -> list[dict]:
    return [json.loads(line) for line in grant.log.splitlines()]


def test_nothing_asked_for_is_nothing_given() -> None:
    with proxy().grant(policy(), {}) as grant:
        assert (grant.mounts, grant.env, grant.wrap(["a", "b"])) == ((), {}, ("a", "b"))


def test_connect_and_plain_http_reach_a_listed_server(model_server) -> None:
    allowed = f"127.0.0.1:{model_server.port}"
    with proxy().grant(policy(allowed), {}) as grant:
        head, request = connect(allowed)
        assert b'"path": "/"' in talk(grant, head, then=request)
        answer = talk(grant, f"GET http://{allowed}/a?b=1 HTTP/1.1\r\nHost: evil.example\r\n\r\n".encode())
        assert status(answer) == 200
        assert b'"path": "/a?b=1"' in answer
        assert dict(model_server.seen[-1]["headers"])["host"] == allowed
    assert [(row["decision"], row["status"], row["endpoint"]) for row in rows(grant)] == [
        ("allowed", 200, allowed)
    ] * 2
    assert all(row["bytes_down"] > 0 for row in rows(grant))


def test_a_connection_on_which_nothing_is_asked_is_not_a_refusal(model_server) -> None:
    allowed = f"127.0.0.1:{model_server.port}"
    with proxy().grant(policy(allowed), {}) as grant:
        with socket.socket(socket.AF_UNIX) as sock:
            connect_to(sock, socket_of(grant))
        talk(grant, f"GET http://{allowed}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    assert [row["decision"] for row in rows(grant)] == ["allowed"]


@pytest.mark.parametrize("line", SMUGGLING)
def test_smuggling(line: str, model_server) -> None:
    with proxy(resolve=lambda _: ["127.0.0.1"]).grant(policy("good.example:443", "10.9.8.7:80"), {}) as grant:
        request = line.format(port=model_server.port) + f"\r\nHost: 127.0.0.1:{model_server.port}\r\n\r\n"
        assert status(talk(grant, request.encode())) in (400, 403)
    assert model_server.seen == []
    assert [row["decision"] for row in rows(grant)] == ["refused"]


AMBIGUOUS = [
    b"POST {url} HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nContent-Length: 40\r\n\r\nbody",
    b"POST {url} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    b"POST {url} HTTP/1.1\r\nHost: x\r\nContent-Length: +4\r\n\r\nbody",
    b"GET {url} HTTP/1.1\r\nHost: x\r\nA: b\nGET http://127.0.0.1:1/ HTTP/1.1\r\n\r\n",
    b"GET {url} HTTP/1.1\r\nHost: x\r\nA : b\r\n\r\n",
    b"GET  {url} HTTP/1.1\r\nHost: x\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    b"GET {url} HTTP/1.1\r\nHost: x\r\nA: " + b"b" * 200_000,
]


@pytest.mark.parametrize("raw", AMBIGUOUS, ids=range(len(AMBIGUOUS)))
def test_messages_that_two_parsers_may_read_differently(raw: bytes, model_server) -> None:
    allowed = f"127.0.0.1:{model_server.port}"
    with proxy().grant(policy(allowed), {}) as grant:
        assert status(talk(grant, raw.replace(b"{url}", f"http://{allowed}/".encode()))) == 400
    assert model_server.seen == []


def test_one_request_a_connection(model_server) -> None:
    allowed = f"127.0.0.1:{model_server.port}"
    with proxy().grant(policy(allowed), {}) as grant:
        one = f"GET http://{allowed}/ HTTP/1.1\r\nHost: x\r\n\r\n".encode()
        answer = talk(grant, one + f"GET http://{allowed}/second HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert answer.count(b"HTTP/1.1 200") == 1
    assert len(model_server.seen) == 1


def secret(model_server, **more: str) -> dict:
    options = {"host": f"127.0.0.1:{model_server.port}", "scheme": "http", "header": "x-api-key", **more}
    return {"MODEL_KEY": options}


def post(grant: Grant, path: str, headers: dict[str, str], body: str = "{}") -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}"]
    lines += [f"{key}: {value}" for key, value in headers.items()]
    return talk(grant, ("\r\n".join(lines) + "\r\n\r\n" + body).encode())


def test_the_proxy_adds_the_credential_and_the_container_never_sees_it(model_server) -> None:
    with proxy().grant(policy(), secret(model_server, base_url_env="MODEL_URL")) as grant:
        token = grant.env["MODEL_KEY"]
        assert KEY not in json.dumps(dict(grant.env)) + repr(grant)
        route = grant.env["MODEL_URL"].removeprefix("http://127.0.0.1:3128")
        headers = {"x-api-key": token, "Authorization": "Bearer mine", "Cookie": "a=b"}
        answer = post(grant, f"{route}/v1/messages", headers)
        assert status(answer) == 200
        sent = model_server.seen[-1]["headers"]
        assert [value for key, value in sent if key.lower() == "x-api-key"] == [KEY]
        assert not {"authorization", "cookie"} & {key.lower() for key, _ in sent}
        assert model_server.seen[-1]["path"] == "/v1/messages"
        assert KEY.encode() not in answer  # the server repeats it, in a header and in the body
        assert b"*" * len(KEY) in answer
    assert KEY not in grant.log


REFUSED_HEADERS = [
    {},
    {"x-api-key": "agentv-guess"},
    {"x-api-key": KEY},
    {"Authorization": "{token}"},
    {"x-api-key": "{token}", "X-API-Key": "{token}x"},
]


@pytest.mark.parametrize("headers", REFUSED_HEADERS)
def test_credential_needs_the_token_of_this_run(headers: dict, model_server) -> None:
    with proxy().grant(policy(), secret(model_server)) as grant:
        filled = {key: value.format(token=grant.env["MODEL_KEY"]) for key, value in headers.items()}
        assert status(post(grant, f"/127.0.0.1:{model_server.port}/", filled)) == 403
    assert model_server.seen == []


def test_a_token_is_worthless_in_another_run(model_server) -> None:
    with proxy().grant(policy(), secret(model_server)) as first:
        token = first.env["MODEL_KEY"]
    with proxy().grant(policy(), secret(model_server)) as second:
        assert status(post(second, f"/127.0.0.1:{model_server.port}/", {"x-api-key": token})) == 403


def test_a_credential_split_over_the_servers_writes_is_masked() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with proxy().grant(
            policy(), {"MODEL_KEY": {"host": f"127.0.0.1:{port}", "scheme": "http", "prefix": ""}}
        ) as grant:

            def serve() -> None:
                client, _ = listener.accept()
                with client:
                    got = b""
                    while not got.endswith(b"{}"):
                        got += client.recv(65536)
                    text = f"HTTP/1.1 200 OK\r\nContent-Length: {len(KEY) + 2}\r\n\r\n<{KEY}>"
                    for char in text:
                        client.sendall(char.encode())

            thread = threading.Thread(target=serve)
            thread.start()
            answer = post(grant, f"/127.0.0.1:{port}/", {"Authorization": grant.env["MODEL_KEY"]})
            thread.join(10)
    assert answer.endswith(b"<" + b"*" * len(KEY) + b">")


def test_budgets(model_server) -> None:
    allowed = f"127.0.0.1:{model_server.port}"
    with proxy(budget=Budget(requests=2)).grant(policy(allowed), {}) as grant:
        asked = [status(talk(grant, f"GET http://{allowed}/ HTTP/1.0\r\n\r\n".encode())) for _ in range(4)]
        assert asked == [200, 200, 403, 403]
    with proxy(budget=Budget(total_bytes=5_000)).grant(policy(allowed), {}) as grant:
        body = b"x" * 20_000
        head = f"POST http://{allowed}/ HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        assert status(talk(grant, head + body)) == 403
    assert rows(grant)[0]["reason"].startswith("more than 5000 bytes")


class _Large(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "200000")
        self.end_headers()
        with suppress(OSError):
            self.wfile.write(b"x" * 200_000)

    def log_message(self, *_: object) -> None:
        pass


def test_what_comes_down_is_bounded_as_what_goes_up() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Large) as server:
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        allowed = f"127.0.0.1:{server.server_port}"
        with proxy(budget=Budget(total_bytes=5_000)).grant(policy(allowed), {}) as grant:
            assert len(talk(grant, f"GET http://{allowed}/ HTTP/1.0\r\n\r\n".encode())) < 200_000
        server.shutdown()
    assert rows(grant)[0]["reason"].startswith("more than 5000 bytes")


def test_a_handler_of_ours_is_reached_by_its_name() -> None:
    def handler(method: str, path: str, headers, body: bytes):
        return SimpleNamespace(
            status=201, body=json.dumps([method, path, headers["authorization"], body.decode()]).encode()
        )

    with proxy().grant(policy(), {}, handlers={"llm": handler}) as grant:
        assert grant.url("llm") == "http://127.0.0.1:3128/llm"
        answer = post(grant, "/llm/invoke", {"Authorization": "Bearer t"}, '{"question": 1}')
        assert status(answer) == 201
        assert json.loads(answer.split(b"\r\n\r\n")[1]) == ["POST", "/invoke", "Bearer t", '{"question": 1}']


def test_the_log_is_one_escaped_line_a_request() -> None:
    with proxy().grant(policy("good.example:443"), {}) as grant:
        talk(grant, b"CONNECT evil\x1b[31m.example:443 HTTP/1.1\r\nHost: x\r\n\r\n")
        talk(grant, b"CONNECT evil.example:443 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert len(rows(grant)) == 2
    assert "\x1b" not in grant.log
    assert rows(grant)[1]["reason"] == "evil.example:443 is not on the allow list"


def test_the_socket_and_its_directory_are_gone_afterwards(model_server) -> None:
    with proxy().grant(policy(f"localhost:{model_server.port}"), {}) as grant:
        shared = Path(grant.mounts[0].source)
        assert shared.parent.stat().st_mode & 0o777 == 0o700
        assert sorted(p.name for p in shared.iterdir()) == ["forwarder.py", "proxy.sock"]
        assert all(mount.read_only for mount in grant.mounts)
    assert not shared.parent.exists()


def test_folders_of_killed_processes_are_removed_and_live_ones_kept(model_server) -> None:
    with proxy().grant(policy(f"localhost:{model_server.port}"), {}) as live:
        with socket.socket(socket.AF_UNIX) as listener:
            dead = Path(tempfile.mkdtemp(prefix="agentv-egress-"))
            (dead / "shared").mkdir()
            bind_to(listener, dead / "shared" / "proxy.sock")
        starting = Path(tempfile.mkdtemp(prefix="agentv-egress-"))
        with socket.socket(socket.AF_UNIX) as listener:
            open_to_all = Path(tempfile.mkdtemp(prefix="agentv-egress-"))
            (open_to_all / "shared").mkdir()
            bind_to(listener, open_to_all / "shared" / "proxy.sock")
            open_to_all.chmod(0o755)  # none that we made
        assert sweep() >= 1
        assert not dead.exists()
        assert starting.exists()
        assert open_to_all.exists()
        shutil.rmtree(open_to_all)
        assert Path(live.mounts[0].source).exists()
        starting.rmdir()


WRONG = [
    ({"MODEL_KEY": {"header": "x"}}, "Field required"),
    ({"MODEL_KEY": {"host": "a.example", "heder": "x"}}, "Extra inputs"),
    ({"MODEL_KEY": {"host": "a.example", "header": "x y"}}, "is not the name of a header"),
    ({"MODEL_KEY": {"host": "https://a.example"}}, "no port number"),
    ({"UNSET_KEY": {"host": "a.example"}}, "UNSET_KEY is not set"),
    ({"9KEY": {"host": "a.example"}}, "is not the name of an environment variable"),
]


@pytest.mark.parametrize(("secrets", "message"), WRONG)
def test_malformed_secrets(secrets: dict, message: str) -> None:
    with pytest.raises(InputError, match=message), proxy().grant(policy(), secrets):
        pass


def test_all_wrong_allow_entries_are_named_at_once() -> None:
    with (
        pytest.raises(InputError) as caught,
        proxy().grant(policy("example.com", "*:443", "ok.example:443"), {}),
    ):
        pass
    assert [problem.field for problem in caught.value.problems] == ["network.allow[0]", "network.allow[1]"]


def running_forwarders(folder: str) -> list[int]:
    """Processes of this machine that forward to a proxy in ``folder``."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if folder.encode() in path.read_bytes():
                found.append(int(path.parent.name))
    return found


def end_forwarders(folder: str) -> int:
    """How many there were."""
    pids = running_forwarders(folder)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 10
    while running_forwarders(folder) and time.monotonic() < deadline:
        time.sleep(0.02)
    return len(pids)


def test_the_forwarder_becomes_the_command(model_server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The script as it runs in containers, here on a free port of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    allowed = f"127.0.0.1:{model_server.port}"
    client = (
        "import sys, urllib.request as u\n"
        f"opener = u.build_opener(u.ProxyHandler({{'http': 'http://127.0.0.1:{port}'}}))\n"
        f"print(opener.open('http://{allowed}/hello').status, sys.stdin.read(), flush=True)\n"
        "import os; os.kill(os.getpid(), 9)"
    )
    monkeypatch.setattr("agentv_sandbox.egress.grant.PORT", port)
    monkeypatch.setattr(
        "tempfile.tempdir", "/tmp"
    )  # the forwarder is given the path, which is short in a container
    with proxy().grant(policy(allowed), {}) as grant:
        shared = grant.mounts[0].source
        argv = [part.replace(MOUNT, shared) for part in grant.wrap([sys.executable, "-c", client])]
        argv[6] = ""  # the port of the server itself is taken on this machine
        try:
            done = subprocess.run(argv, input="in", capture_output=True, text=True, timeout=20, check=False)
        finally:
            ended = end_forwarders(shared)
    assert ended == 1  # in a container it ends with the container
    assert running_forwarders(shared) == []
    assert (done.stdout, done.returncode) == ("200 in\n", -9), done.stderr
    assert model_server.seen[0]["path"] == "/hello"
