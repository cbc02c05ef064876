"""A plugin of pytest: which tests run which lines (``-p tests.harness.covering``; ``tools/mutants.py`` asks for it).

Settings of coverage come from the file in ``COVERAGE_PROCESS_START``, which the processes that tests start read, too.
A line that ran while a test ran has the test's kind and id as its context, ``unit tests/x.py::test_y``; one that ran
in a fixture has its module's path and ``::*``, since any test of the module may be the one that looks at what the
fixture made. The other kinds are ``native`` and ``docker``.
"""

from __future__ import annotations

import os
from collections.abc import Generator

import coverage
import pytest

from agentv_sandbox.engines.table import CHOICE


class Covering:
    """In each process that runs tests."""

    def __init__(self) -> None:
        self._coverage = coverage.Coverage(config_file=os.environ["COVERAGE_PROCESS_START"], data_suffix=True)
        self._coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None]:
        self._context(f"{_kind(item)} {item.nodeid.partition('::')[0]}::*")
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None]:
        self._context(f"{_kind(item)} {item.nodeid.partition('@')[0]}")
        return (yield)

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        self._coverage.save()

    def _context(self, name: str) -> None:
        self._coverage.switch_context(name)
        os.environ["COVERAGE_CONTEXT_OF_TEST"] = name


def _kind(item: pytest.Item) -> str:
    return "unit" if item.get_closest_marker("engine") is None else os.environ.get(CHOICE, "native")


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        config.pluginmanager.register(Covering())
