"""No process outlives its test, or the module whose fixture started it.

Each process says by a variable which test or fixture started it; orphans come to the process that runs the tests
(``tests/harness/run.py``), where there is one, and are found there.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator
from typing import Any

import pytest

from tests.harness.processes import GRACE_S, MARK, RUNNER, children, command, descendants, end, environment

_HELPERS = ("multiprocessing.resource_tracker", " -I -S -c ")
"""Of Python, and of native engines of this very process, with which they end."""


class Leftovers:
    def __init__(self) -> None:
        self._session = str(os.getpid())

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None]:
        os.environ[MARK] = self._name(item.nodeid)
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
    ) -> Generator[None, Any, Any]:
        if fixturedef.scope == "function":
            return (yield)
        before = os.environ.get(MARK, "")
        os.environ[MARK] = self._name(f"{fixturedef.scope} {request.node.nodeid}")
        try:
            return (yield)
        finally:
            os.environ[MARK] = before

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
        yield
        names = {self._name(item.nodeid)}
        if nextitem is None or nextitem.path != item.path:
            names.add(self._name(f"module {item.nodeid.partition('::')[0]}"))
        self._nothing_left(names)

    def _name(self, who: str) -> str:
        return f"{self._session} {who}"

    def _nothing_left(self, names: set[str]) -> None:
        """Wait for what was started under one of ``names``. Raises AssertionError where one had to be ended."""
        if sessions := sys.modules.get("agentv_sandbox.session.place"):
            sessions.close_idle_places()
        until = time.monotonic() + GRACE_S
        while left := _started_under(names):
            if time.monotonic() > until:
                said = "\n".join(f"  {pid}: {command(pid)}" for pid in left)
                end(left)
                raise AssertionError(f"processes outlived their test, and were ended:\n{said}")
            time.sleep(0.02)


def _started_under(names: set[str]) -> dict[int, int]:
    """Processes below this one, and orphans, that carry one of ``names``, and what they have started."""
    below = descendants(int(os.environ.get(RUNNER) or os.getpid()))
    own = {pid for pid in children(os.getpid()) if any(helper in command(pid) for helper in _HELPERS)}
    marked = [pid for pid in below if pid not in own and environment(pid).get(MARK) in names]
    return {pid: below[pid] for pid in marked} | {
        pid: start for parent in marked for pid, start in descendants(parent).items()
    }
