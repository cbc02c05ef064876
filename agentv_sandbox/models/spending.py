"""What tests cost."""

from __future__ import annotations

from agentv_sandbox.models.case import CaseResult


def cost_of(result: CaseResult, *, all_agents: bool = False) -> float:
    """What agents and graders of all its trials cost, in US dollars; of agents that ran before only with
    ``all_agents``."""
    if result.trials:
        return sum(cost_of(trial, all_agents=all_agents) for trial in result.trials)
    agent = _agent_cost(result) if all_agents or not result.carried else 0.0
    return agent + _graders_cost(result)


def cost_beside_gateway(result: CaseResult) -> float:
    """The part of one trial's cost that the model gateway did not count."""
    response = result.response
    counted = response is not None and response.model_calls is not None and response.cost_usd is not None
    counted = counted or result.carried
    return _graders_cost(result) + (0.0 if counted else _agent_cost(result))


def _agent_cost(result: CaseResult) -> float:
    """As counted; as the agent says where that is unknown."""
    response = result.response
    if response is None:
        return 0.0
    claim = response.claim.cost_usd if response.claim is not None else None
    return response.cost_usd if response.cost_usd is not None else claim or 0.0


def _graders_cost(result: CaseResult) -> float:
    return sum(score.cost_usd or 0.0 for score in result.scores)
