"""Bounds on how a target is called: requests in flight and a minute."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from agentv_sandbox.errors import Cancelled

SLICE_S = 0.2
"""Longest sleep between two looks at ``cancelled``."""


def pause(seconds: float, cancelled: Callable[[], bool]) -> None:
    """Sleep; raises ``Cancelled`` soon after the user interrupted."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if cancelled():
            raise Cancelled
        time.sleep(min(left, SLICE_S))


class Gate:
    """Shared by all threads that call one target."""

    def __init__(self, *, in_flight: int | None, per_minute: float | None) -> None:
        self._slots = threading.BoundedSemaphore(in_flight) if in_flight else None
        self._interval_s = 60 / per_minute if per_minute else 0.0
        self._lock = threading.Lock()
        self._next = 0.0

    @contextmanager
    def slot(self, cancelled: Callable[[], bool]) -> Iterator[None]:
        """Wait for the turn of one request."""
        while self._slots and not self._slots.acquire(timeout=SLICE_S):
            if cancelled():
                raise Cancelled
        try:
            with self._lock:
                now = time.monotonic()
                start = max(now, self._next)
                if self._interval_s:
                    self._next = start + self._interval_s
            pause(start - now, cancelled)
            yield
        finally:
            if self._slots:
                self._slots.release()
