"""One request to a model's server on its way, from its admission to the end of its answer."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, field
from datetime import UTC, datetime
from typing import NoReturn

from agentv_sandbox.base.dataclass import dataclass
from agentv_sandbox.gateway.meter import ModelUse
from agentv_sandbox.gateway.replies import ReplyReader
from agentv_sandbox.modelcalls.limiter import KeyLimit, QueueTurn, WaitClock
from agentv_sandbox.modelcalls.recording import CallRecord, RecordedReply
from agentv_sandbox.modelcalls.waits import asked_wait, may_ask_to_wait
from agentv_sandbox.models_api.dialects.base import Dialect, Operation
from agentv_sandbox.models_api.policy import BOUNDS

_FIRST_FAULT = 500
_UNSAID_REPEATS = 2
"""Of a call whose server does not say how long its limit lasts; then the agent's program decides."""
CALL_WAITS_S = 240.0
"""Longest that a call waits for the server's rate limit, all its waits together: programs give up after 300 s."""


@dataclass(frozen=True, kw_only=True)
class Admitted:
    """A request as it is sent on."""

    dialect: Dialect
    operation: Operation
    method: str
    path: str
    """With prefix and query."""
    model: str
    headers: Mapping[str, str]
    body: bytes = field(repr=False)
    understood: Mapping[str, object] = field(repr=False, default_factory=dict)
    """``body`` as JSON, its keys in one spelling."""
    lost_betas: tuple[str, ...] = ()
    """Values of ``anthropic-beta`` that are not sent."""
    adds_usage_event: bool = False
    """Whether the answer gets an event that the agent did not ask for, and must not see."""


@dataclass(frozen=True)
class LimitAnswer:
    """An answer that may ask to wait; nothing of it has been passed on."""

    status: int
    headers: Mapping[str, str]
    """With lower-case names."""
    body: bytes = field(repr=False)


class ModelCall:
    """One request that is sent on, and its answer."""

    def __init__(
        self,
        admitted: Admitted,
        *,
        limit: KeyLimit | None = None,
        waits: WaitClock | None = None,
        patience_s: float = CALL_WAITS_S,
        replayed: RecordedReply | None = None,
        record: CallRecord | None = None,
        most_bytes: int = BOUNDS["answer_bytes"],
        most_s: float = BOUNDS["answer_seconds"],
    ) -> None:
        """``limit``: the server's, shared with others; ``waits`` counts for how long its container waits.
        ``most_bytes``, ``most_s``: of the answer."""
        self._room = most_bytes
        self._most_bytes, self._most_s = most_bytes, most_s
        self._deadline: float | None = None
        self.admitted = admitted
        self._limit = limit or KeyLimit()
        self._waits = waits or WaitClock()
        self._patience_s = patience_s
        self._unsaid = 0
        """The same without a time."""
        self._turn: QueueTurn | None = None
        self.asked = replayed is not None
        """Whether the request was sent, or needs not be."""
        self.limited = 0
        """How often the server asked to wait."""
        self.replayed = replayed
        """What answers it in place of a server."""
        self._record = record
        self._complete = False
        self.reply = ReplyReader(admitted.dialect, drop_usage_event=admitted.adds_usage_event)
        self.status: int | None = None
        """Of the answer; None where there is none."""
        self.cut = False
        """Whether it was ended before its end: its container had ended, or it was too long."""
        self.began = datetime.now(UTC)
        self._started = time.monotonic()
        self._first: float | None = None
        """Seconds until the answer began."""

    @contextmanager
    def turn(self, gone: Callable[[], bool]) -> Iterator[None]:
        """Wait until the request may be sent. Raises LimitWait when that would take too long, GoneAway when ``gone``
        says that nobody waits for the answer."""
        with self._limit.turn(patience_s=self._patience_s, gone=gone, clock=self._waits) as turn:
            self._patience_s -= turn.waited_s
            self._turn, self.asked = turn, True
            self._deadline = time.monotonic() + self._most_s
            yield

    def heard_limit(self, answer: LimitAnswer) -> bool:
        """Whether ``answer`` asks to wait, of which everybody with the same key learns."""
        seconds = asked_wait(answer.status, answer.headers, answer.body)
        if seconds is None or self._turn is None:
            return False
        self._turn.limited(seconds)
        self.limited += 1
        self._unsaid += seconds == 0
        return self._unsaid <= _UNSAID_REPEATS

    def start(self, status: int, headers: Mapping[str, str]) -> None:
        """Note how the answer begins. ``headers``: with lower-case names."""
        if self._turn is not None and status < _FIRST_FAULT and not may_ask_to_wait(status, headers):
            self._turn.passed()
        self.status = status
        self._first = time.monotonic() - self._started
        self.reply.start(status, headers.get("content-type", ""))
        if self._record is not None:
            self._record.start(status, headers)

    def seconds_left(self) -> float:
        """Until the answer has taken too long. Raises OSError when it has."""
        left = self._most_s if self._deadline is None else self._deadline - time.monotonic()
        if left <= 0:
            self._endless(f"takes longer than {self._most_s:g} s", "answer_seconds")
        return left

    def came(self, size: int) -> None:
        """Count bytes of the answer. Raises OSError when there are too many."""
        self._room -= size
        if self._room < 0:
            self._endless(f"is larger than {self._most_bytes:,} bytes", "answer_bytes")

    def _endless(self, why: str, bound: str) -> NoReturn:
        self.cut = True
        raise OSError(
            f"the model gateway cut an answer that {why}; in the target, gateway: {{bounds: {{{bound}: ...}}}} "
            "permits more"
        )

    def feed(self, data: bytes) -> bytes:
        """What of the answer goes on to the agent."""
        if self._record is not None:
            self._record.feed(data)
        return self.reply.feed(data)

    def end(self) -> bytes:
        """The rest of it, once the server has said everything."""
        self._complete = True
        return self.reply.end()

    def end_record(self) -> None:
        """Keep the call in the recording that is made, if one is."""
        if self._record is not None:
            self._record.end(complete=self._complete)

    def facts(self, use: ModelUse) -> dict[str, object]:
        """What the log says of it beside the request. Times in seconds."""
        admitted, usage = self.admitted, self.reply.usage
        known = {
            "method": admitted.method,
            "path": admitted.path,
            "model": admitted.model or None,
            "model_answered": self.reply.model,
            "status": self.status,
            "first_byte_s": None if self._first is None else round(self._first, 3),
            "duration_s": round(time.monotonic() - self._started, 3),
            "usage": None if usage is None else {k: v for k, v in asdict(usage).items() if v},
            "rate_limited": self.limited or None,
            "cost_usd": None if usage is None or use.without_price else use.cost_usd,
        }
        return {**{k: v for k, v in known.items() if v is not None}, **self.reply.capture.to_json()}
