"""``task.yaml`` of Terminal-Bench 1."""

from __future__ import annotations

import pytest

from .conftest import Tasks

FILES: dict[str, str | None] = {
    "task.yaml": "instruction: Write it.\ndifficulty: easy\nmax_agent_timeout_sec: 90\nmax_test_timeout_sec: 30\n",
    "Dockerfile": "FROM scratch\n",
    "run-tests.sh": "pytest /tests -rA\n",
    "solution.sh": "true\n",
    "tests/test_outputs.py": "def test_it(): pass\n",
}
COMPOSE = """
services:
  client:
    build: {dockerfile: Dockerfile}
    image: ${T_BENCH_TASK_DOCKER_CLIENT_IMAGE_NAME}
    container_name: ${T_BENCH_TASK_DOCKER_CLIENT_CONTAINER_NAME}
    command: [sh, -c, sleep infinity]
    environment: ["TEST_DIR=${T_BENCH_TEST_DIR}", "LOG=${T_BENCH_OTHER}", COLOUR=green]
    volumes: ["${T_BENCH_TASK_LOGS_PATH}:${T_BENCH_CONTAINER_LOGS_PATH}"]
"""


def test_a_task_is_a_suite_with_one_test(tasks: Tasks) -> None:
    tasks.write("set/write-it", {**FILES, "docker-compose.yaml": COMPOSE}, whole=False)
    (suite,) = tasks.load().suites
    assert (suite.name, suite.category) == ("write-it", "set")
    task = suite.cases[0].task
    assert task is not None
    (step,) = task.steps
    home = tasks.root / "set/write-it"
    assert task.environment.dockerfile == home / "Dockerfile"
    assert task.environment.env == {"TEST_DIR": "/tests", "COLOUR": "green"}
    assert (step.instruction, step.agent_timeout_s) == ("Write it.", 90)
    assert (step.verifier.judge, step.verifier.timeout_s) == ("pytest", 30)
    assert step.verifier.tests == (home / "run-tests.sh", home / "tests")
    assert step.solution == home / "solution.sh"


def test_older_files_have_several_descriptions(tasks: Tasks) -> None:
    text = "descriptions:\n  - {key: hard, description: Much.}\n  - {key: base, description: Little.}\n"
    tasks.write("one", {**FILES, "task.yaml": text}, whole=False)
    (suite,) = tasks.load().suites
    assert suite.cases[0].prompt == "Little."


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        (
            {"task.yaml": "instruction: x\nparser_name: swebench\n"},
            "task.yaml:2: the parser 'swebench' is not supported; 'pytest' is",
        ),
        (
            {"task.yaml": "instruction: x\nrun_tests_in_same_shell: true\n"},
            "task.yaml:2: tests in the agent's own shell",
        ),
        ({"task.yaml": "difficulty: easy\n"}, "task.yaml:None: there is neither an instruction"),
        ({"task.yaml": "[1, 2]\n"}, "task.yaml:1: must hold a mapping"),
        ({"task.yaml": "a: [\n"}, "is not valid YAML"),
        ({"run-tests.sh": None}, "run-tests.sh:None: does not exist"),
        ({"Dockerfile": None}, "task.yaml:None: there is neither a Dockerfile nor an image"),
        (
            {"docker-compose.yaml": "services:\n  client: {build: .}\n  db: {image: x}\n"},
            "docker-compose.yaml:3: several services are not supported: db beside client",
        ),
        (
            {"docker-compose.yaml": "services:\n  client: {build: .., cap_add: [ALL]}\n"},
            "docker-compose.yaml:2: cap_add of a service is not supported",
        ),
    ],
)
def test_what_is_not_supported_is_refused_with_its_place(
    tasks: Tasks, files: dict[str, str | None], problem: str
) -> None:
    tasks.write("one", {**FILES, **files}, whole=False)
    found = tasks.problems()
    assert any(problem in each for each in found), found
