"""A repository with three suites in three folders, run from its root and from one of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import forkserver
from tests.e2e.conftest import Done, Project

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("monorepo")]

AGENT = """
import pathlib, sys
from words import GREETING
pathlib.Path(sys.argv[1]).write_text(f"{GREETING} {pathlib.Path('hook.txt').read_text()}")
"""
HOOK = """
import os, pathlib
pathlib.Path(os.environ["AGENTV_WORKSPACE_PATH"], "hook.txt").write_text("FROM THE HOOK")
"""
GRADER = """
import json, sys
from helper import wanted
print(json.dumps({"score": 1 if wanted in json.load(sys.stdin)["output"] else 0}))
"""
TARGETS = """
targets:
  - name: default
    provider: cli
    command: python3 agents/NAME.py {OUTPUT_FILE}
    hooks: {before_each: {command: [python3, hooks/prepare.py]}}
"""
SUITE = """
name: NAME
tests:
  - id: NAME
    input: go
    assertions:
      - {type: contains, value: "NAME FROM THE HOOK"}
      - {type: code-grader, command: [python3, graders/check.py]}
"""
PLACES = {
    "one": ("one/targets.yaml", "one", "one/one.eval.yaml"),
    "two": ("services/two/.agentv/targets.yaml", "services/two", "services/two/evals/deep/two.eval.yaml"),
    "three": ("targets.yaml", "", "libs/three/three.eval.yaml"),
}
"""Of each suite: its targets, the folder of its scripts, and where it stands."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("monorepo"))
    (project.folder / ".git").mkdir()
    for name, (targets, scripts, suite) in PLACES.items():
        project.write(
            {
                targets: TARGETS.replace("NAME", name),
                suite: SUITE.replace("NAME", name),
                str(Path(scripts, f"agents/{name}.py")): AGENT,
                str(Path(scripts, "agents/words.py")): f"GREETING = {name!r}\n",
                str(Path(scripts, "hooks/prepare.py")): HOOK,
                str(Path(scripts, "graders/check.py")): GRADER,
                str(Path(scripts, "graders/helper.py")): "wanted = 'FROM THE HOOK'\n",
            }
        )
    return project


def test_from_the_root_each_suite_finds_its_own(project: Project) -> None:
    done = project.run(".")
    assert done.code == 0, done.stdout + done.stderr
    assert {name: row["score"] for name, row in done.rows.items()} == dict.fromkeys(PLACES, 1.0)


def test_from_a_folder_below_too(project: Project) -> None:
    folder = project.folder / "services"
    argv = project.argv("run", "two", "-o", str(project.folder / "below"))
    ran = forkserver.run(argv, cwd=folder, env=project.env())
    done = Done(ran.returncode, ran.stdout, ran.stderr, project.folder / "below")
    assert done.code == 0, done.stdout + done.stderr
    assert {name: row["score"] for name, row in done.rows.items()} == {"two": 1.0}
