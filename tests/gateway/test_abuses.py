"""Over six hundred abuses, none of which arrives at the server, and honest requests that arrive byte for byte."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from agentv_sandbox.gateway.examining import examine
from agentv_sandbox.gateway.modelcall import Admitted
from agentv_sandbox.models_api.denial import Denial
from agentv_sandbox.models_api.policy import BOUNDS, GatewayPolicy
from tests.agents.model_server import ModelServer

from .abuses import abuses
from .asked import Asked, asked_with, policy_of, sets
from .conftest import opened
from .honest import PROGRAMS, once_hurt, recorded
from .probes import BODIES, CLAUDE, MODELS, PATHS

ABUSES = abuses()
AT_A_TIME = 40
"""Every so many of them go through the real proxy, too."""


def admitted(asked: Asked) -> Admitted | None:
    """What of it is sent; None where it is refused."""
    try:
        found = examine(asked.request, asked.rules, server=asked.at)
    except Denial as denial:
        assert 400 <= denial.status < 500
        assert denial.reason
        return None
    if found.operation.name != "models" and not asked.rules.admits(found.model, None):
        return None
    return found


def arrives(asked: Asked) -> bool:
    """Whether what is abusive of it would be sent."""
    if (found := admitted(asked)) is None:
        return False
    if not asked.betas:
        return True
    sent = [each.strip() for each in found.headers.get("anthropic-beta", "").split(",")]
    return any(beta in sent for beta in asked.betas)


def test_no_abuse_arrives() -> None:
    through = [f"{each.dialect}: {each.name}" for each in ABUSES if arrives(each)]
    assert through == []
    different = {
        (each.dialect, each.method, each.path, each.body, each.headers, each.host) for each in ABUSES
    }
    assert len(different) >= 600
    assert min(Counter(each.dialect for each in ABUSES).values()) >= 100


@pytest.mark.parametrize("dialect", BODIES)
def test_no_abuse_arrives_through_the_proxy(dialect: str, server: ModelServer) -> None:
    mine = [each for each in ABUSES if each.dialect == dialect and not each.host and each.method == "POST"]
    betas = [each for each in mine if each.betas and len(each.headers) == 1][::20]
    others = [each for each in mine if not each.betas][::AT_A_TIME]
    with opened(server.port, policy_of(dialect)) as client:
        for asked in others:
            reply = client.ask(asked.path, asked.body, headers=dict(asked.headers))
            assert 400 <= reply.status < 500, asked.name
            assert "gateway refused" in reply.json["error"]["message"]
        assert server.seen == []
        for asked in betas:
            assert client.ask(asked.path, asked.body, headers=dict(asked.headers)).status == 200
    assert len(others) >= 5
    assert len(server.seen) == len(betas)
    for asked, seen in zip(betas, server.seen, strict=True):
        assert asked.betas[0] not in seen.headers.get("anthropic-beta", "")


def same(asked: Asked) -> None:
    found = examine(asked.request, asked.rules, server=asked.at)
    assert (found.method, found.path) == (asked.method, asked.path), asked.name
    assert found.body == asked.body, asked.name
    assert found.headers.get("anthropic-beta") == asked.request.headers.get("anthropic-beta"), asked.name
    assert found.lost_betas == ()
    if found.operation.name != "models":
        assert asked.rules.admits(found.model, None), asked.name


def test_what_the_programs_ask_arrives_byte_for_byte() -> None:
    honest = recorded()
    assert len(honest) >= 100
    assert {each.name.partition(":")[0] for each in honest} == set(PROGRAMS)
    for asked in honest:
        same(asked)


@pytest.mark.parametrize("asked", once_hurt(), ids=lambda asked: asked.name)
def test_what_was_refused_or_changed_without_need_arrives_byte_for_byte(asked: Asked) -> None:
    same(asked)


@pytest.mark.parametrize("dialect", BODIES)
def test_honest_requests_pass_the_proxy(dialect: str, server: ModelServer) -> None:
    """As programs write them: Content-Length and content are those that were sent."""
    honest = [each for each in recorded() if each.dialect == dialect and not each.server][::12]
    sent = ("anthropic-beta", "anthropic-version", "user-agent")
    for asked in honest:
        with opened(server.port, asked.rules) as client:
            headers = {name: value for name, value in asked.headers if name in sent}
            client.ask(asked.path, asked.body, headers=headers)
    assert len(server.seen) == len(honest) >= 4
    for asked, seen in zip(honest, server.seen, strict=True):
        assert int(seen.headers["content-length"]) == len(asked.body)
        assert seen.body == json.loads(asked.body)
        assert seen.path == asked.path


BOUNDED = (
    ("anthropic", "max_tokens", "output_tokens"),
    ("anthropic", "thinking.budget_tokens", "thinking_tokens"),
    ("responses", "max_output_tokens", "output_tokens"),
    ("responses", "max_tool_calls", "hosted_calls"),
    ("chat", "max_completion_tokens", "output_tokens"),
    ("chat", "n", "choices"),
    ("chat", "top_logprobs", "logprobs"),
    ("gemini", "generationConfig.maxOutputTokens", "output_tokens"),
    ("gemini", "generationConfig.candidateCount", "choices"),
    ("gemini", "generationConfig.thinkingConfig.thinkingBudget", "thinking_tokens"),
)


@pytest.mark.parametrize(("dialect", "field", "bound"), BOUNDED)
def test_a_bound_is_reached_and_not_passed_and_a_target_can_set_it(
    dialect: str, field: str, bound: str
) -> None:
    most = BOUNDS[bound]

    def passes(value: int, **more: int) -> bool:
        rules = GatewayPolicy(models=MODELS, bounds=more)
        return admitted(asked_with(field, dialect, sets(field, value), policy=rules)) is not None

    assert passes(most)
    assert not passes(most + 1)
    assert passes(most + 1, **{bound: most + 1})
    assert not passes(most + 2, **{bound: most + 1})


@pytest.mark.parametrize(
    ("dialect", "path", "named"),
    [
        ("responses", "webhook", "webhook"),
        ("responses", "reasoning.webhook", "reasoning.webhook"),
        ("anthropic", "output_config.task_budget", "output_config.task_budget"),
        ("gemini", "generationConfig.webhook", "generationConfig.webhook"),
        ("gemini", "generationConfig.webhook", "webhook"),
    ],
)
def test_an_unknown_field_is_refused_by_its_name_and_permitted_by_it(
    dialect: str, path: str, named: str
) -> None:
    asked = asked_with(path, dialect, sets(path, "x"), policy=GatewayPolicy(models=MODELS))
    with pytest.raises(Denial, match=rf"the field '{path}' is not one of .*fields: \[\.\.\.\]"):
        examine(asked.request, asked.rules)
    rules = GatewayPolicy(models=MODELS, fields=frozenset({named}))
    assert b"x" in examine(asked.request, rules).body


def test_an_unknown_beta_is_taken_out_with_a_note_and_permitted_by_its_name(server: ModelServer) -> None:
    betas = {"anthropic-beta": "claude-code-20250219, new-thing-2027-01-01,oauth-2025-04-20"}
    with opened(server.port) as client:
        for _ in range(2):
            assert client.ask(PATHS["anthropic"], CLAUDE, headers=betas).status == 200
    assert server.seen[-1].headers["anthropic-beta"] == "claude-code-20250219,oauth-2025-04-20"
    [note] = client.grant.model_notes
    assert note.startswith("the model gateway took 'new-thing-2027-01-01' out of anthropic-beta")
    assert "gateway: {betas: [...]}" in note and note.endswith("(2 times)")
    assert client.grant.model_refusals == ()
    rules = GatewayPolicy(models=MODELS, betas=frozenset({"new-thing-2027-01-01"}))
    with opened(server.port, rules) as client:
        client.ask(PATHS["anthropic"], CLAUDE, headers=betas)
    assert server.seen[-1].headers["anthropic-beta"] == betas["anthropic-beta"]
    assert client.grant.model_notes == ()


def test_a_grant_permits_its_betas() -> None:
    asked = asked_with(
        "beta", "anthropic", headers=(("anthropic-beta", "files-api-2025-04-14,skills-2025-10-02"),)
    )
    rules = GatewayPolicy(models=MODELS, allow=frozenset({"files"}))
    found = examine(asked.request, rules)
    assert found.headers["anthropic-beta"] == "files-api-2025-04-14"
    assert found.lost_betas == ("skills-2025-10-02",)


def test_an_agent_is_kept_to_the_maker_whose_api_it_asks_first(server: ModelServer) -> None:
    with opened(server.port) as client:
        got = [
            client.ask(PATHS[each], BODIES[each]).status
            for each in ("responses", "chat", "anthropic", "gemini")
        ]
    assert got == [200, 200, 403, 403]
    assert "gateway: {apis: [...]} names all that it speaks" in client.grant.model_refusals[0]
    with opened(server.port, GatewayPolicy(models=MODELS, apis=frozenset({"responses", "gemini"}))) as client:
        got = [client.ask(PATHS[each], BODIES[each]).status for each in ("responses", "chat", "gemini")]
    assert got == [200, 404, 200]
