"""The runs that tests share. What runs real programs is of one group, ``agents``: one worker runs it, once."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("tests.agents.sessions")

from .harness import Ran, scene_of  # noqa: E402
from .real import Real, run_real  # noqa: E402


@pytest.fixture(scope="class")
def ran(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The tests of ``agent``, an attribute of the class, with its recorded sessions."""
    agent = request.cls.agent
    ran = scene_of(agent).play(tmp_path_factory.mktemp(agent.name))
    assert ran.code == 3, ran.output
    return ran


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Real:
    return run_real(tmp_path_factory.mktemp("real"))
