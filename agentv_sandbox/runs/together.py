"""Task folders are suites of one test each: several of them are worked on at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from itertools import groupby

from agentv_sandbox.base.errors import Cancelled
from agentv_sandbox.models.suite import Suite

_POLL_S = 0.5


def grouped(suites: Sequence[Suite]) -> Iterator[list[Suite]]:
    """``suites`` in their order: those that are task folders and follow each other together, all others alone."""
    for is_task, members in groupby(suites, key=lambda suite: suite.is_task):
        if is_task:
            yield list(members)
        else:
            yield from ([suite] for suite in members)


def work_together(
    suites: Sequence[Suite], work: Callable[[Suite], None], *, places: int, stop: Callable[[], None]
) -> None:
    """Have ``work`` called for each suite, in ``places`` threads. Raises the first failure, after ``stop`` and the end
    of what was going on."""
    waiting = iter(suites)
    running: set[Future[None]] = set()
    failure: BaseException | None = None
    with ThreadPoolExecutor(places, thread_name_prefix="task") as pool:
        while True:
            while failure is None and len(running) < places:
                suite = next(waiting, None)
                if suite is None:
                    break
                running.add(pool.submit(copy_context().run, work, suite))
            if not running:
                break
            # A short wait, so that a signal is handled by the main thread in time.
            done, running = wait(running, timeout=_POLL_S, return_when=FIRST_COMPLETED)
            for future in done:
                failure = _worse(failure, future.exception())
            if failure is not None:
                stop()
    if failure is not None:
        raise failure


def _worse(known: BaseException | None, new: BaseException | None) -> BaseException | None:
    """What came first says most, but for the end of others that it led to."""
    if known is None or (isinstance(known, Cancelled) and new is not None):
        return new
    return known
