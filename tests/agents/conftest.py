"""The one run of a class of tests.

Tests here are of two groups (agents, agents-too) of about the same length, for two workers. They share images, of which
a lock lets one process build each, and nothing else: keys, servers, lock files and run folders are a process's own.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .harness import Ran, play_agent

pytest.register_assert_rewrite("tests.agents.sessions")


@pytest.fixture(scope="class")
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ran]:
    """Of ``agent``, an attribute of the class."""
    agent = request.cls.agent
    ran = play_agent(agent, tmp_path_factory.mktemp(agent.name))
    assert ran.code == 3, ran.output
    yield ran
