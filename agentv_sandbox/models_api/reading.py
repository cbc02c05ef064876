"""Text and calls of tools in one answer of a model, in any dialect, streamed or not, in bounded memory; and the results
of tools in a request."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from agentv_sandbox import masking
from agentv_sandbox.models.foreign_json import ForeignJsonError, read_json
from agentv_sandbox.models.suite import Json
from agentv_sandbox.models_api.dialects.base import object_of

MAX_CALLS = 5_000
"""Of tools, in one answer."""
MAX_CHARS = 8 << 20
"""Of text and inputs, in one answer."""
_MAX_NAME = 200
Row = Mapping[str, Json]


@dataclass
class ToolUse:
    """A call of a tool, as far as it came."""

    tool: str
    id: str = ""
    namespace: str = ""
    given: Json = None
    """Its input, where it comes in one piece."""
    pieces: list[str] = field(default_factory=list)
    """Its input as JSON, where it comes in several."""
    cut: bool = False
    """More was said of it than is kept."""
    index: Json = None
    """Its place in a chat completion."""
    at: float = 0.0
    """When the last of it came, in seconds since 1970."""

    @property
    def input(self) -> Json:
        """Arguments as JSON; as they are where they are not."""
        written = "".join(self.pieces) if self.pieces else self.given
        if self.cut or not isinstance(written, str):
            return None if self.cut else written
        try:
            return read_json(written)
        except ForeignJsonError:
            return written


class AnswerReading:
    """One answer, read document by document: the events of a stream, or all of it at once."""

    def __init__(self, path: str) -> None:
        """``path``: of the request, which says the dialect."""
        self.text: list[str] = []
        self.calls: list[ToolUse] = []
        self.hosted: list[ToolUse] = []
        """Calls that the provider made itself."""
        self.whole = False
        """Whether the answer came to its end."""
        self._read = _reader(path)
        self._room = MAX_CHARS

    def add(self, document: Row) -> None:
        if self._read is not None:
            self._read(document, self)

    def say(self, text: Json) -> None:
        if isinstance(text, str) and self._fits(text):
            self.text.append(text)

    def call(self, name: Json, given: Json, identity: Json, namespace: Json = "") -> ToolUse | None:
        """A call that begins. ``given``: its input, as far as that is known."""
        if not isinstance(name, str) or len(self.calls) >= MAX_CALLS:
            return None
        use = ToolUse(
            masking.first(name, _MAX_NAME),
            masking.first(identity, _MAX_NAME) if isinstance(identity, str) else "",
            masking.first(namespace, _MAX_NAME) if isinstance(namespace, str) else "",
            given,
            at=time.time(),
        )
        self.calls.append(use)
        return use

    def extend(self, use: ToolUse, piece: str) -> None:
        """More of a call's input."""
        use.at = time.time()
        if self._fits(piece):
            use.pieces.append(piece)
        else:
            use.cut = True

    def _fits(self, text: str) -> bool:
        self._room -= len(text)
        return self._room >= 0


Reader = Callable[[Row, AnswerReading], None]


def is_read(path: str) -> bool:
    """Whether ``path`` is one at which a model is asked."""
    return _reader(path) is not None


def offers_tools(request: Row) -> bool:
    """Whether a model could call any."""
    groups = (item.get("type") == "additional_tools" for item in rows_of(request.get("input")))
    return bool(request.get("tools")) or any(groups)


@dataclass(frozen=True)
class ToolResult:
    """What a request says that a tool gave back."""

    id: str
    """Empty where results go by the order of calls of a tool."""
    tool: str
    output: Json
    failed: bool = False


def results_in(request: Row) -> Iterator[ToolResult]:
    """The results of tools in a request of any dialect, in their order."""
    for message in rows_of(request.get("messages")):
        if message.get("role") == "tool":
            yield _result(message.get("tool_call_id"), message.get("content"))
        for block in rows_of(message.get("content")):
            if block.get("type") == "tool_result":
                failed = block.get("is_error") is True
                yield _result(block.get("tool_use_id"), block.get("content"), failed=failed)
    for item in rows_of(request.get("input")):
        if str(item.get("type")).endswith("_output"):
            yield _result(item.get("call_id"), item.get("output"))
    for content in rows_of(request.get("contents")):
        for part in rows_of(content.get("parts")):
            if isinstance(response := part.get("functionResponse"), dict):
                given = response.get("response")
                output = given.get("output", given) if isinstance(given, dict) else given
                yield _result(response.get("id"), output, tool=str(response.get("name")))


def _result(identity: Json, output: Json, *, tool: str = "", failed: bool = False) -> ToolResult:
    return ToolResult(
        masking.first(identity, _MAX_NAME) if isinstance(identity, str) else "", tool, output, failed
    )


# -- the dialects: one document of an answer ------------------------------------------------------------------
def _anthropic(row: Row, answer: AnswerReading) -> None:
    kind = row.get("type")
    if kind == "message":
        for block in rows_of(row.get("content")):
            _anthropic_block(block, answer)
        answer.whole = True
    elif kind == "content_block_start":
        _anthropic_block(object_of(row.get("content_block")), answer)
    elif kind == "content_block_delta":
        delta = object_of(row.get("delta"))
        if delta.get("type") == "text_delta":
            answer.say(delta.get("text"))
        elif isinstance(piece := delta.get("partial_json"), str) and answer.calls:
            answer.extend(answer.calls[-1], piece)
    elif kind == "message_stop":
        answer.whole = True


def _anthropic_block(block: Row, answer: AnswerReading) -> None:
    if block.get("type") == "text":
        answer.say(block.get("text"))
    elif block.get("type") == "tool_use":
        answer.call(block.get("name"), block.get("input"), block.get("id"))


def _responses(row: Row, answer: AnswerReading) -> None:
    kind = row.get("type")
    if kind == "response.output_item.done":
        _responses_item(object_of(row.get("item")), answer)
    elif kind == "response.completed":
        if not answer.text and not answer.calls:
            for item in rows_of(object_of(row.get("response")).get("output")):
                _responses_item(item, answer)
        answer.whole = True
    elif row.get("object") == "response":
        for item in rows_of(row.get("output")):
            _responses_item(item, answer)
        answer.whole = True


def _responses_item(item: Row, answer: AnswerReading) -> None:
    kind = str(item.get("type"))
    if kind == "message":
        for part in rows_of(item.get("content")):
            answer.say(part.get("text", part.get("refusal")))
    elif kind in ("function_call", "custom_tool_call"):
        given = item.get("arguments", item.get("input"))
        answer.call(item.get("name"), given, item.get("call_id"), item.get("namespace"))
    elif kind in ("local_shell_call", "shell_call", "apply_patch_call"):
        given = item.get("action", item.get("operation"))
        answer.call(kind.removesuffix("_call"), given, item.get("call_id"))
    elif kind.endswith("_call") and len(answer.hosted) < MAX_CALLS:
        use = ToolUse(
            masking.first(kind.removesuffix("_call"), _MAX_NAME), given=item.get("action"), at=time.time()
        )
        answer.hosted.append(use)


def _chat(row: Row, answer: AnswerReading) -> None:
    for choice in rows_of(row.get("choices"))[:1]:
        message = object_of(choice.get("message", choice.get("delta")))
        answer.say(message.get("content"))
        for call in rows_of(message.get("tool_calls")):
            _chat_call(call, answer)
        answer.whole = answer.whole or choice.get("finish_reason") is not None


def _chat_call(call: Row, answer: AnswerReading) -> None:
    """A whole call, or a piece of one: the first has the id."""
    function = object_of(call.get("function", call.get("custom")))
    piece = function.get("arguments", function.get("input"))
    piece = piece if isinstance(piece, str) else ""
    if isinstance(call.get("id"), str) and call["id"]:
        use = answer.call(function.get("name"), "", call["id"])
        if use is not None:
            use.index = call.get("index")
            answer.extend(use, piece)
        return
    for use in reversed(answer.calls):
        if use.index == call.get("index"):
            answer.extend(use, piece)
            return


def _gemini(row: Row, answer: AnswerReading) -> None:
    for candidate in rows_of(row.get("candidates"))[:1]:
        for part in rows_of(object_of(candidate.get("content")).get("parts")):
            if not part.get("thought"):
                answer.say(part.get("text"))
            if isinstance(call := part.get("functionCall"), dict):
                answer.call(call.get("name"), call.get("args"), call.get("id"))
        answer.whole = answer.whole or candidate.get("finishReason") is not None


_READERS: tuple[tuple[str, Reader], ...] = (
    ("/messages", _anthropic),
    ("/responses", _responses),
    ("/chat/completions", _chat),
    (":generateContent", _gemini),
    (":streamGenerateContent", _gemini),
)


def _reader(path: str) -> Reader | None:
    bare = path.partition("?")[0]
    return next((read for end, read in _READERS if bare.endswith(end)), None)


def rows_of(value: Json) -> list[dict[str, Json]]:
    """The objects of a list; none where it is not one."""
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []
