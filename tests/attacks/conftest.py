"""One run of the attacks for the whole folder, a guard around it, and the figures at the end.

Each attack has a naive twin here, which must succeed in a container without our controls: an attack that never
works proves nothing. Where this machine's kernel stops the twin too, that is counted apart.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from agentv_sandbox.base.errors import SandboxError
from agentv_sandbox.containers.sandbox import Sandbox
from agentv_sandbox.engines import LABEL_OWNER, LABEL_RUN, ContainerEngine
from agentv_sandbox.engines.owner import Owner
from agentv_sandbox.engines.table import CHOICE, answering_engines
from agentv_sandbox.machine.selfcheck import Report, selfcheck
from tests.harness.processes import MARK

TWINS: Counter[str] = Counter()
"""``fires``, ``blocked by the kernel``: filled by the twins' tests."""
FIGURES: list[str] = []

SANDBOX_UIDS = range(200_000, 265_001)


@pytest.fixture(scope="session")
def naive() -> Iterator[docker.DockerClient]:
    """The engine without us in between, for containers with the controls left out."""
    client = docker.from_env()
    yield client
    client.close()


@pytest.fixture(scope="session")
def report(engine: ContainerEngine, tool_image: str, host_guard: None) -> Report:
    with Sandbox(engine, tool_image=tool_image) as box:
        found = selfcheck(box, image=tool_image)
    FIGURES.extend(found.lines())
    return found


@pytest.fixture(scope="session", autouse=True)
def host_guard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Canary files, environment, and whatever a sandbox user could have left: before and after everything."""
    canaries = tmp_path_factory.mktemp("canaries")
    for number in range(5):
        (canaries / f"canary-{number}").write_bytes(os.urandom(64))
    os.environ["AGENTV_CANARY"] = "unchanged"
    folders = (canaries, Path("/etc"), Path("/usr/local/bin"), Path(__file__).parents[2] / "agentv_sandbox")
    before = [_manifest(folder) for folder in folders]
    environment = dict(os.environ)
    yield
    after = [_manifest(folder) for folder in folders]
    for folder, old, new in zip(folders, before, after, strict=True):
        foreign = [path for path in new if path not in old and _owner(path) in SANDBOX_UIDS]
        assert not foreign, f"left in {folder}: {foreign}"
    assert before[0] == after[0], "a canary changed"
    own = ("PYTEST_CURRENT_TEST", MARK, CHOICE)  # of the tests themselves
    assert {k: v for k, v in os.environ.items() if k not in own} == {
        k: v for k, v in environment.items() if k not in own
    }
    _nobody_left()


def _manifest(folder: Path) -> dict[Path, str]:
    found = {}
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            try:
                found[path] = hashlib.sha256(path.read_bytes()).hexdigest()
            except OSError:
                continue
    return found


def _owner(path: Path) -> int:
    try:
        return path.lstat().st_uid
    except OSError:
        return 0


def _nobody_left() -> None:
    """No container of this process, and no process of a sandbox user outside of the containers that run."""
    me = str(Owner.current())
    left: list[object] = []
    for _ in range(20):
        # Others' containers may run on another engine.
        engines = [
            each for each in answering_engines(os.environ).values() if not isinstance(each, SandboxError)
        ]
        objects = [obj for each in engines for obj in each.owned({LABEL_RUN: None})]
        running = [obj.id for obj in objects if obj.kind == "container"]
        left = [obj.name for obj in objects if obj.labels.get(LABEL_OWNER) == me]
        for pid in Path("/proc").iterdir():
            if (
                pid.name.isdigit()
                and _owner(pid) in SANDBOX_UIDS
                and not any(id_ in _cgroup(pid) for id_ in running)
            ):
                left.append(pid)
        if not left:
            return
        time.sleep(0.25)  # the last ones end a moment after their container
    raise AssertionError(f"left behind: {left}")


def _cgroup(pid: Path) -> str:
    try:
        return (pid / "cgroup").read_text()
    except OSError:
        return ""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if FIGURES:
        terminalreporter.section("isolation")
        for line in FIGURES:
            terminalreporter.write_line(line)
        terminalreporter.write_line(
            "naive twins: " + ", ".join(f"{count} {what}" for what, count in TWINS.items())
        )
