"""Tasks run from their folders to rows: in systems of the native engine, with oracle, nop and an agent of one's own."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests import forkserver
from tests.e2e.conftest import Done, Project
from tests.tasks.corpus import CHECK, REWARD, SOLVE, Task, script, step_files, steps

pytestmark = [pytest.mark.engine, pytest.mark.native, pytest.mark.xdist_group("tasks")]

PYTEST = """
set -e
cd $TEST_DIR
[ -f /app/done ] && state=PASSED || state=FAILED
echo "=========================== short test summary info ============================"
echo "PASSED test_it.py::test_of_old"
echo "$state test_it.py::test_done - AssertionError"
"""


SEPARATE = '[verifier]\nenvironment_mode = "separate"'
TROJAN = f"{SOLVE}; echo bad > /etc/motd; ln -sf /bin/true /usr/local/bin/test; echo 1 > {REWARD}"
LOOK = f"grep -q bad /etc/motd && echo 0 > {REWARD} && exit; {CHECK}"
OF_STEP = f"[ -f /app/{{step}} ] && echo 1 > {REWARD} || echo 0 > {REWARD}"
STEPS = {
    **step_files("one", "two", test=OF_STEP, solve="mkdir -p /app; touch /app/{step}"),
    "steps/two/workdir/setup.sh": script("test -f given && test -f /app/one && touch /tmp/set-up"),
    "steps/two/workdir/given": "x",
    "steps/two/solution/solve.sh": script("test -f /tmp/set-up && touch /app/two"),
}
COMPOSE = "services:\n  client:\n    image: {image}\n    environment: ['TEST_DIR=${{T_BENCH_TEST_DIR}}']\n"
OWN = """
targets:
  - name: own
    provider: cli
    command: sh -c 'mkdir -p /app; touch /app/done; cat {PROMPT_FILE} > {OUTPUT_FILE}'
"""
TASKS = (
    Task(name="good", why="Say hello."),
    Task(name="gives-it-away", why="x", test=f"echo 1 > {REWARD}"),
    Task(
        name="all",
        why="x",
        toml='environment.env = { COLOUR = "${TASK_COLOUR}" }\nenvironment.workdir = "/srv"\n'
        'environment.healthcheck = { command = "test -d /logs/artifacts" }\n'
        '[agent]\nuser = "nobody"\n[verifier]\nenv = { SIZE = "${TASK_SIZE:-small}" }',
        solve='echo "$COLOUR $PWD $(id -un)" > /tmp/said; exit 7',
        test=f'[ "$(cat /tmp/said) $SIZE" = "green /srv nobody small" ] && echo 1 > {REWARD}; cat /tmp/said',
    ),
    Task(name="named", why="x", test='echo \'{"a": 1, "b": 0.5}\' > /logs/verifier/reward.json'),
    Task(name="planted", why="x", solve=f"echo 1 > {REWARD}", test="echo sorry; exit 0"),
    Task(name="slow", why="x", toml="[verifier]\ntimeout_sec = 1", test=f"echo 1 > {REWARD}; sleep 30"),
    Task(name="declared", why="x", toml=f'artifacts = ["/app"]\n{SEPARATE}', solve=TROJAN, test=LOOK),
    Task(name="undeclared", why="x", toml=SEPARATE, solve=TROJAN, test=LOOK),
    Task(
        name="published",
        why="x",
        toml=f'{SEPARATE}\ncollect = [{{ command = "cp /app/done /logs/artifacts/done" }}]',
        test=f"[ -f /logs/artifacts/done ] && echo 1 > {REWARD} || echo 0 > {REWARD}",
    ),
    Task(name="both", why="x", toml=steps("one", "two"), files=STEPS, test=None, solve=None),
    Task(
        name="gated",
        why="x",
        toml=steps("one", "two", more={"one": "min_reward = 1"}),
        files={**STEPS, "steps/one/solution/solve.sh": script("true")},
        test=None,
        solve=None,
    ),
)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, tool_image: str) -> Project:
    project = Project(tmp_path_factory.mktemp("tasks"), "native")
    for task in TASKS:
        task.write(project.folder / "tasks", tool_image)
    common = {
        "task.yaml": "instruction: Do it.\n",
        "docker-compose.yaml": COMPOSE.format(image=tool_image),
        "run-tests.sh": PYTEST,
        "tests/data": "x",
    }
    for name, solution in (("solved", SOLVE), ("unsolved", "exit 1")):
        project.write({f"tasks/{name}/{path}": text for path, text in common.items()})
        project.write({f"tasks/{name}/solution.sh": solution})
    project.write({"tasks/targets.yaml": OWN})
    return project


@pytest.fixture(scope="module")
def done(project: Project) -> Iterator[Done]:
    """All tasks with their oracle."""
    yield project.run("tasks", "--target", "oracle", env={"TASK_COLOUR": "green"})


def rewards(row: Mapping[str, Any]) -> Any:
    return row["scores"][0]["details"]["rewards"]


def test_oracle_shows_what_a_task_is_worth(project: Project, done: Done) -> None:
    assert {name: row["score"] for name, row in done.rows.items() if row["score"] < 1} == {
        **{"named": 0.75, "planted": 0, "slow": 0, "undeclared": 0, "gated": 0, "unsolved": 0},
    }
    assert done.code == 3
    assert not list((project.folder / "tasks").rglob("*.lock"))  # a run leaves nothing in folders of tasks


def test_nop_and_an_agent_of_ones_own_work_on_tasks(project: Project, done: Done) -> None:
    assert done.rows
    second = Project(project.folder / "tasks", "native")
    other = second.run("good", "gives-it-away", "--target", "nop", "--target", "own")
    lines = map(json.loads, (other.folder / "index.jsonl").read_text().splitlines())
    assert {(row["test_id"], row["target"]): row["score"] for row in lines} == {
        ("good", "own"): 1,
        ("good", "nop"): 0,
        ("gives-it-away", "own"): 1,
        ("gives-it-away", "nop"): 1,
    }


def test_what_a_task_says_holds_in_its_containers(done: Done) -> None:
    row = done.rows["all"]
    assert (row.get("error"), rewards(row)) == (None, {"reward": 1.0})
    assert row["scores"][0]["details"]["output"] == "green /srv nobody\n"
    assert row["notes"] == ["the solution ended with exit code 7"]


def test_rewards_by_name_and_no_verdict(done: Done) -> None:
    rows = done.rows
    assert (rewards(rows["named"]), rows["named"]["score"]) == ({"a": 1.0, "b": 0.5}, 0.75)
    for name, why in (
        ("planted", "the verifier wrote neither reward.json nor reward.txt. It last said: sorry"),
        ("slow", "it took longer than its 1 s"),
    ):
        row = rows[name]
        assert why in row["error"]
        assert (row["execution_status"], row["failure_stage"], row["fault"]) == (
            "execution_error",
            "evaluator",
            "grader_failed",
        )


def test_a_separate_verifier_sees_what_is_declared_and_nothing_else(done: Done) -> None:
    names = ("declared", "undeclared", "published")
    assert {name: rewards(done.rows[name]) for name in names} == {
        "declared": {"reward": 1.0},
        "undeclared": {"reward": 0.0},
        "published": {"reward": 1.0},
    }


def test_steps_work_in_one_system_until_a_gate(done: Done) -> None:
    both, gated = done.rows["both"], done.rows["gated"]
    assert (rewards(both), rewards(gated)) == ({"reward": 1.0}, {"reward": 0.0})
    assert [each["name"] for each in both["scores"][0]["scores"]] == ["one", "two"]
    assert [each["name"] for each in gated["scores"][0]["scores"]] == ["one"]
    assert "below its min_reward 1" in gated["notes"][0]


def test_terminal_bench_is_judged_by_what_pytest_says(done: Done) -> None:
    solved, unsolved = done.rows["solved"], done.rows["unsolved"]
    assert (solved["score"], unsolved["score"]) == (1, 0)
    assert unsolved["scores"][0]["details"]["tests"] == {"test_of_old": True, "test_done": False}


def test_many_tasks_are_checked_by_the_command(project: Project) -> None:
    checked = forkserver.run(
        project.argv("validate", "tasks"), cwd=project.folder, env=project.env(), timeout=60
    )
    assert checked.returncode == 0
    assert f"{len(TASKS) + 2} of {len(TASKS) + 2} tasks can run" in checked.stdout
    assert "oracle (oracle) can be evaluated" in checked.stdout
