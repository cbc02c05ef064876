"""``limits.tmp_size``: how much /tmp, which is also HOME, holds; from a suite, a target and the command line, and
the operator's bound on it."""

from __future__ import annotations

import shutil

import pytest

from tests import forkserver
from tests.e2e.conftest import Project

pytestmark = pytest.mark.engine

TARGETS = """
targets:
  - {name: plain, provider: cli, command: "python3 agent.py {EVAL_ID} {OUTPUT_FILE}"}
  - {name: roomy, provider: cli, command: "python3 agent.py {EVAL_ID} {OUTPUT_FILE}", limits: {tmp_size: 300m}}
"""
AGENT = """
import os, pathlib, sys
name, out = sys.argv[1:]
home = pathlib.Path(os.environ["HOME"])
if name == "many":
    for n in range(20_000): (home / str(n)).touch()
else:
    (home / "cache").write_bytes(bytes(200 << 20))
pathlib.Path(out).write_text("all done")
"""
GRADER = """
import pathlib, tempfile
pathlib.Path(tempfile.gettempdir(), "x").write_bytes(bytes(200 << 20))
print('{"score": 1}')
"""
TEST = "  - {id: %s, criteria: c, input: go, assert: [{type: contains, value: all}]}\n"


def suite(head: str, *names: str) -> str:
    return f"name: s\n{head}\ntests:\n" + "".join(TEST % name for name in names)


@pytest.fixture
def project(project: Project) -> Project:
    project.write({"targets.yaml": TARGETS, "agent.py": AGENT, "grader.py": GRADER})
    return project


def test_without_it_the_row_says_what_gives_more(project: Project) -> None:
    project.write({"s.eval.yaml": suite("execution: {target: plain}", "big")})
    done = project.run("s.eval.yaml")
    assert done.code == 3
    assert "/tmp, which holds 128 MiB" in done.rows["big"]["error"]
    assert "limits.tmp_size or --tmp-size makes it larger" in done.rows["big"]["error"]


def test_a_suite_gives_agents_and_graders_more(project: Project) -> None:
    text = suite("execution: {target: plain}\nlimits: {tmp_size: 300m}", "big", "many")
    text += "  - {id: graded, input: go, assert: [{type: code-grader, command: [python3, grader.py]}]}\n"
    project.write({"s.eval.yaml": text})
    done = project.run("s.eval.yaml")
    assert done.code == 0, done.stdout + done.stderr


def test_a_target_gives_its_agent_more(project: Project) -> None:
    project.write({"s.eval.yaml": suite("execution: {target: roomy}", "big")})
    done = project.run("s.eval.yaml")
    assert done.code == 0, done.stdout + done.stderr


def test_the_command_line_gives_more_and_bows_to_the_operator(project: Project) -> None:
    project.write({"s.eval.yaml": suite("execution: {target: plain}", "big")})
    done = project.run("s.eval.yaml", "--tmp-size", "300m")
    assert done.code == 0, done.stdout + done.stderr
    shutil.rmtree(project.output)
    project.write({"agentv-sandbox.toml": '[ceiling]\ntmp_size = "64m"\n'})
    refused = project.run("s.eval.yaml", "--tmp-size", "300m")
    assert refused.code == 2
    assert "command line: tmp_size 300m is more than the operator's ceiling of 64m" in " ".join(
        refused.stderr.split()
    )


def test_an_operators_bound_holds_for_who_asks_for_nothing(project: Project) -> None:
    project.write(
        {
            "s.eval.yaml": suite("execution: {target: plain}", "big"),
            "targets.yaml": TARGETS.replace(", limits: {tmp_size: 300m}", ""),
            "agentv-sandbox.toml": '[ceiling]\ntmp_size = "64m"\n',
        }
    )
    done = project.run("s.eval.yaml")
    assert done.code == 3, done.stdout + done.stderr
    assert "/tmp, which holds 64 MiB" in done.rows["big"]["error"]


@pytest.mark.parametrize(
    ("head", "said"),
    [
        ("limits: {tmp_size: lots}", "must be a size such as 512m or 2g"),
        ("limits: {tmp_size: 2g}", "tmp_size 2g is not less than the memory, 1g"),
        ("limits: {tmp_size: 2g, memory: 2g}", "tmp_size 2g is not less than the memory, 2g"),
    ],
)
def test_validate_names_what_cannot_work(project: Project, head: str, said: str) -> None:
    project.write({"s.eval.yaml": suite("execution: {target: plain}\n" + head, "big")})
    done = forkserver.run(project.argv("validate", "s.eval.yaml"), cwd=project.folder)
    assert done.returncode == (
        2 if said.startswith("must be") else 0
    )  # a warning, since more memory may be given later
    assert said in done.stderr and "s.eval.yaml:3" in done.stderr, done.stderr
