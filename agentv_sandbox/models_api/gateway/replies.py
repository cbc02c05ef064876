"""What a model's server answers, read on its way to the agent: tokens, model and what it asks for, in bounded memory.

An answer is passed on as it comes. Only an event that the gateway itself asked for, to learn the usage, is taken out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from agentv_sandbox import masking
from agentv_sandbox.models.foreign_json import ForeignJsonError, read_json
from agentv_sandbox.models.suite import Json
from agentv_sandbox.models_api.dialects.base import Dialect
from agentv_sandbox.models_api.gateway.calls import Capture
from agentv_sandbox.models_api.reading import AnswerReading
from agentv_sandbox.models_api.usage import Usage

MAX_EVENT = 16 << 20
"""Bytes of one event, or of a whole answer that is none; of a larger one the usage stays unknown."""
_MAX_MODEL = 200
_BLANK_LINE = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_LONGEST = 4


class ReplyReader:
    """Reads one answer. Feed it what comes; it gives back what goes on."""

    def __init__(self, dialect: Dialect, *, path: str = "", drop_usage_event: bool = False) -> None:
        """``path``: of the request."""
        self.usage: Usage | None = None
        """As the server reported it last."""
        self.model: str | None = None
        """That answered, as the server says."""
        self.drops = drop_usage_event
        """Whether what goes on may be less than what came."""
        self.capture = Capture()
        self.answer = AnswerReading(path)
        """What the model says and asks for."""
        self._dialect = dialect
        self._events = False
        self._buffer = bytearray()
        self._searched = 0
        """Bytes of the buffer that hold no end of an event."""
        self._too_large = False
        """The event at hand is passed on unread."""

    def start(self, status: int, content_type: str) -> None:
        """Note how the answer begins."""
        self._events = content_type.partition(";")[0].strip().lower() == "text/event-stream"
        self.drops = self.drops and self._events and status == 200

    def feed(self, data: bytes) -> bytes:
        """What goes on to the agent."""
        self.capture.add(data)
        self._buffer += data
        passed = bytearray()
        start = 0
        if self._events:
            for end in [each.end() for each in _BLANK_LINE.finditer(self._buffer, self._searched)]:
                event = bytes(self._buffer[start:end])
                start = end
                says_usage_alone = not self._too_large and self._read_event(event)
                self._too_large = False
                if not says_usage_alone:
                    passed += event
            del self._buffer[:start]
            self._searched = max(len(self._buffer) - _LONGEST, 0)
        if len(self._buffer) > MAX_EVENT:
            self._too_large = True
            passed += self._buffer[:-_LONGEST]
            del self._buffer[:-_LONGEST]
            self._searched = 0
        return bytes(passed) if self.drops else data

    def end(self) -> bytes:
        """The rest, once the server has said everything."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        says_usage_alone = False
        if not self._too_large:
            says_usage_alone = self._read_event(rest) if self._events else self._read(rest) is None
        return rest if self.drops and not says_usage_alone else b""

    def _read_event(self, event: bytes) -> bool:
        """Whether it says the usage and nothing else."""
        lines = event.splitlines()
        data = b"\n".join(line[5:].removeprefix(b" ") for line in lines if line.startswith(b"data:"))
        row = self._read(data)
        return isinstance(row, Mapping) and isinstance(row.get("usage"), dict) and row.get("choices") == []

    def _read(self, data: bytes) -> Json:
        """One JSON document, taken in; None when it is none."""
        try:
            row = read_json(data)
        except ForeignJsonError:
            return None
        if not isinstance(row, dict):
            return None
        self.usage = self._dialect.usage(row, self.usage)
        self.answer.add(row)
        for holder in (row, row.get("message"), row.get("response")):
            if isinstance(holder, dict):
                name = holder.get("model", holder.get("modelVersion"))
                if isinstance(name, str) and self.model is None:
                    self.model = masking.first(name, _MAX_MODEL)
        return row
