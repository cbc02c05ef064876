"""What graders may look at has the figures of the answer."""

from __future__ import annotations

from dataclasses import fields

from agentv_sandbox.models.case import AgentResponse, CaseOutput
from agentv_sandbox.models.figures import Measure, TokenUsage


def test_every_figure_that_both_records_have_is_carried_over() -> None:
    response = AgentResponse(
        token_usage=TokenUsage(input=1, output=2),
        cost_usd=0.5,
        measure=Measure(by_agent=("tool_calls",)),
        duration_ms=3.0,
        start_time="2026-01-01T00:00:00Z",
        end_time="2026-01-01T00:00:03Z",
    )
    both = {each.name for each in fields(CaseOutput)} & {each.name for each in fields(AgentResponse)}
    both -= {"messages"}
    output = CaseOutput.of(response, ())
    default = CaseOutput()
    assert len(both) == 6
    for name in both:
        assert getattr(output, name) == getattr(response, name) != getattr(default, name), name
