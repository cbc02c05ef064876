"""What the host may spend on the data of one agent, and when it has to stop."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import TypeVar

from agentv_sandbox.base.errors import Cancelled

HOST_S = 30.0
"""CPU seconds for one step of host work over one agent's data. Ordinary work takes a small part of one."""
GRACE_S = 2.0
"""What a cancelled run may still take for one step that completes what is there already."""
_ASK_S = 0.01
"""Between two looks at the processor time, which take as long as the work on many an item."""

_T = TypeVar("_T")
_cancelled: ContextVar[Callable[[], bool]] = ContextVar("cancelled", default=lambda: False)


def cancelled_by(cancelled: Callable[[], bool]) -> Callable[[], bool]:
    """From now on, in this context and its copies, budgets end when ``cancelled`` says so; what did until now."""
    before = _cancelled.get()
    _cancelled.set(cancelled)
    return before


class BudgetSpent(Exception):
    """A step that takes longer than anybody's honest data needs."""


class Deadline:
    """CPU seconds of the thread that does the work, so that neither a busy machine nor a wait for a container
    uses any of it. Ask it once an item: it also ends the work of a run that was cancelled.
    """

    def __init__(
        self,
        seconds: float = HOST_S,
        *,
        cancelled: Callable[[], bool] | None = None,
        grace_s: float | None = None,
    ) -> None:
        """``cancelled``: instead of what ``cancelled_by`` named. ``grace_s``: what a cancelled run may still take for
        this, on the clock; None ends it at once."""
        self._seconds = seconds
        self._until = time.thread_time() + seconds
        self._cancelled = cancelled or _cancelled.get()
        self._grace_s = grace_s
        self._end: float | None = None
        self._asked = -math.inf

    def left(self) -> bool:
        """Whether the work may go on. Raises Cancelled when the run was cancelled and has no grace."""
        if self._cancelled():
            if self._grace_s is None:
                raise Cancelled
            if self._end is None:
                self._end = time.monotonic() + self._grace_s
        now = time.monotonic()
        if self._end is not None and now >= self._end:
            return False
        if now < self._asked + _ASK_S:
            return True
        if time.thread_time() >= self._until:
            return False
        self._asked = now
        return True

    def check(self) -> None:
        """Raises BudgetSpent, or Cancelled, when the work must end."""
        if self.left():
            return
        if self._end is not None:
            raise Cancelled
        raise BudgetSpent(f"what the agent left takes more than {self._seconds:.0f} s of processor time")

    def spent_on(self, items: Iterable[_T]) -> Iterator[_T]:
        """``items``, each with a ``check`` before it."""
        for item in items:
            self.check()
            yield item
