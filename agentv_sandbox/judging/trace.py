"""What the agent did, derived from its messages: counts, tool calls, the event list of the payloads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from agentv_sandbox.base.dataclass import dataclass
from agentv_sandbox.models.content import AnswerMessage, ToolCall, read_calls
from agentv_sandbox.models.messages import role_of
from agentv_sandbox.models.suite import Message


@dataclass(frozen=True, kw_only=True)
class TraceFigures:
    tool_calls: Mapping[str, int]
    """By tool name, in order of first use."""
    tool_durations: Mapping[str, tuple[float, ...]]
    """Milliseconds of the calls that were timed."""
    llm_calls: int
    """Assistant messages, or answers of models as the gateway counted them."""
    errors: int
    """Tool calls that the agent reports as failed."""

    @property
    def total_tool_calls(self) -> int:
        return sum(self.tool_calls.values())

    def wire(self) -> dict[str, object]:
        wire: dict[str, object] = {
            "event_count": self.total_tool_calls,
            "tool_calls": dict(self.tool_calls),
            "error_count": self.errors,
            "llm_call_count": self.llm_calls,
        }
        if self.tool_durations:
            wire["tool_durations"] = {name: list(values) for name, values in self.tool_durations.items()}
        return wire


def tool_calls(messages: Sequence[AnswerMessage]) -> tuple[ToolCall, ...]:
    """All tool calls, in order."""
    return tuple(call for message in messages for call in message.tool_calls or ())


def summarise(messages: Sequence[AnswerMessage], answers: int | None = None) -> TraceFigures:
    """``answers``: of the models, where others than the agent have counted them."""
    counts: dict[str, int] = {}
    durations: dict[str, list[float]] = {}
    calls = tool_calls(messages)
    for call in calls:
        counts[call.tool] = counts.get(call.tool, 0) + 1
        if call.duration_ms is not None:
            durations.setdefault(call.tool, []).append(call.duration_ms)
    return TraceFigures(
        tool_calls=counts,
        tool_durations={tool: tuple(values) for tool, values in durations.items()},
        llm_calls=sum(1 for message in messages if message.role == "assistant")
        if answers is None
        else answers,
        errors=sum(1 for call in calls if call.failed),
    )


def transcript(sent: Sequence[Message], received: Sequence[Message]) -> tuple[Message, ...]:
    """Input and output as one conversation; a provider that returned the whole one is taken at its word."""
    if any(role_of(message) in ("user", "system") for message in received):
        return tuple(received)
    return (*sent, *received)


def events(messages: Sequence[Message], answer: str) -> Iterator[object]:
    """AgentV's flat event list of a conversation as a payload holds it: messages, the tool calls inside them, their
    results, the final response, whose content is the text ``answer``."""
    for ordinal, (event_id, kind, fields) in enumerate(_events(messages, answer)):
        defined_fields = {key: value for key, value in fields.items() if value is not None}
        yield {"event_id": event_id, "ordinal": ordinal, "type": kind, **defined_fields}


def _events(messages: Sequence[Message], answer: str) -> Iterator[tuple[str, str, dict[str, object]]]:
    last_answer: tuple[int, Message] | None = None
    for index, message in enumerate(messages):
        yield (
            f"message-{index}",
            "message",
            {
                "timestamp": message.get("start_time"),
                "duration_ms": message.get("duration_ms"),
                "message": _bare(message),
                "metadata": {"message_index": index},
            },
        )
        for number, call in enumerate(read_calls(message.get("tool_calls"))):
            yield from _call_events(call, index, number)
        if role_of(message) == "assistant":
            last_answer = index, message
    if last_answer is not None:
        index, message = last_answer
        yield (
            "final-response",
            "final_response",
            {
                "parent_event_id": f"message-{index}",
                "timestamp": message.get("end_time") or message.get("start_time"),
                "message": {**_bare(message), "content": answer},
                "metadata": {"message_index": index},
            },
        )


def _call_events(call: ToolCall, index: int, number: int) -> Iterator[tuple[str, str, dict[str, object]]]:
    event_id = f"message-{index}-tool-{number}"
    place = {"message_index": index, "tool_index": number}
    tool = {"name": call.tool, "call_id": call.raw.get("id"), "status": call.raw.get("status") or "ok"}
    tool = {key: value for key, value in tool.items() if value is not None}
    said = {key: call.raw[key] for key in ("input", "output") if key in call.raw}
    yield (
        event_id,
        "tool_call",
        {
            "parent_event_id": f"message-{index}",
            "timestamp": call.raw.get("start_time"),
            "duration_ms": call.duration_ms,
            "tool": {**tool, **said},
            "metadata": place,
        },
    )
    if call.output is not None:
        yield (
            f"{event_id}-result",
            "tool_result",
            {
                "parent_event_id": event_id,
                "timestamp": call.raw.get("end_time"),
                "tool": {**tool, "output": call.output},
                "metadata": place,
            },
        )


def _bare(message: Message) -> dict[str, object]:
    keys = ("role", "name", "content", "token_usage", "metadata")
    return {key: message[key] for key in keys if message.get(key) is not None}
