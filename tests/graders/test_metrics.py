"""Bounds on time, money, tokens and calls."""

from __future__ import annotations

from typing import Any

import pytest

from agentv_sandbox.models.case import CaseOutput
from agentv_sandbox.models.figures import TokenUsage
from tests.answers import message
from tests.graders.fakes import FakeTools, grade_one, spec_of

CALLS = [
    {"tool": "Read", "input": {}},
    {"tool": "grep", "input": {}},
    {"tool": "Bash", "input": {}, "status": "error"},
    {"tool": "Bash", "input": {}},
]
OUTPUT = CaseOutput(
    messages=(message("", tool_calls=CALLS), message("done")),
    token_usage=TokenUsage(input=100, output=50, cached=25),
    cost_usd=0.01234,
    duration_ms=1_234_567.0,
)
NOTHING = CaseOutput()

CASES = [
    ("latency", {"threshold": 1_234_567}, OUTPUT, 1, ["Duration 1234567ms <= 1234567ms threshold"]),
    ("latency", {"threshold": 10.5}, OUTPUT, 0, ["Duration 1234567ms > 10.5ms threshold"]),
    ("latency", {"threshold": 1}, NOTHING, 0, ["No duration data available in trace"]),
    ("cost", {"budget": 0.01234}, OUTPUT, 1, ["Cost $0.0123 <= $0.0123 budget"]),
    ("cost", {"budget": 0.01}, OUTPUT, 0, ["Cost $0.0123 > $0.0100 budget"]),
    ("cost", {"budget": 1}, NOTHING, 0, ["No cost data available in trace"]),
    (
        "token-usage",
        {"max_input": 100, "max_output": 50, "max_total": 150},
        OUTPUT,
        1,
        ["Input tokens 100 <= 100", "Output tokens 50 <= 50", "Total tokens 150 <= 150"],
    ),
    (
        "token-usage",
        {"max_input": 100, "max_total": 149},
        OUTPUT,
        0,
        ["Input tokens 100 <= 100", "Total tokens 150 > 149"],
    ),
    ("token-usage", {"max_total": 1}, NOTHING, 0, ["No token usage data available in trace"]),
    ("execution-metrics", {"max_tool_calls": 4}, OUTPUT, 1, ["Tool calls 4 <= 4 max"]),
    (
        "execution-metrics",
        {
            "max_tool_calls": 3,
            "max_llm_calls": 2,
            "max_tokens": 150,
            "max_cost_usd": 0.01,
            "max_duration_ms": 2e6,
        },
        OUTPUT,
        0.6,
        [
            "Tool calls 4 > 3 max",
            "LLM calls 2 <= 2 max",
            "Total tokens 150 <= 150 max",
            "Cost $0.0123 > $0.0100 max",
            "Duration 1234567ms <= 2000000ms max",
        ],
    ),
    (
        "execution-metrics",
        {"target_exploration_ratio": 0.6},
        OUTPUT,
        1,
        ["Exploration ratio 0.50 within tolerance of target 0.6"],
    ),
    (
        "execution-metrics",
        {"target_exploration_ratio": 0.9, "exploration_tolerance": 0.1},
        OUTPUT,
        0,
        ["Exploration ratio 0.50 outside tolerance of target 0.9 (diff: 0.40, tolerance: 0.1)"],
    ),
    ("execution-metrics", {"max_llm_calls": 1}, NOTHING, 0, ["No trace summary available"]),
    (
        "execution-metrics",
        {"max_tokens": 1, "max_cost_usd": 1, "max_duration_ms": 1},
        NOTHING,
        0,
        ["Token usage data not available", "Cost data not available", "Duration data not available"],
    ),
    (
        "execution-metrics",
        {"target_exploration_ratio": 0.5},
        CaseOutput(messages=(message("x"),)),
        0,
        ["Exploration ratio not available (no tool calls)"],
    ),
]


@pytest.mark.parametrize(("kind", "options", "output", "score", "texts"), CASES)
def test_bounds(
    kind: str, options: dict[str, Any], output: CaseOutput, score: float, texts: list[str]
) -> None:
    graded = grade_one(spec_of(kind, options), FakeTools(), output=output)
    assert graded.score == pytest.approx(score)
    assert graded.verdict == ("pass" if score >= 0.8 else "fail")
    assert [a.text for a in graded.assertions] == texts
