"""The process that cleans up after an orchestrator that could not: on the real engine."""

from __future__ import annotations

import secrets
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentv_sandbox.engines import LABEL_KEEP, LABEL_OWNER, LABEL_RUN
from agentv_sandbox.engines.docker.engine import DockerEngine
from agentv_sandbox.engines.watchdog import Watchdog, command
from agentv_sandbox.models.container import VolumeSpec
from tests.unix import short_folder

pytestmark = [pytest.mark.engine, pytest.mark.docker]


@pytest.fixture
def run_id(engine: DockerEngine) -> Iterator[str]:
    made = secrets.token_hex(8)
    yield made
    for obj in engine.owned({LABEL_RUN: made}):
        engine.destroy(obj)


def owner_of(run_id: str) -> str:
    """A process that nobody else is."""
    return f"{run_id}:1:1"


def make(engine: DockerEngine, run_id: str, name: str = "a") -> None:
    engine.create_volume(
        f"agentv-{run_id}-{name}",
        VolumeSpec(disk=True),
        labels={LABEL_RUN: run_id, LABEL_OWNER: owner_of(run_id)},
    )


def wait_for(condition: Callable[[], bool], seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.fixture
def reaper() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []

    def start(run_id: str, address: str, cwd: Path | None = None) -> subprocess.Popen[bytes]:
        argv = command(owner_of(run_id), run_id, address)
        started.append(subprocess.Popen(argv, cwd=cwd, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def listening(process: subprocess.Popen[bytes]) -> None:
    """Wait until it ignores the last of the signals that it does."""

    def ignores() -> bool:
        said = Path(f"/proc/{process.pid}/status").read_text().partition("\nSigIgn:")[2].split()[0]
        return bool(int(said, 16) >> (signal.SIGHUP - 1) & 1)

    wait_for(ignores, seconds=30)


def hang_up(process: subprocess.Popen[bytes]) -> None:
    """As the end of its parent does."""
    assert process.stdin is not None
    process.stdin.close()


def test_a_run_that_ended_well_keeps_what_it_meant_to_keep(engine: DockerEngine, run_id: str) -> None:
    dog = Watchdog(engine.address, run_id, owner_of(run_id))
    make(engine, run_id)
    dog.stop()
    assert dog._process.returncode == 0
    time.sleep(1)
    assert len(engine.owned({LABEL_RUN: run_id})) == 1


def test_no_module_of_the_working_directory_is_executed(
    engine: DockerEngine, run_id: str, reaper: Callable[..., subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    """A run may be killed in a stranger's project."""
    (tmp_path / "json.py").write_text("open('executed', 'w')")
    make(engine, run_id)
    hang_up(reaper(run_id, engine.address, tmp_path))
    wait_for(lambda: not engine.owned({LABEL_RUN: run_id}), seconds=15)
    assert not (tmp_path / "executed").exists()


def test_what_appears_a_moment_after_the_end_goes_too(
    engine: DockerEngine, run_id: str, reaper: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """The engine was still making it when the orchestrator died."""
    make(engine, run_id, "first")
    hang_up(reaper(run_id, engine.address))
    wait_for(lambda: not engine.owned({LABEL_RUN: run_id}), seconds=15)
    make(engine, run_id, "late")
    wait_for(lambda: not engine.owned({LABEL_RUN: run_id}), seconds=15)


def test_an_engine_that_does_not_answer_is_asked_again(
    engine: DockerEngine, run_id: str, reaper: Callable[..., subprocess.Popen[bytes]]
) -> None:
    socket = Path(engine.address.removeprefix("unix://"))
    if not socket.is_socket():
        pytest.fail(f"this test needs an engine behind a socket, not {engine.address}")
    make(engine, run_id)
    with short_folder() as folder:
        later = folder / "later.sock"
        process = reaper(run_id, f"unix://{later}")
        listening(process)
        hang_up(process)
        time.sleep(2.5)
        later.symlink_to(socket)
        wait_for(lambda: not engine.owned({LABEL_RUN: run_id}), seconds=15)


def test_signals_that_end_a_terminals_programs_do_not_end_it(
    engine: DockerEngine, run_id: str, reaper: Callable[..., subprocess.Popen[bytes]]
) -> None:
    make(engine, run_id)
    process = reaper(run_id, engine.address)
    listening(process)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        process.send_signal(number)
    time.sleep(0.2)
    assert process.poll() is None
    assert len(engine.owned({LABEL_RUN: run_id})) == 1
    hang_up(process)
    wait_for(lambda: not engine.owned({LABEL_RUN: run_id}), seconds=15)


def test_what_an_earlier_run_of_the_process_kept_stays(
    engine: DockerEngine, run_id: str, reaper: Callable[..., subprocess.Popen[bytes]]
) -> None:
    """A workspace for somebody to look into, of a run that ended well, and one of the run that was killed."""
    before = f"{run_id[:-4]}feed"
    try:
        for run, name in ((before, "kept"), (run_id, "mine")):
            labels = {LABEL_RUN: run, LABEL_OWNER: owner_of(run_id), LABEL_KEEP: "1"}
            engine.create_volume(f"agentv-{run}-{name}", VolumeSpec(disk=True), labels=labels)
        make(engine, before, "left")
        hang_up(reaper(run_id, engine.address))
        wait_for(lambda: not engine.owned({LABEL_RUN: run_id}), seconds=15)
        assert sorted(obj.name for obj in engine.owned({LABEL_RUN: before})) == [
            f"agentv-{before}-kept",
            f"agentv-{before}-left",  # another process's
        ]
    finally:
        for obj in engine.owned({LABEL_RUN: before}):
            engine.destroy(obj)
