"""Assertions of a test that say nothing of its answer: warnings, since AgentV runs them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentv_sandbox.base.errors import Problem
from agentv_sandbox.models.suite import GraderSpec


def without_effect(assertions: Sequence[GraderSpec], *, compares: bool) -> Iterator[Problem]:
    """``compares``: there is something expected, or there are turns, which say so themselves."""
    for spec in assertions:
        if spec.type == "field-accuracy" and not compares:
            message = f"{spec.name} compares with expected_output, which the test does not have: it scores 0"
            yield from _warning(spec, message, "write the expected object as expected_output")
    if assertions and all(spec.weight == 0 for spec in assertions):
        message = "every assertion of the test has the weight 0, so that its score is 0 whatever they say"
        hint = "give one of them a weight above 0, or take the weights out"
        yield from _warning(assertions[0], message, hint)


def _warning(spec: GraderSpec, message: str, hint: str) -> Iterator[Problem]:
    at = spec.position
    if at is not None:
        yield Problem(message=message, hint=hint, path=at.path, line=at.line, column=at.column, warning=True)
