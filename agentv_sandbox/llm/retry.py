"""Which failures of an exchange may pass, and when the next attempt is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agentv_sandbox.errors import LlmError, LlmFault
from agentv_sandbox.lazy import lazily
from agentv_sandbox.llm.records import number_setting
from agentv_sandbox.models.suite import Target

if TYPE_CHECKING:
    import tenacity
else:
    tenacity = lazily("tenacity")


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
            value = number_setting(target, name)
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
