"""Each abuse gets through a plain proxy that adds the key, and not through the gateway."""

from __future__ import annotations

import threading

import pytest

from agentv_sandbox.models_api.policy import GRANTS, GatewayPolicy
from tests.agents.model_server import ModelServer

from .conftest import KEY, opened
from .probes import BODIES, MODELS, PATHS, PROBES, Probe


def ask(client, probe: Probe):
    path = probe.path or PATHS[probe.dialect]
    return client.ask(path, probe.body, method=probe.method, headers=probe.headers)


@pytest.mark.parametrize("probe", PROBES, ids=lambda probe: f"{probe.dialect}: {probe.name}")
def test_an_abuse_is_refused_in_the_form_of_the_api(probe: Probe, server: ModelServer) -> None:
    with opened(server.port, guarded=False) as naive:
        ask(naive, probe)
    assert len(server.seen) == 1, "the naive twin did not let it through"
    assert server.seen[0].headers["x-api-key"] == KEY
    with opened(server.port) as client:
        reply = ask(client, probe)
    assert len(server.seen) == 1, "it reached the server"
    assert reply.status == (404 if probe.path == "/v1/files" else probe.status), reply.body
    assert reply.headers["x-should-retry"] == "false"
    error = reply.json["error"]
    assert "gateway refused" in error["message"]
    forms = {
        "anthropic": {"type", "message"},
        "responses": {"message", "type", "param", "code"},
        "chat": {"message", "type", "param", "code"},
        "gemini": {"code", "message", "status"},
    }
    if not probe.path:
        assert error.keys() == forms[probe.dialect]
    [row] = client.log()
    assert (row["decision"], row["status"], row["gateway"]) == ("refused", reply.status, True)
    assert row["reason"]
    assert len(client.grant.model_refusals) == 1
    assert row["reason"][:40] in client.grant.model_refusals[0]
    if probe.grant:
        assert f"gateway: {{allow: [{probe.grant}]}} permits it" in client.grant.model_refusals[0]


GRANTED = [probe for probe in PROBES if probe.grant]


@pytest.mark.parametrize("probe", GRANTED, ids=lambda probe: f"{probe.dialect}: {probe.name}")
def test_a_grant_by_name_opens_this_and_nothing_else(probe: Probe, server: ModelServer) -> None:
    others = GatewayPolicy(models=MODELS, allow=frozenset(GRANTS) - {probe.grant})
    with opened(server.port, others) as client:
        assert ask(client, probe).status == 403
    assert server.seen == []
    with opened(server.port, GatewayPolicy(models=MODELS, allow=frozenset({probe.grant}))) as client:
        reply = ask(client, probe)
    assert (reply.status, len(server.seen)) == (200, 1), reply.body


def test_every_grant_is_needed_by_some_probe() -> None:
    assert GRANTS.keys() == {probe.grant for probe in PROBES} - {""} | {"tool_search"}
    assert len(PROBES) >= 60


@pytest.mark.parametrize("dialect", BODIES)
def test_what_the_programs_send_is_passed_on(dialect: str, server: ModelServer) -> None:
    with opened(server.port) as client:
        reply = client.ask(PATHS[dialect], BODIES[dialect])
    assert reply.status == 200, reply.body
    [seen] = server.seen
    assert seen.body == BODIES[dialect]
    assert seen.path == PATHS[dialect]
    assert client.log()[0]["decision"] == "allowed"


def test_nothing_goes_on_when_a_containers_way_out_is_closed(server: ModelServer) -> None:
    """The thread that takes connections ends with it, and is not waited for in vain."""
    before = threading.active_count()
    for probe in PROBES[:40]:
        with opened(server.port, guarded=False) as naive:
            ask(naive, probe)
    assert not [thread for thread in threading.enumerate() if "_accept" in thread.name]
    assert threading.active_count() <= before + 1
