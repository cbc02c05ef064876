"""A limit of time for each test, by pytest-timeout: who is over it is stopped, and everybody's stack is printed."""

from __future__ import annotations

import faulthandler
import signal
import sys
from collections.abc import Generator

import pytest
import pytest_timeout

from tests.harness.processes import descendants, stacks

UNIT_S, LONG_S = 120, 600
"""Seconds for a test with its fixtures, which may build an image or ask a model; a busy machine needs many times what
it takes."""
_UNIT, _LONG = pytest.mark.timeout(UNIT_S), pytest.mark.timeout(LONG_S)
_AGAIN_S = 3
"""Seconds after which a test that swallowed its end is ended again."""
_OVER = pytest.StashKey[bool]()
_RUNS = pytest.StashKey[bool]()
"""Whether code of the test or its fixtures runs, not pytest's own, which an exception would end for all tests."""


def _kill_after_s(limit_s: float) -> float:
    """Seconds after which a worker that did not come back from native code is ended, by which its test has failed."""
    return limit_s + max(8.0, limit_s / 2)


def limit(item: pytest.Item) -> None:
    """State the test's limit where it states none by itself."""
    marks = {mark.name for mark in item.iter_markers()}
    if "timeout" not in marks:
        item.add_marker(_UNIT if marks.isdisjoint(("engine", "slow")) else _LONG)


class Limits:
    @pytest.hookimpl(tryfirst=True)
    def pytest_timeout_set_timer(self, item: pytest.Item, settings: pytest_timeout.Settings) -> bool | None:
        """As pytest-timeout does it, with the children's stacks in front of the threads'."""
        if settings.method != "signal":
            return None

        def stop(_number: int, _frame: object) -> None:
            __tracebackhide__ = True
            if not item.stash.get(_RUNS, False):
                return
            item.stash[_OVER] = True
            below = descendants()
            print(
                f"\n{item.nodeid} is over its {settings.timeout:.0f} s. Its processes:\n{stacks(below)}",
                file=sys.stderr,
            )
            pytest_timeout.timeout_sigalrm(item, settings)

        def cancel() -> None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            faulthandler.cancel_dump_traceback_later()

        item.cancel_timeout = cancel  # type: ignore[attr-defined]
        signal.signal(signal.SIGALRM, stop)
        signal.setitimer(signal.ITIMER_REAL, settings.timeout, _AGAIN_S)
        faulthandler.dump_traceback_later(_kill_after_s(settings.timeout), exit=True, file=sys.__stderr__)
        return True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None]:
        yield from _running(item)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None]:
        yield from _running(item)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None]:
        """A test that went on after its end has failed as well."""
        yield from _running(item)
        if item.stash.get(_OVER, False):
            pytest.fail(f"{item.nodeid} was over its time and went on")


def _running(item: pytest.Item) -> Generator[None]:
    item.stash[_RUNS] = True
    try:
        yield
    finally:
        item.stash[_RUNS] = False
