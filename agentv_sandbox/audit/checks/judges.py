"""Tests that a model judges alone, where a program could."""

from __future__ import annotations

from collections.abc import Iterator

from agentv_sandbox.audit.checks.base import Examined
from agentv_sandbox.audit.findings import Finding
from agentv_sandbox.graders import members_of, models_asked
from agentv_sandbox.models.suite import GraderSpec

_FEW_WORDS, _SHORT = 4, 40
"""Words and characters of an expected output that a program can compare; a sentence can be said in many ways."""


def judge_alone(examined: Examined) -> Iterator[Finding]:
    case = examined.case
    specs = [spec for spec in case.assertions if spec.weight > 0 or spec.required]
    if not specs or not all(map(_model, specs)) or case.conversation is not None:
        return
    answer = case.reference_answer.strip()
    space = case.workspace
    if answer and len(answer) <= _SHORT and len(answer.split()) <= _FEW_WORDS:
        yield examined.finding(
            "judge-alone", f"a model alone says whether the answer is {answer!r}", spec=specs[0]
        )
    elif space is not None and (space.template or space.repos):
        yield examined.finding(
            "judge-alone",
            "the work is done in a workspace, and a model alone judges what is said of it",
            spec=specs[0],
        )


def _model(spec: GraderSpec) -> bool:
    """Whether nothing but models decides."""
    if members := members_of(spec):
        return all(map(_model, members))
    return spec.type in ("llm-grader", "rubrics") and bool(models_asked(spec))


CHECKS = (judge_alone,)
