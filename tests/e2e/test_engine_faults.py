"""An engine that goes away during a run, and comes back or does not.

Real: the engine, its containers and HTTP, the command, its signals. Between them stands a socket of ours that is cut as
that of a stopped engine is; containers that a stop would end are ended by the engine meanwhile.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator

import docker
import pytest

from agentv_sandbox.engines.docker.engine import DockerEngine
from tests.e2e.conftest import Project
from tests.relay import Relay, relay_before
from tests.started import Started

pytestmark = [pytest.mark.engine, pytest.mark.docker]

TARGETS = """
targets:
  - {name: agent, provider: cli, command: 'sh agent.sh {EVAL_ID} MARK {OUTPUT_FILE}', timeout_seconds: 60}
"""
AGENT = """
case $1 in first|last) ;; *) sleep 6 ;; esac
echo done > $3
"""
TEST = "  - {id: %s, input: go, assert: [{type: contains, value: done}]}\n"


class Containers:
    """Those of the agent of one project, as the real engine has them."""

    def __init__(self, mark: str) -> None:
        self.mark = mark
        self.client = docker.from_env()
        self.known: set[str] = set()

    def next(self, test: str) -> str | None:
        """A running one for ``test`` that was not returned before."""
        for row in self.client.api.containers():
            if f" {test} {self.mark} " in row["Command"] and row["Id"] not in self.known:
                self.known.add(row["Id"])
                return str(row["Id"])
        return None


@pytest.fixture
def relay(engine: DockerEngine) -> Iterator[Relay]:
    with relay_before(engine.address) as between:
        yield between


@pytest.fixture
def containers(project: Project) -> Iterator[Containers]:
    found = Containers(f"mark-{time.monotonic_ns()}")
    yield found
    found.client.close()


def write(project: Project, mark: str, *names: str) -> None:
    text = "name: s\nexecution: {target: agent, workers: 1}\ntests:\n" + "".join(
        TEST % name for name in names
    )
    files = {".agentv/targets.yaml": TARGETS.replace("MARK", mark), "agent.sh": AGENT, "s.eval.yaml": text}
    project.write(files)


def run(project: Project, relay: Relay, *args: str) -> Started:
    return project.start("s.eval.yaml", *args, env={"DOCKER_HOST": relay.address})


def awaited(condition: Callable[[], str | None]) -> str:
    limit = time.monotonic() + 90
    while (value := condition()) is None:
        assert time.monotonic() < limit, "did not happen"
        time.sleep(0.05)
    return value


def test_a_restarted_engine_is_named_and_the_test_tried_once_more(
    project: Project, relay: Relay, containers: Containers
) -> None:
    write(project, containers.mark, "once", "twice", "last")

    def restart(test: str) -> None:
        container = awaited(lambda: containers.next(test))
        relay.close()
        containers.client.api.kill(container)
        time.sleep(1.5)
        relay.open()

    with run(project, relay) as process:
        for test in ("once", "twice", "twice"):
            restart(test)
        text, _ = process.communicate(timeout=120)
    assert process.returncode == 3, text
    rows = {row["test_id"]: row for row in map(json.loads, (project.output / "index.jsonl").open())}
    assert (rows["once"]["execution_status"], rows["once"]["attempts"]) == ("ok", 2)
    (note,) = rows["once"]["notes"]
    assert note.startswith("attempt 1 failed and was followed by another one: engine_restarted: ")
    twice = rows["twice"]
    assert (twice["fault"], twice["execution_status"], twice["attempts"]) == (
        "engine_restarted",
        "execution_error",
        2,
    )
    assert rows["last"]["execution_status"] == "ok"
    assert containers.next("once") is containers.next("twice") is None


def test_a_lost_engine_ends_the_run_and_the_same_command_goes_on(
    project: Project, relay: Relay, containers: Containers, engine: DockerEngine
) -> None:
    write(project, containers.mark, "first", "second", "third")
    with run(project, relay) as process:
        awaited(lambda: containers.next("second"))
        relay.close()
        text, _ = process.communicate(timeout=150)
    assert process.returncode == 3, text
    assert "fault: engine_lost" in text.splitlines()[-1]
    assert json.loads((project.output / "run.json").read_text())["ended"] == "engine_lost"
    (line,) = (project.output / "index.jsonl").read_text().splitlines()
    assert json.loads(line)["test_id"] == "first"
    relay.open()
    timer = threading.Timer(120, relay.close)
    timer.start()
    with run(project, relay, "--resume") as process:
        text, _ = process.communicate(timeout=150)
    timer.cancel()
    assert process.returncode == 0, text
    lines = (project.output / "index.jsonl").read_text().splitlines()
    assert lines[0] == line and len(lines) == 3
    left = [
        row["Id"] for row in containers.client.api.containers(all=True) if containers.mark in row["Command"]
    ]
    assert left == []


def test_an_image_that_cannot_be_built_is_named(project: Project) -> None:
    write(project, "mark", "t")
    suite = project.folder / "s.eval.yaml"
    suite.write_text(
        suite.read_text().replace("tests:", "workspace: {docker: {dockerfile: Dockerfile}}\ntests:")
    )
    project.write({"Dockerfile": 'FROM scratch\nRUN ["/nothing-of-this-name"]\n'})
    done = project.run("s.eval.yaml")
    assert done.code == 3, done.stdout + done.stderr
    assert "does not build" in done.stderr and "fault: build_failed" in done.stderr.splitlines()[-1]
    assert not project.output.exists()
