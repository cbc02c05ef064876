"""What an agent did, read off its calls of models, for agents that say nothing of it themselves.

Each answer of a model is one message with the calls of tools in it; what the tools gave back stands in later
requests. Answers are the server's, results are what the agent told its model.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from agentv_sandbox import masking
from agentv_sandbox.gateway.dialect import object_of
from agentv_sandbox.models.content import AnswerMessage, read_message
from agentv_sandbox.models.foreign_json import ForeignJsonError, amount, read_json
from agentv_sandbox.models.suite import Json

MAX_CALLS = 5_000
"""Of tools, in one trajectory."""
_MAX_EVENTS = 200_000
_OK = 200
Row = Mapping[str, Json]


@dataclass
class _Said:
    """One answer of a model."""

    text: list[str] = field(default_factory=list)
    calls: list[dict[str, Json]] = field(default_factory=list)
    """``tool``, ``input`` and ``id`` each."""
    whole: bool = False
    """Whether the answer came to its end."""


Reader = Callable[[Row, _Said], None]


def trajectory(model_log: str) -> tuple[AnswerMessage, ...]:
    """One assistant message for each answer of the model that drove the agent, in the order of its calls.
    ``model_log``: as ``CallLog.jsonl`` has it."""
    rows = sorted(_rows(model_log), key=lambda row: str(row.get("time")))
    results = _Results()
    for row in rows:
        results.add(object_of(row.get("request")))
    asked = [row for row in rows if row.get("status") == _OK and _reader(row) is not None]
    # Titles and summaries are asked for without tools; they are no part of the work.
    driving = [row for row in asked if _offers_tools(row)] or asked
    messages: list[AnswerMessage] = []
    left = MAX_CALLS
    for row in driving:
        said = _said(row)
        if not said.whole or len(said.calls) > left:
            continue
        left -= len(said.calls)
        message = read_message(_message(row, said, results))
        if message is not None:
            messages.append(message)
    return tuple(messages)


def _message(row: Row, said: _Said, results: _Results) -> dict[str, Json]:
    message: dict[str, Json] = {"role": "assistant", "content": "".join(said.text)}
    if said.calls:
        message["tool_calls"] = [{**call, **results.of(call)} for call in said.calls]
    duration_s = amount(row.get("duration_s"), 1e9)
    try:
        start = datetime.fromisoformat(str(row.get("time")))
        end = start + timedelta(seconds=duration_s or 0.0)
    except (ValueError, OverflowError):
        return message
    return {**message, "start_time": start.isoformat(), "end_time": end.isoformat()}


class _Results:
    """What tools gave back, by the id of the call, or in order where calls have none."""

    def __init__(self) -> None:
        self._by_id: dict[str, dict[str, Json]] = {}
        self._by_name: defaultdict[str, deque[dict[str, Json]]] = defaultdict(deque)

    def add(self, request: Row) -> None:
        """Take in the results in one request."""
        for message in _list(request.get("messages")):
            if message.get("role") == "tool":
                self._note(message.get("tool_call_id"), message.get("content"))
            for block in _list(message.get("content")):
                if block.get("type") == "tool_result":
                    failed = block.get("is_error") is True
                    self._note(block.get("tool_use_id"), block.get("content"), failed=failed)
        for item in _list(request.get("input")):
            if str(item.get("type")).endswith("_output"):
                self._note(item.get("call_id"), item.get("output"))
        for content in _list(request.get("contents")):
            for part in _list(content.get("parts")):
                if isinstance(response := part.get("functionResponse"), dict):
                    self._note_named(response)

    def of(self, call: Row) -> dict[str, Json]:
        """``output`` and ``status`` of ``call``, as far as there are any."""
        known = self._by_id.get(str(call.get("id")))
        if known is None and not call.get("id"):
            waiting = self._by_name.get(str(call.get("tool")))
            known = waiting.popleft() if waiting else None
        return known or {}

    def _note(self, name: Json, content: Json, *, failed: bool = False) -> None:
        if isinstance(name, str) and len(self._by_id) < MAX_CALLS:
            outcome = {"output": _text(content), "status": "error" if failed else "ok"}
            self._by_id.setdefault(name, outcome)

    def _note_named(self, response: Row) -> None:
        given = response.get("response")
        output = given.get("output", given) if isinstance(given, dict) else given
        if isinstance(response.get("id"), str):
            self._note(response["id"], output)
        elif sum(map(len, self._by_name.values())) < MAX_CALLS:
            self._by_name[str(response.get("name"))].append({"output": _text(output), "status": "ok"})


def _rows(model_log: str) -> Iterator[Row]:
    for line in model_log.splitlines():
        try:
            row = read_json(line)
        except ForeignJsonError:
            continue
        if isinstance(row, dict) and "request" in row:
            yield row


def _offers_tools(row: Row) -> bool:
    repeated = row.get("repeats_fields")
    return bool(object_of(row.get("request")).get("tools")) or (
        isinstance(repeated, list) and "tools" in repeated
    )


def _said(row: Row) -> _Said:
    reader = _reader(row)
    said = _Said()
    if reader is None:
        return said
    text = row.get("reply")
    for document in _documents(text if isinstance(text, str) else ""):
        reader(document, said)
    for call in said.calls:
        if isinstance(arguments := call.get("input"), str):
            call["input"] = _arguments(arguments)
    return said


def _reader(row: Row) -> Reader | None:
    path = str(row.get("path")).partition("?")[0]
    return next((read for end, read in _READERS if path.endswith(end)), None)


def _documents(text: str) -> Iterator[Row]:
    """The events of a stream, or the one document that an answer is."""
    if text.lstrip().startswith("{"):
        pieces = [text]
    else:
        lines = text.replace("\r\n", "\n").split("\n")
        pieces = [line[5:] for line in lines if line.startswith("data:")][:_MAX_EVENTS]
    for piece in pieces:
        try:
            row = read_json(piece)
        except ForeignJsonError:
            continue
        if isinstance(row, dict):
            yield row


# -- the dialects: one document of an answer ------------------------------------------------------------------
def _anthropic(row: Row, said: _Said) -> None:
    kind = row.get("type")
    if kind == "message":
        for block in _list(row.get("content")):
            _anthropic_block(block, said)
        said.whole = True
    elif kind == "content_block_start":
        _anthropic_block(object_of(row.get("content_block")), said)
    elif kind == "content_block_delta":
        delta = object_of(row.get("delta"))
        if isinstance(text := delta.get("text"), str) and delta.get("type") == "text_delta":
            said.text.append(text)
        elif isinstance(piece := delta.get("partial_json"), str) and said.calls:
            before = said.calls[-1]["input"]
            said.calls[-1]["input"] = (before if isinstance(before, str) else "") + piece
    elif kind == "message_stop":
        said.whole = True


def _anthropic_block(block: Row, said: _Said) -> None:
    if block.get("type") == "text" and isinstance(text := block.get("text"), str):
        said.text.append(text)
    elif block.get("type") == "tool_use":
        _call(said, block.get("name"), block.get("input"), block.get("id"))


def _responses(row: Row, said: _Said) -> None:
    kind = row.get("type")
    if kind == "response.output_item.done":
        _responses_item(object_of(row.get("item")), said)
    elif kind == "response.completed":
        if not said.text and not said.calls:
            for item in _list(object_of(row.get("response")).get("output")):
                _responses_item(item, said)
        said.whole = True
    elif row.get("object") == "response":
        for item in _list(row.get("output")):
            _responses_item(item, said)
        said.whole = True


def _responses_item(item: Row, said: _Said) -> None:
    kind = item.get("type")
    if kind == "message":
        for part in _list(item.get("content")):
            text = part.get("text", part.get("refusal"))
            if isinstance(text, str):
                said.text.append(text)
    elif kind in ("function_call", "custom_tool_call"):
        _call(said, item.get("name"), item.get("arguments", item.get("input")), item.get("call_id"))
    elif kind in ("local_shell_call", "shell_call", "apply_patch_call"):
        given = item.get("action", item.get("operation"))
        _call(said, str(kind).removesuffix("_call"), given, item.get("call_id"))


def _chat(row: Row, said: _Said) -> None:
    for choice in _list(row.get("choices"))[:1]:
        message = object_of(choice.get("message", choice.get("delta")))
        if isinstance(text := message.get("content"), str):
            said.text.append(text)
        for call in _list(message.get("tool_calls")):
            _chat_call(call, said)
        said.whole = said.whole or choice.get("finish_reason") is not None


def _chat_call(call: Row, said: _Said) -> None:
    """A whole call, or a piece of one: the first has the id."""
    function = object_of(call.get("function", call.get("custom")))
    piece = function.get("arguments", function.get("input"))
    if isinstance(call.get("id"), str) and call["id"]:
        _call(said, function.get("name"), piece if isinstance(piece, str) else "", call["id"])
        said.calls[-1]["index"] = call.get("index")
        return
    for known in reversed(said.calls):
        if known.get("index") == call.get("index") and isinstance(piece, str):
            known["input"] = f"{known['input']}{piece}"
            return


def _gemini(row: Row, said: _Said) -> None:
    for candidate in _list(row.get("candidates"))[:1]:
        for part in _list(object_of(candidate.get("content")).get("parts")):
            if isinstance(text := part.get("text"), str) and not part.get("thought"):
                said.text.append(text)
            if isinstance(call := part.get("functionCall"), dict):
                _call(said, call.get("name"), call.get("args"), call.get("id"))
        said.whole = said.whole or candidate.get("finishReason") is not None


_READERS: tuple[tuple[str, Reader], ...] = (
    ("/messages", _anthropic),
    ("/responses", _responses),
    ("/chat/completions", _chat),
    (":generateContent", _gemini),
    (":streamGenerateContent", _gemini),
)


def _call(said: _Said, name: Json, given: Json, identity: Json) -> None:
    if isinstance(name, str) and len(said.calls) < MAX_CALLS:
        known = {"id": identity} if isinstance(identity, str) else {}
        said.calls.append({"tool": masking.first(name, 200), "input": given, **known})


def _arguments(text: str) -> Json:
    """Arguments as JSON; as they are where they are not."""
    try:
        return read_json(text)
    except ForeignJsonError:
        return text


def _text(content: Json) -> str:
    if isinstance(content, list):
        parts = [row.get("text") for row in _list(content)]
        return "\n".join(part for part in parts if isinstance(part, str))
    return content if isinstance(content, str) else json.dumps(content)


def _list(value: Json) -> list[dict[str, Json]]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
