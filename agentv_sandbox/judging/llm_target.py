"""Which model judges, and how a grader asks it."""

from __future__ import annotations

from collections.abc import Mapping

from agentv_sandbox.judging.base import GradeContext, GraderError
from agentv_sandbox.models.suite import Target
from agentv_sandbox.providers import is_model


def choose_target(context: GradeContext, wanted: str | None) -> Target:
    """``--grader-target``, else ``wanted``, else the target's ``grader_target``, else the target itself
    when it is an LLM. Raises ``GraderError``."""
    for name in (context.grader_target, wanted, context.target.grader_target):
        if name:
            target = context.target_named(name)
            if target is None:
                if name == context.target.grader_target and is_model(context.target):
                    return context.target
                raise GraderError(f"target '{name}' not found in targets")
            return target
    if is_model(context.target):
        return context.target
    raise GraderError(
        "No grader provider available for LLM grading",
        hint=f"give target '{context.target.name}' a grader_target, or use --grader-target",
    )


def llm_targets(context: GradeContext) -> Mapping[str, Target]:
    targets = context.suite.targets if context.targets is None else context.targets
    return {name: target for name, target in targets.items() if is_model(target)}
