"""What a model's server answers, read on its way to the agent: tokens, model and what it asks for, in bounded memory.

An answer is passed on as it comes. Only an event that the gateway itself asked for, to learn the usage, is taken out.
"""

from __future__ import annotations

from agentv_sandbox.gateway.calls import CallCapture
from agentv_sandbox.models.json.untrusted import ForeignJsonError, read_json
from agentv_sandbox.models_api.dialects.base import Dialect
from agentv_sandbox.models_api.reading import AnswerReading
from agentv_sandbox.models_api.sse import MAX_EVENT, EventStream, ServerEvent
from agentv_sandbox.models_api.usage import Usage


class ReplyReader:
    """Reads one answer. Feed it what comes; it gives back what goes on."""

    def __init__(self, dialect: Dialect, *, drop_usage_event: bool = False) -> None:
        self.drops = drop_usage_event
        """Whether what goes on may be less than what came."""
        self._dialect = dialect
        self.capture = CallCapture()
        self.answer = AnswerReading(dialect)
        """What the model says and asks for, and its tokens as the server reported them last."""
        self._events: EventStream | None = None
        self._whole: bytearray | None = bytearray()
        """An answer in one piece; None where it is larger than is read."""

    @property
    def usage(self) -> Usage | None:
        return self.answer.usage

    @property
    def model(self) -> str | None:
        return self.answer.model

    def start(self, status: int, content_type: str) -> None:
        """Note how the answer begins."""
        if content_type.partition(";")[0].strip().lower() == "text/event-stream":
            self._events = EventStream()
        self.drops = self.drops and self._events is not None and status == 200

    def feed(self, data: bytes) -> bytes:
        """What goes on to the agent."""
        self.capture.add(data)
        if self._events is not None:
            passed = self._pass(self._events.feed(data))
            return passed if self.drops else data
        if self._whole is not None:
            self._whole += data
            self._whole = None if len(self._whole) > MAX_EVENT else self._whole
        return data

    def end(self) -> bytes:
        """The rest, once the server has said everything."""
        if self._events is not None:
            passed = self._pass(self._events.end())
            return passed if self.drops else b""
        if self._whole is not None:
            self._read(bytes(self._whole))
        return b""

    def _pass(self, events: list[ServerEvent]) -> bytes:
        """All of ``events`` but those that say the usage and nothing else."""
        return b"".join(
            each.raw
            for each in events
            if each.data is None or not self._dialect.is_usage_event(self._read(each.data))
        )

    def _read(self, data: bytes) -> object:
        """One JSON document, taken in; None when it is not JSON."""
        try:
            row = read_json(data)
        except ForeignJsonError:
            return None
        if isinstance(row, dict):
            self.answer.add(row)
        return row
