"""Authoring models of assertions: one a type, with the spellings of every release."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, InstanceOf, WithJsonSchema, model_validator

from agentv_sandbox.graders import regexp
from agentv_sandbox.load.docs import Doc
from agentv_sandbox.load.tree import Seq
from agentv_sandbox.models.graders import (
    CostOptions,
    ExecutionMetricsOptions,
    FieldAccuracyOptions,
    Gate,
    LatencyOptions,
    RegexOptions,
    SkillTriggerOptions,
    Text,
    TextListOptions,
    TextOptions,
    TokenUsageOptions,
    ToolTrajectoryOptions,
    Unit,
    Weight,
)

TYPE_ALIASES: Mapping[str, str] = {
    "script": "code-grader",
    "code-judge": "code-grader",
    "llm-judge": "llm-grader",
    "agent-judge": "llm-grader",
    "llm-rubric": "llm-grader",
    "rubric": "rubrics",
    "trigger-judge": "skill-trigger",
}
"""Names of other releases, kebab-case, and what they are called here."""


Assertions = Annotated[InstanceOf[Seq], WithJsonSchema({"x-ref": "Assertions"})]
"""A list whose items are read one by one with the model of their type: ``graders.py``."""


def canonical_type(written: str) -> str:
    """``code_judge`` as ``code-grader``; names that nobody knows stay as they are."""
    kebab = written.strip().replace("_", "-")
    return TYPE_ALIASES.get(kebab, kebab)


def kind_of(item: Mapping[str, Any], written: str) -> str:
    """The type of an entry, ``rubrics`` included; an ``llm-rubric`` that brings criteria is one of those."""
    kind = canonical_type(written)
    if kind == "llm-grader" and "rubric" in written and ("criteria" in item or "value" in item):
        return "rubrics"
    return kind


class PreprocessorDoc(Doc):
    type: Text
    command: Annotated[list[Text], Field(min_length=1)]


class ItemDoc(Doc):
    """What every assertion may have."""

    ALIASES: ClassVar = {"metric": "name"}

    type: Text
    name: Text | None = None
    description: str | None = None
    weight: Weight = 1.0
    required: bool | Gate = False
    min_score: Gate | None = None
    negate: bool = False
    preprocessors: list[PreprocessorDoc] | None = None


class TargetAccessDoc(Doc):
    max_calls: Annotated[int, Field(ge=0)] = 50


class CodeGraderDoc(ItemDoc):
    ALIASES: ClassVar = {**ItemDoc.ALIASES, "script": "command"}
    OPEN: ClassVar = True

    command: Text | Annotated[list[Text], Field(min_length=1)]
    cwd: Text | None = None
    target: bool | TargetAccessDoc = False
    config: dict[str, Any] | None = None
    timeout_seconds: Annotated[float, Field(gt=0)] | None = None


class PromptCommandDoc(Doc):
    ALIASES: ClassVar = {"script": "command"}

    command: Annotated[list[Text], Field(min_length=1)]
    config: dict[str, Any] | None = None


class ScoreRangeDoc(Doc):
    score_range: Annotated[list[int], Field(min_length=2, max_length=2)]
    outcome: Text


class RubricDoc(Doc):
    ALIASES: ClassVar = {"criteria": "outcome", "description": "outcome", "expected_outcome": "outcome"}

    id: Text | None = None
    outcome: Text | None = None
    weight: Weight = 1.0
    required: bool | None = None
    operator: Literal["correctness", "contradiction"] | None = None
    min_score: Gate | None = None
    required_min_score: Annotated[int, Field(ge=0, le=10)] | None = None
    score_ranges: list[ScoreRangeDoc] | dict[str, Text] | None = None


RubricList = Annotated[list[Text | RubricDoc], Field(min_length=1)]


class LlmGraderDoc(ItemDoc):
    OPEN: ClassVar = True
    ALIASES: ClassVar = {**ItemDoc.ALIASES, "maxSteps": "max_steps"}

    prompt: Text | PromptCommandDoc | None = None
    rubrics: RubricList | None = None
    target: Text | None = None
    model: str | None = None
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    max_steps: Annotated[int, Field(ge=1, le=50)] | None = None
    config: dict[str, Any] | None = None


class RubricsDoc(LlmGraderDoc):
    OPEN: ClassVar = False
    ALIASES: ClassVar = {**LlmGraderDoc.ALIASES, "rubrics": "criteria", "value": "criteria"}

    rubrics: None = None
    criteria: Text | RubricList


class TextDoc(TextOptions, ItemDoc):
    pass


class TextListDoc(TextListOptions, ItemDoc):
    ALIASES: ClassVar = {**ItemDoc.ALIASES, "values": "value"}


class RegexDoc(RegexOptions, ItemDoc):
    ALIASES: ClassVar = {**ItemDoc.ALIASES, "pattern": "value"}

    @model_validator(mode="after")
    def _compiles(self) -> RegexDoc:
        if (problem := regexp.check(self.value, self.flags)) is not None:
            raise ValueError(problem)
        return self


class IsJsonDoc(ItemDoc):
    pass


class FieldAccuracyDoc(FieldAccuracyOptions, ItemDoc):
    pass


class LatencyDoc(LatencyOptions, ItemDoc):
    pass


class CostDoc(CostOptions, ItemDoc):
    pass


class TokenUsageDoc(TokenUsageOptions, ItemDoc):
    ALIASES: ClassVar = {
        **ItemDoc.ALIASES,
        "maxInput": "max_input",
        "maxOutput": "max_output",
        "maxTotal": "max_total",
    }


class ExecutionMetricsDoc(ExecutionMetricsOptions, ItemDoc):
    ALIASES: ClassVar = {
        **ItemDoc.ALIASES,
        "maxToolCalls": "max_tool_calls",
        "maxLlmCalls": "max_llm_calls",
        "maxTokens": "max_tokens",
        "maxCostUsd": "max_cost_usd",
        "maxDurationMs": "max_duration_ms",
        "targetExplorationRatio": "target_exploration_ratio",
        "explorationTolerance": "exploration_tolerance",
    }


class ToolTrajectoryDoc(ToolTrajectoryOptions, ItemDoc):
    ALIASES: ClassVar = {**ItemDoc.ALIASES, "argsMatch": "args_match"}


class SkillTriggerDoc(SkillTriggerOptions, ItemDoc):
    pass


class AggregatorDoc(Doc):
    type: Text
    weights: dict[str, Weight] | None = None
    threshold: Unit | None = None
    path: Text | None = None
    prompt: Text | None = None
    target: Text | None = None
    model: str | None = None


class CompositeDoc(ItemDoc):
    ALIASES: ClassVar = {
        **ItemDoc.ALIASES,
        "assert": "assertions",
        "evaluators": "assertions",
        "graders": "assertions",
    }

    assertions: Assertions
    aggregator: AggregatorDoc


class CustomDoc(ItemDoc):
    OPEN: ClassVar = True

    config: dict[str, Any] | None = None


class IncludeDoc(Doc):
    """Assertions of another file (``.agentv/templates``)."""

    include: Text


DOCS: Mapping[str, type[ItemDoc]] = {
    "code-grader": CodeGraderDoc,
    "llm-grader": LlmGraderDoc,
    "rubrics": RubricsDoc,
    "contains": TextDoc,
    "icontains": TextDoc,
    "starts-with": TextDoc,
    "ends-with": TextDoc,
    "equals": TextDoc,
    "contains-any": TextListDoc,
    "contains-all": TextListDoc,
    "icontains-any": TextListDoc,
    "icontains-all": TextListDoc,
    "regex": RegexDoc,
    "is-json": IsJsonDoc,
    "field-accuracy": FieldAccuracyDoc,
    "latency": LatencyDoc,
    "cost": CostDoc,
    "token-usage": TokenUsageDoc,
    "execution-metrics": ExecutionMetricsDoc,
    "tool-trajectory": ToolTrajectoryDoc,
    "skill-trigger": SkillTriggerDoc,
    "composite": CompositeDoc,
    "custom": CustomDoc,
}
