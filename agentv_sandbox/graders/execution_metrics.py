"""``execution-metrics``: several bounds on what the agent did and used, each worth the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agentv_sandbox.authoring.fields import Count, NonNegative, Unit
from agentv_sandbox.judging import trace
from agentv_sandbox.judging.base import (
    GradeContext,
    options_of,
    result,
    unmeasured,
    yes_no,
)
from agentv_sandbox.judging.bounds import bound_check, dollars, milliseconds
from agentv_sandbox.judging.kind import (
    GraderKind,
    Options,
    needs_one_of,
    sentence,
)
from agentv_sandbox.models.case import Assertion, GraderResult
from agentv_sandbox.models.figures import Figure
from agentv_sandbox.models.json.javascript import number
from agentv_sandbox.models.suite import GraderSpec

EXPLORATION_TOOLS = frozenset(
    {"read", "grep", "glob", "search", "list", "Read", "Grep", "Glob", "WebSearch", "WebFetch"}
)


class ExecutionMetricsOptions(Options):
    """At least one bound is set."""

    max_tool_calls: Count | None = None
    """Calls of tools."""
    max_llm_calls: Count | None = None
    """Messages of the model."""
    max_tokens: Count | None = None
    """Tokens in and out."""
    max_cost_usd: NonNegative | None = None
    """US dollars."""
    max_duration_ms: NonNegative | None = None
    """Milliseconds."""
    target_exploration_ratio: Unit | None = None
    """Share of calls that only look."""
    exploration_tolerance: NonNegative = 0.2
    """How far the share may be from it."""


_BOUNDS = [name for name in ExecutionMetricsOptions.model_fields if name != "exploration_tolerance"]


_READ: Mapping[str, Figure] = {
    "max_tool_calls": "tool_calls",
    "max_llm_calls": "tool_calls",
    "target_exploration_ratio": "tool_calls",
    "max_tokens": "token_usage",
    "max_cost_usd": "cost_usd",
    "max_duration_ms": "duration_ms",
}


def _reads(options: ExecutionMetricsOptions) -> Sequence[Figure]:
    return tuple(figure for name, figure in _READ.items() if getattr(options, name) is not None)


def grade(spec: GraderSpec, context: GradeContext) -> GraderResult:
    options = options_of(spec, ExecutionMetricsOptions)
    output = context.output
    summary = trace.summarise(output.messages, output.measure.answers)
    needs_trace = (options.max_tool_calls, options.max_llm_calls, options.target_exploration_ratio)
    # A bound on what nobody counted is neither kept nor broken.
    if not output.measure.calls_known and set(_reads(options)) - {"duration_ms"}:
        return unmeasured(spec)
    if not output.messages and any(bound is not None for bound in needs_trace):
        return yes_no(spec, False, "No trace summary available")
    checks: list[Assertion] = []
    if options.max_tool_calls is not None:
        checks.append(bound_check("Tool calls", summary.total_tool_calls, options.max_tool_calls))
    if options.max_llm_calls is not None:
        checks.append(bound_check("LLM calls", summary.llm_calls, options.max_llm_calls))
    if options.max_tokens is not None:
        usage = output.token_usage
        tokens = None if usage is None else usage.input + usage.output
        checks.append(bound_check("Total tokens", tokens, options.max_tokens, missing="Token usage"))
    if options.max_cost_usd is not None:
        checks.append(bound_check("Cost", output.cost_usd, options.max_cost_usd, form=dollars))
    if options.max_duration_ms is not None:
        checks.append(bound_check("Duration", output.duration_ms, options.max_duration_ms, form=milliseconds))
    if options.target_exploration_ratio is not None:
        checks.append(_exploration(summary, options.target_exploration_ratio, options.exploration_tolerance))
    score = sum(check.passed for check in checks) / len(checks) if checks else 0.0
    return result(spec, score, checks)


def _exploration(summary: trace.TraceFigures, wanted: float, tolerance: float) -> Assertion:
    total = summary.total_tool_calls
    if total == 0:
        return Assertion(text="Exploration ratio not available (no tool calls)", passed=False)
    ratio = sum(n for tool, n in summary.tool_calls.items() if tool in EXPLORATION_TOOLS) / total
    off = abs(ratio - wanted)
    if off <= tolerance:
        return Assertion(
            text=f"Exploration ratio {ratio:.2f} within tolerance of target {number(wanted)}", passed=True
        )
    return Assertion(
        text=f"Exploration ratio {ratio:.2f} outside tolerance of target {number(wanted)} "
        f"(diff: {off:.2f}, tolerance: {number(tolerance)})",
        passed=False,
    )


KINDS = (
    GraderKind(
        type="execution-metrics",
        summary="The share of the bounds that hold, such as `max_tool_calls`; missing data fails.",
        options=ExecutionMetricsOptions,
        grade=grade,
        reads=_reads,
        translate=sentence("Execution within metric bounds"),
        keys={
            "maxToolCalls": "max_tool_calls",
            "maxLlmCalls": "max_llm_calls",
            "maxTokens": "max_tokens",
            "maxCostUsd": "max_cost_usd",
            "maxDurationMs": "max_duration_ms",
            "targetExplorationRatio": "target_exploration_ratio",
            "explorationTolerance": "exploration_tolerance",
        },
        check=lambda options: needs_one_of("execution-metrics", options, _BOUNDS),
    ),
)
