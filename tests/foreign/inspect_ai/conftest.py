"""Tests with Inspect AI itself. They need its package, which the project's own environment does not have: there,
nothing of this folder is collected, and `make test-inspect` runs it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

collect_ignore_glob = ["*"] if find_spec("inspect_ai") is None else []


def pytest_addoption(parser: pytest.Parser) -> None:
    if find_spec("inspect_ai") is not None:
        parser.addoption("--box-engine", choices=("native", "docker"), default="native")


@pytest.fixture(scope="session", autouse=True)
def kind(request: pytest.FixtureRequest) -> Iterator[str]:
    """The engine of all boxes, as an operator chooses it."""
    kind = str(request.config.getoption("--box-engine"))
    os.environ["AGENTV_SANDBOX_ENGINE"] = kind
    yield kind
