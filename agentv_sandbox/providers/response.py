"""Reads an agent's answer file: AgentV's JSON shape, or anything else as plain text. Hostile input."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from agentv_sandbox.files import content_blocks
from agentv_sandbox.models.case import AgentResponse, TokenUsage
from agentv_sandbox.models.suite import Json, Message

MAX_BYTES = 32 << 20
ROLES = ("system", "user", "assistant", "tool")
_CALL_KEYS = ("tool", "input", "output", "id", "status", "start_time", "end_time", "duration_ms")
_MESSAGE_KEYS = ("name", "start_time", "end_time", "duration_ms", "metadata")


def parse_response(data: bytes, *, measured_ms: float) -> AgentResponse:
    """``{text | output[] | output_messages[], token_usage, cost_usd, duration_ms}``, else the whole content as
    one assistant message. ``measured_ms`` stands in for a missing duration."""
    text = data.decode("utf-8", "replace")
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    messages = _messages(value) if isinstance(value, dict) else None
    if not isinstance(value, dict) or messages is None:
        return AgentResponse(messages=({"role": "assistant", "content": text},), duration_ms=measured_ms)
    duration = _amount(value.get("duration_ms"))
    return AgentResponse(
        messages=messages,
        token_usage=_tokens(value.get("token_usage")),
        cost_usd=_amount(value.get("cost_usd")),
        duration_ms=measured_ms if duration is None else duration,
    )


def _messages(value: Mapping[str, Json]) -> tuple[Message, ...] | None:
    rows = value.get("output", value.get("output_messages"))
    if isinstance(rows, list):
        messages = [_message(row) for row in rows]
        return tuple(m for m in messages if m is not None) if None not in messages else None
    if isinstance(value.get("text"), str):
        return ({"role": "assistant", "content": value["text"]},)
    return None


def _message(row: Json) -> dict[str, Any] | None:
    if not isinstance(row, dict) or row.get("role") not in ROLES:
        return None
    message: dict[str, Any] = {"role": row["role"]}
    content = row.get("content")
    # A list that is not made of known blocks has no meaning that a grader could rely on.
    if isinstance(content, dict) or content_blocks(row) is not None:
        message["content"] = content
    calls = row.get("tool_calls")
    if isinstance(calls, list):
        message["tool_calls"] = [
            {key: call[key] for key in _CALL_KEYS if key in call}
            for call in calls
            if isinstance(call, dict) and isinstance(call.get("tool"), str)
        ]
    return message | {key: row[key] for key in _MESSAGE_KEYS if key in row}


def _tokens(value: Json) -> TokenUsage | None:
    if not isinstance(value, dict):
        return None
    counts = {key: value.get(key) for key in ("input", "output", "cached")}
    if not all(
        isinstance(c, int) and not isinstance(c, bool) and c >= 0 for c in counts.values() if c is not None
    ):
        return None
    return TokenUsage(input=counts["input"] or 0, output=counts["output"] or 0, cached=counts["cached"])


def _amount(value: Json) -> float | None:
    """A finite number that is not negative; everything else counts as not said."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) and value >= 0 else None
