"""What tests cost."""

from __future__ import annotations

from agentv_sandbox.models.case import CaseResult


def cost_of(result: CaseResult) -> float:
    """What agents and graders of all its trials cost, in US dollars; of one that was graded again, its graders."""
    if result.trials:
        return sum(map(cost_of, result.trials))
    return (0.0 if result.regraded_from else _agent_cost(result)) + _graders_cost(result)


def cost_beside_gateway(result: CaseResult) -> float:
    """The part of one trial's cost that the model gateway did not count."""
    response = result.response
    counted = response is not None and response.model_calls is not None and response.cost_usd is not None
    counted = counted or bool(result.regraded_from)
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
