"""Fixtures for tests against a real engine. Without an engine those tests fail: they are never skipped."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from agentv_sandbox.engines.docker import DockerEngine, find_engine
from agentv_sandbox.sandbox import Sandbox


@pytest.fixture(scope="session")
def engine() -> DockerEngine:
    return find_engine(os.environ)


@pytest.fixture(scope="session")
def tool_image(engine: DockerEngine) -> str:
    """The trusted image in which collectors and volume holders run."""
    return "agentv-dev-tool:local"


@pytest.fixture
def sandbox(engine: DockerEngine, tool_image: str) -> Iterator[Sandbox]:
    with Sandbox(engine, tool_image=tool_image) as box:
        yield box
