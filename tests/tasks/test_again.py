"""Runs of tasks are graded again, resumed, compared, packed, spread and recorded like those of other suites."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Done, Project
from tests.tasks.corpus import REWARD, Task, script, step_files, steps

pytestmark = [pytest.mark.engine, pytest.mark.native, pytest.mark.xdist_group("tasks-again")]

# What an agent may do to a system: contents, modes, owners, links, deletions, a folder made anew, a socket.
CHANGE = """
mkdir -p /app/inner /app/shut
echo done > /app/done; echo other > /app/inner/file; chmod 640 /app/done; chown 1000:1001 /app/done
chmod 4755 /app/inner/file; chmod 2700 /app/shut; ln -s ../etc/passwd /app/link; printf 'a\\000b' > /app/binary
rm /etc/hostname /etc/issue; rm -rf /etc/skel; rm -rf /etc/profile.d; mkdir /etc/profile.d; echo bye >> /etc/motd
rm -rf /opt; ln -s /srv /opt; echo 'name with blank' > '/srv/a b'
python3 -c "import socket; socket.socket(socket.AF_UNIX).bind('/app/socket')"
"""
STATE = """
{ stat -c '%n %F %a %u %g %s' /app /app/* /app/inner/file /etc/profile.d /opt '/srv/a b'; readlink /app/link /opt
  sha256sum /app/done /app/binary /etc/motd; ls -d /etc/skel /etc/issue /etc/hostname; } 2>&1 | grep -v socket > /tmp/state
"""
SEEN = f"""{STATE}
sha256sum < /tmp/state; [ -f /app/done ] && [ ! -e /etc/skel ] && echo 1 > {REWARD} || echo 0 > {REWARD}
"""
OF_STEP = f"[ -f /app/{{step}} ] && echo 1 > {REWARD} || echo 0 > {REWARD}"
TASKS = (
    Task(name="changed", why="Change it.", solve=CHANGE, test=SEEN),
    Task(
        name="declared",
        why="x",
        toml='artifacts = ["/app"]\n[verifier]\nenvironment_mode = "separate"\n'
        'collect = [{ command = "echo made > /app/made" }]',
        test=f"[ -f /app/done ] && [ -f /app/made ] && echo 1 > {REWARD} || echo 0 > {REWARD}",
    ),
    Task(
        name="steps",
        why="x",
        toml=steps("one", "two"),
        files={
            **step_files("one", "two", test=OF_STEP, solve="mkdir -p /app; touch /app/{step}"),
            "steps/two/solution/solve.sh": script("rm /app/one"),
        },
        test=None,
        solve=None,
    ),
)
REWARDS = {"changed": 1.0, "declared": 1.0, "steps": 0.5}


def command(project: Project, *args: str, code: int | None = 0) -> str:
    done = subprocess.run(
        project.argv(*args),
        cwd=project.folder,
        env=project.env(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert code in (None, done.returncode), done.stderr[-3000:] + done.stdout[-3000:]
    return done.stdout + done.stderr


def rows(folder: Path) -> dict[str, dict[str, Any]]:
    return {row["test_id"]: row for row in map(json.loads, (folder / "index.jsonl").read_text().splitlines())}


def scores(folder: Path) -> Mapping[str, float]:
    return {name: row["score"] for name, row in rows(folder).items()}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, tool_image: str) -> Project:
    project = Project(tmp_path_factory.mktemp("again"), "native")
    for task in TASKS:
        task.write(project.folder / "tasks", tool_image)
    return project


@pytest.fixture(scope="module")
def done(project: Project) -> Done:
    done = project.run("tasks")
    assert {name: row["score"] for name, row in done.rows.items()} == REWARDS, done.stderr[-3000:]
    return done


def test_an_agents_system_is_made_again_and_judged_again(project: Project, done: Done) -> None:
    command(project, "regrade", "out", "-o", "again", code=None)
    assert {name: row.get("error") for name, row in rows(project.folder / "again").items()} == dict.fromkeys(REWARDS)
    assert scores(project.folder / "again") == REWARDS
    # What the verifier saw of the system is, byte by byte, what it saw in the run.
    first, second = (rows(each)["changed"]["scores"][0]["details"]["output"] for each in (done.folder, project.folder / "again"))
    assert first == second


def test_a_run_without_verdicts_is_graded_later(project: Project) -> None:
    command(project, "run", "tasks", "--no-grade", "-o", "later", code=None)
    command(project, "grade", "later", code=None)
    assert scores(project.folder / "later") == REWARDS
