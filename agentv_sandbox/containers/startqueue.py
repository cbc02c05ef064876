"""Which container starts next, when more are asked for than a machine can start at once.

Agents mostly wait for a model, and those that began together are done together. If all of their answers were collected
and graded side by side, all of those tests would end at the same late time, and the next agents would begin, wait and
be done together again, while no processor works. So the answers take turns, those of the oldest test first: it ends
soon, and the agent after it waits while the others are graded.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect, insort
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

_AT_ONCE = 2
"""For each processor: one computes while the other one is being set up or removed."""
_SHORTEST_S, _LONGEST_S = 0.05, 1.0
_LOADAVG = Path("/proc/loadavg")


class StartQueue:
    """A few at a time. Safe to share between threads."""

    def __init__(self, cpus: int, *, has_room: Callable[[int], bool] | None = None) -> None:
        """``has_room``: whether one of so many processors has nothing to do; None asks the kernel."""
        self._cpus = max(cpus, 1)
        self._at_once = _AT_ONCE * self._cpus
        self._has_room = has_room or _has_room
        self._lock = threading.Lock()
        self._count = count()
        self._waiting: list[tuple[float, int, threading.Event]] = []
        """By rank, then as they came."""
        self._begun: dict[int, float] = {}
        """Those that have their turn, with when it began in ``time.monotonic`` seconds."""

    @contextmanager
    def turn(self, rank: float, cancelled: Callable[[], bool]) -> Iterator[None]:
        """Wait until the lower ranks had their turns. It ends with the block, for whoever waits also after 50 ms in
        which it left a processor without work, and after 1 s in any case.

        Where ``cancelled`` says so the wait is over; what is in the block has to ask, too.
        """
        come = threading.Event()
        with self._lock:
            place = rank, next(self._count), come
            insort(self._waiting, place)
            self._give()
        try:
            while not come.wait(self._patience(place)) and not cancelled():
                with self._lock:
                    self._give()
            yield
        finally:
            with self._lock:
                if come.is_set():
                    self._begun.pop(place[1], None)
                else:
                    self._waiting.remove(place)
                self._give()

    def _patience(self, place: tuple[float, int, threading.Event]) -> float:
        """Seconds after which to look whether turns have ended: those in front look for all, often, so that a long
        queue does not keep a processor busy."""
        with self._lock:
            ahead = bisect(self._waiting, place) // self._at_once
        return min(_SHORTEST_S * (1 + ahead), _LONGEST_S)

    def _give(self) -> None:
        if not self._waiting:
            return
        now = time.monotonic()
        oldest = now - min(self._begun.values(), default=now)
        longest = _SHORTEST_S if oldest > _SHORTEST_S and self._has_room(self._cpus) else _LONGEST_S
        self._begun = {number: begun for number, begun in self._begun.items() if now - begun <= longest}
        while self._waiting and len(self._begun) < self._at_once:
            _, number, come = self._waiting.pop(0)
            self._begun[number] = now
            come.set()


def _has_room(cpus: int) -> bool:
    try:
        running = int(_LOADAVG.read_text().split()[3].partition("/")[0])
    except (OSError, ValueError, IndexError):
        return True
    return running <= cpus  # the one that asks is among them
