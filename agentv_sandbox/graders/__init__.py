"""Assertion kinds, one dict: what a suite can write and who judges it."""

from collections.abc import Mapping

from agentv_sandbox.graders import (
    code,
    composite,
    custom,
    fields,
    llm_grader,
    metrics,
    text,
    trajectory,
)
from agentv_sandbox.graders.base import GradeContext, Grader, GraderError, GradeTools

GRADERS: Mapping[str, Grader] = {
    "code-grader": code.grade,
    "llm-grader": llm_grader.grade,
    "composite": composite.grade,
    "custom": custom.grade,
    "contains": text.contains,
    "icontains": text.icontains,
    "contains-any": text.contains_any,
    "contains-all": text.contains_all,
    "icontains-any": text.icontains_any,
    "icontains-all": text.icontains_all,
    "starts-with": text.starts_with,
    "ends-with": text.ends_with,
    "equals": text.equals,
    "regex": text.regex,
    "is-json": text.is_json,
    "field-accuracy": fields.grade,
    "latency": metrics.latency,
    "cost": metrics.cost,
    "token-usage": metrics.token_usage,
    "execution-metrics": metrics.execution_metrics,
    "tool-trajectory": trajectory.grade,
    "skill-trigger": trajectory.skill_trigger,
}

__all__ = ["GRADERS", "GradeContext", "GradeTools", "Grader", "GraderError"]
