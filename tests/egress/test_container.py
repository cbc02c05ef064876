"""The way out as an agent has it: no network at all, and a forwarder on its own loopback."""

from __future__ import annotations

import json

import pytest

from agentv_sandbox.containers.policy import Role
from agentv_sandbox.containers.sandbox import Sandbox
from agentv_sandbox.egress.proxy import EgressProxy
from agentv_sandbox.models.suite import NetworkPolicy

pytestmark = pytest.mark.engine

CLIENT = """
import json, os, socket, sys, urllib.error, urllib.request
port, closed = sys.argv[1:3]
def status(url):
    try:
        return urllib.request.urlopen(url, timeout=60).status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError as error:
        return type(error).__name__
try:
    socket.create_connection(('192.0.2.1', 80), 3)
    direct = 'connected'
except OSError as error:
    direct = error.strerror
print(json.dumps({
    'as on the host': status(f'http://127.0.0.1:{port}/local'),
    'not listed there': status(f'http://127.0.0.1:{closed}/'),
    'listed, by proxy': status('http://model.example:8080/'),
    'not listed, by proxy': status('http://evil.example/'),
    'direct': direct, 'stdin': sys.stdin.read(),
}))
sys.exit(7)
"""


def test_an_agent_reaches_what_is_listed_and_nothing_else(
    sandbox: Sandbox, tool_image: str, model_server
) -> None:
    local = f"localhost:{model_server.port}"
    policy = NetworkPolicy(allow=(local, "model.example:8080"))
    with EgressProxy({}, resolve=lambda _: ["127.0.0.1"]).grant(policy, {}) as grant:
        argv = ["python3", "-c", CLIENT, str(model_server.port), "9"]
        result = sandbox.run(
            Role.AGENT, grant.wrap(argv), image=tool_image, mounts=grant.mounts, env=grant.env, stdin=b"in"
        )
    assert result.exit_code == 7, result.stderr  # the command's own, not the forwarder's
    assert json.loads(result.stdout) == {
        "as on the host": 200,
        "not listed there": "URLError",
        "listed, by proxy": 403,  # the name leads to a private address that is not listed with this port
        "not listed, by proxy": 403,
        "direct": "Network is unreachable",
        "stdin": "in",
    }
    assert [request["path"] for request in model_server.seen] == ["/local"]
    rows = [json.loads(line) for line in grant.log.splitlines()]
    assert [(row["decision"], row["method"]) for row in rows] == [
        ("allowed", "CONNECT"),
        ("refused", "GET"),
        ("refused", "GET"),
    ]


def test_unknown_command_is_reported(sandbox: Sandbox, tool_image: str) -> None:
    with EgressProxy({}).grant(NetworkPolicy(allow=("a.example:443",)), {}) as grant:
        result = sandbox.run(Role.AGENT, grant.wrap(["no-such-agent"]), image=tool_image, mounts=grant.mounts)
    assert (result.exit_code, result.stderr) == (127, b"no-such-agent: No such file or directory\n")
