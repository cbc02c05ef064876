"""Task folders are audited as suites are: the same agents, their own solutions, the same findings."""

from __future__ import annotations

import json

import pytest

from tests import forkserver
from tests.e2e.conftest import Project
from tests.tasks.corpus import REWARD, Task

pytestmark = [pytest.mark.engine, pytest.mark.native, pytest.mark.xdist_group("tasks")]
TASKS = (
    Task(name="good", why="Say hello."),
    Task(name="gives-it-away", why="Do it.", test=f"echo 1 > {REWARD}"),
    Task(name="unsolved", why="Do it.", solve="true"),
)


def test_tasks_are_audited_with_their_own_solutions(
    tmp_path_factory: pytest.TempPathFactory, tool_image: str
) -> None:
    project = Project(tmp_path_factory.mktemp("audited"), "native")
    for task in TASKS:
        task.write(project.folder / "tasks", tool_image)
    argv = [
        *project.argv("audit"),
        "tasks",
        "--agent",
        "silent",
        "--agent",
        "claims",
        "--agent",
        "oracle",
        "--json",
    ]
    done = forkserver.run(argv, cwd=project.folder, env=project.env(), timeout=300)
    assert done.returncode == 1, done.stderr
    report = json.loads(done.stdout)
    assert {(each["test"], each["rule"]) for each in report["findings"]} == {
        ("gives-it-away", "always-passes"),
        ("unsolved", "never-passes"),
    }
    assert report["line"] == "audited: 3 tests, 1 passed without being solved, 2 of 3 oracles"
