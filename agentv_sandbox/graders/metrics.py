"""Bounds on what the run cost: time, money, tokens, calls. Missing data is a failed check, never a pass."""

from __future__ import annotations

from collections.abc import Callable

from agentv_sandbox.graders import trace
from agentv_sandbox.graders.base import GradeContext, options_of, result, yes_no
from agentv_sandbox.graders.javascript import number
from agentv_sandbox.models.case import Assertion, GraderResult
from agentv_sandbox.models.graders import (
    CostOptions,
    ExecutionMetricsOptions,
    LatencyOptions,
    TokenUsageOptions,
)
from agentv_sandbox.models.suite import GraderSpec

EXPLORATION_TOOLS = frozenset(
    {"read", "grep", "glob", "search", "list", "Read", "Grep", "Glob", "WebSearch", "WebFetch"}
)


def latency(spec: GraderSpec, context: GradeContext) -> GraderResult:
    bound, actual = options_of(spec, LatencyOptions).threshold, context.output.duration_ms
    if actual is None:
        return yes_no(spec, False, "No duration data available in trace")
    sign = "<=" if actual <= bound else ">"
    return yes_no(spec, actual <= bound, f"Duration {number(actual)}ms {sign} {number(bound)}ms threshold")


def cost(spec: GraderSpec, context: GradeContext) -> GraderResult:
    bound, actual = options_of(spec, CostOptions).budget, context.output.cost_usd
    if actual is None:
        return yes_no(spec, False, "No cost data available in trace")
    sign = "<=" if actual <= bound else ">"
    return yes_no(spec, actual <= bound, f"Cost ${actual:.4f} {sign} ${bound:.4f} budget")


def token_usage(spec: GraderSpec, context: GradeContext) -> GraderResult:
    options, usage = options_of(spec, TokenUsageOptions), context.output.token_usage
    if usage is None:
        return yes_no(spec, False, "No token usage data available in trace")
    bounds = [
        ("Input tokens", usage.input, options.max_input),
        ("Output tokens", usage.output, options.max_output),
        ("Total tokens", usage.input + usage.output + (usage.cached or 0), options.max_total),
    ]
    checks = [_bound(name, actual, bound, "") for name, actual, bound in bounds if bound is not None]
    return result(spec, float(all(check.passed for check in checks)), checks)


def execution_metrics(spec: GraderSpec, context: GradeContext) -> GraderResult:
    options = options_of(spec, ExecutionMetricsOptions)
    output = context.output
    summary = trace.summarise(output.messages)
    needs_trace = (options.max_tool_calls, options.max_llm_calls, options.target_exploration_ratio)
    if not output.messages and any(bound is not None for bound in needs_trace):
        return yes_no(spec, False, "No trace summary available")
    checks: list[Assertion] = []
    if options.max_tool_calls is not None:
        checks.append(_bound("Tool calls", summary.total_tool_calls, options.max_tool_calls))
    if options.max_llm_calls is not None:
        checks.append(_bound("LLM calls", summary.llm_calls, options.max_llm_calls))
    if options.max_tokens is not None:
        usage = output.token_usage
        tokens = None if usage is None else usage.input + usage.output
        checks.append(_bound("Total tokens", tokens, options.max_tokens, missing="Token usage"))
    if options.max_cost_usd is not None:
        checks.append(_bound("Cost", output.cost_usd, options.max_cost_usd, form=_dollars))
    if options.max_duration_ms is not None:
        checks.append(_bound("Duration", output.duration_ms, options.max_duration_ms, form=_milliseconds))
    if options.target_exploration_ratio is not None:
        checks.append(_exploration(summary, options.target_exploration_ratio, options.exploration_tolerance))
    score = sum(check.passed for check in checks) / len(checks) if checks else 0.0
    return result(spec, score, checks)


def _bound(
    name: str,
    actual: float | None,
    bound: float,
    suffix: str = " max",
    *,
    missing: str = "",
    form: Callable[[float], str] = number,
) -> Assertion:
    if actual is None:
        return Assertion(text=f"{missing or name} data not available", passed=False)
    sign = "<=" if actual <= bound else ">"
    left, right = form(actual), form(bound)
    return Assertion(text=f"{name} {left} {sign} {right}{suffix}", passed=actual <= bound)


def _dollars(value: float) -> str:
    return f"${value:.4f}"


def _milliseconds(value: float) -> str:
    return f"{number(value)}ms"


def _exploration(summary: trace.TraceSummary, wanted: float, tolerance: float) -> Assertion:
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
