"""Which failures of an exchange may pass, and when the next attempt is made."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from agentv_sandbox.base.dataclass import dataclass
from agentv_sandbox.base.errors import LlmError, LlmFault
from agentv_sandbox.base.lazy import lazily
from agentv_sandbox.models.suite import Target

if TYPE_CHECKING:
    import tenacity
else:
    tenacity = lazily("tenacity")

_GRADING_REQUESTS = 4
_GRADING_S = 300.0
_GRADING_TIMEOUTS = 2.5
"""Of the target's ``timeout_seconds``, where that is more."""


class PassingError(LlmError):
    """A failure that may pass. ``retry_after_s`` is what the server asked for, 0 when it did not; ``limited``: its rate
    limit was met, which everybody with the same key waits for."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        retry_after_s: float = 0.0,
        limited: bool = False,
        hint: str = "",
        fault: LlmFault = "target_error",
    ) -> None:
        super().__init__(message, status=status, hint=hint, fault=fault)
        self.retry_after_s = retry_after_s
        self.limited = limited


class RequestBudget:
    """Requests and seconds that all questions of one grading, or all attempts of one answer, have together. Of one
    thread."""

    def __init__(self, *, requests: float, seconds: float) -> None:
        self.used = 0
        """Requests that were sent."""
        self._requests, self._seconds = requests, seconds
        self._started = time.monotonic()
        self._waited_s = 0.0

    @staticmethod
    def of_grading(target: Target) -> RequestBudget:
        """What a verdict of ``target`` may take: a question, and its repetitions or repairs."""
        requests = max(_GRADING_REQUESTS, 1 + RetryPolicy.of(target).retries)
        timeout_s = target.number("timeout_seconds") or 0.0
        return RequestBudget(requests=requests, seconds=max(_GRADING_S, _GRADING_TIMEOUTS * timeout_s))

    @property
    def left_s(self) -> float:
        return self._seconds - self.spent_s

    @property
    def spent_s(self) -> float:
        """Seconds since its first question, without waits for rate limits."""
        return time.monotonic() - self._started - self._waited_s

    def waited(self, seconds: float) -> None:
        """So long a rate limit of the server was waited for."""
        self._waited_s += seconds

    def spent(self, after_s: float = 0.0) -> bool:
        """Whether no request may be sent, ``after_s`` from now."""
        return self.used >= self._requests or self.left_s <= after_s

    def __str__(self) -> str:
        """What was used, for messages."""
        times = "once" if self.used == 1 else f"{self.used} times"
        return f"tried {times} in {self.spent_s:.1f} s"


@dataclass(frozen=True, kw_only=True)
class RetryPolicy:
    """AgentV's retry fields of a target, with its defaults."""

    retries: int = 3
    first_delay_s: float = 1.0
    max_delay_s: float = 60.0
    factor: float = 2.0
    statuses: frozenset[int] = frozenset({408, 429, 500, 502, 503, 504, 529})

    @staticmethod
    def of(target: Target) -> RetryPolicy:
        default = RetryPolicy()

        def number(name: str, fallback: float) -> float:
            value = target.number(name)
            return fallback if value is None else value

        statuses = target.settings.get("retry_status_codes")
        return RetryPolicy(
            retries=int(number("max_retries", default.retries)),
            first_delay_s=number("retry_initial_delay_ms", default.first_delay_s * 1000) / 1000,
            max_delay_s=number("retry_max_delay_ms", default.max_delay_s * 1000) / 1000,
            factor=number("retry_backoff_factor", default.factor),
            statuses=frozenset(statuses) if isinstance(statuses, list | tuple) else default.statuses,
        )

    def delay_s(self, attempt: int) -> float:
        """Before the attempt after ``attempt``, which is counted from 1."""
        return min(self.max_delay_s, self.first_delay_s * self.factor ** (attempt - 1))

    def wait(self, state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        if isinstance(error, PassingError) and error.limited:
            return 0.0  # the next attempt waits for its turn
        delay = self.delay_s(state.attempt_number)
        return max(delay, error.retry_after_s) if isinstance(error, PassingError) else delay
