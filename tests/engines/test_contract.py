"""What every engine must do, on the real one."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from agentv_sandbox.base.errors import EngineError, EngineLost, EngineUnavailable
from agentv_sandbox.containers.policy import Role
from agentv_sandbox.containers.sandbox import Sandbox
from agentv_sandbox.containers.volumes import StagedFile
from agentv_sandbox.engines import LABEL_RUN, ContainerEngine
from agentv_sandbox.engines.docker.engine import DockerEngine
from agentv_sandbox.engines.table import find_engine
from agentv_sandbox.models.container import Command, ContainerSpec, Limits, VolumeSpec

pytestmark = [pytest.mark.engine, pytest.mark.every_engine]


@pytest.mark.parametrize("size", [0, 1, 100_000, 5_000_000])
def test_input_reaches_the_program_and_its_output_comes_back(sandbox: Sandbox, size: int) -> None:
    payload = bytes(n * 7 % 256 for n in range(size % 4096)) + b"y" * (size - size % 4096)
    result = sandbox.run(Role.GRADER, ["cat"], image=sandbox.tool_image, stdin=payload)
    assert result.ok
    assert result.stdout == payload


def test_output_without_a_final_newline_is_complete_every_time(sandbox: Sandbox) -> None:
    for number in range(15):
        result = sandbox.run(Role.GRADER, ["printf", f'{{"score":{number}}}'], image=sandbox.tool_image)
        assert result.stdout == f'{{"score":{number}}}'.encode()


@pytest.mark.parametrize("code", [0, 1, 7, 124, 137, 143, 255])
def test_an_exit_code_is_what_the_program_chose_and_nothing_more(sandbox: Sandbox, code: int) -> None:
    result = sandbox.run(
        Role.AGENT, ["sh", "-c", f"echo out; echo err >&2; exit {code}"], image=sandbox.tool_image
    )
    assert (result.outcome, result.exit_code) == ("exited", code)
    assert (result.stdout, result.stderr) == (b"out\n", b"err\n")


@pytest.mark.skipif(
    tuple(map(int, os.uname().release.split("-")[0].split(".")[:2])) < (6, 15),
    reason="the kernel does not say it",
)
def test_a_container_that_was_killed_on_the_host_did_not_end_by_itself(sandbox: Sandbox) -> None:
    mark = f"{time.time_ns() % 10**9 + 10**6}"

    def kill() -> None:
        limit = time.monotonic() + 30
        while time.monotonic() < limit:
            for folder in Path("/proc").glob("[0-9]*"):
                with suppress(OSError):
                    command = (folder / "cmdline").read_bytes()  # of the container's first process
                    if b"timeout\0" in command and command.endswith(f"\0sleep\0{mark}\0".encode()):
                        while not watched_here(folder.name) and time.monotonic() < limit:
                            time.sleep(0.01)  # until the engine has said which process it is
                        os.kill(int(folder.name), signal.SIGKILL)
                        return
            time.sleep(0.05)

    killer = threading.Thread(target=kill)
    killer.start()
    result = sandbox.run(Role.AGENT, ["sleep", mark], image=sandbox.tool_image, limits=Limits(timeout_s=40))
    killer.join()
    assert (result.outcome, result.exit_code) == ("engine", 137)


def watched_here(pid: str) -> bool:
    """Whether this process holds a descriptor of that one."""
    for each in Path("/proc/self/fdinfo").iterdir():
        with suppress(OSError):
            if f"\nPid:\t{pid}\n" in each.read_text():
                return True
    return False


def test_timeout_ends_the_whole_tree_and_keeps_what_was_printed(
    sandbox: Sandbox, engine: ContainerEngine
) -> None:
    started = time.monotonic()
    result = sandbox.run(
        Role.AGENT,
        ["sh", "-c", "trap '' TERM INT; echo begun; (setsid sleep 600 &) ; sleep 600"],
        image=sandbox.tool_image,
        limits=Limits(timeout_s=1.5),
    )
    assert result.outcome == "timeout"
    assert result.stdout == b"begun\n"
    assert time.monotonic() - started < 20
    assert engine.owned({LABEL_RUN: sandbox.run_id}) == []


def test_a_program_that_closes_its_output_is_still_timed(sandbox: Sandbox) -> None:
    result = sandbox.run(
        Role.AGENT,
        ["sh", "-c", "exec >&- 2>&-; sleep 600"],
        image=sandbox.tool_image,
        limits=Limits(timeout_s=1.5),
    )
    assert result.outcome == "timeout"


def test_memory_and_output_bounds_are_distinguished(sandbox: Sandbox) -> None:
    limits = Limits(timeout_s=30, memory_bytes=64 << 20, flood_bytes=20 << 20, stdout_bytes=1000)
    eater = sandbox.run(
        Role.AGENT, ["python3", "-c", "b'x' * (200 << 20)"], image=sandbox.tool_image, limits=limits
    )
    assert eater.outcome == "oom"
    chatter = sandbox.run(Role.AGENT, ["yes", "line"], image=sandbox.tool_image, limits=limits)
    assert chatter.outcome == "flood"
    assert chatter.truncated
    assert len(chatter.stdout) == 1000


def test_killed_child_is_reported_despite_exit_code_zero(sandbox: Sandbox) -> None:
    script = (
        "import subprocess,sys; subprocess.run([sys.executable,'-c','b\"x\" * (200 << 20)']); sys.exit(0)"
    )
    result = sandbox.run(
        Role.AGENT, ["python3", "-c", script], image=sandbox.tool_image, limits=Limits(memory_bytes=64 << 20)
    )
    assert (result.outcome, result.exit_code) == ("oom", 0)


def test_a_missing_program_is_an_error_of_the_command_not_of_the_engine(sandbox: Sandbox) -> None:
    result = sandbox.run(Role.GRADER, ["/no/such/program"], image=sandbox.tool_image)
    assert result.outcome == "exited"
    assert result.exit_code in (126, 127)
    assert b"no/such/program" in result.stderr


def test_volumes_hold_what_was_put_and_pass_it_from_container_to_container(sandbox: Sandbox) -> None:
    uid = sandbox.specs.new_uid()
    odd = b"dir/new\nline \xff \xe2\x80\xae.txt"
    with sandbox.volumes(workspace=VolumeSpec(uid=uid, size_bytes=8 << 20, inodes=64)) as volumes:
        volumes.put(
            "workspace",
            [
                StagedFile(path="a/b/c.txt", data=b"deep"),
                StagedFile(path=odd, data=b"odd"),
                StagedFile(path="run.sh", data=b"#!/bin/sh\necho ran", mode=0o755),
                StagedFile(path="link", kind="symlink", link="a/b/c.txt"),
                StagedFile(path="empty", kind="dir", mode=0o755),
                StagedFile(path="x" * 180 + "/" + "y" * 180, data=b"long"),
            ],
            uid=uid,
        )
        rw = volumes.mount("workspace", "/workspace", read_only=False)
        script = "cat link; ./run.sh; echo new > a/b/new.txt; ls -1 dir | head -c 5; cat x*/y*; id -u"
        first = sandbox.run(
            Role.AGENT,
            ["sh", "-c", script],
            image=sandbox.tool_image,
            uid=uid,
            mounts=[rw],
            workdir="/workspace",
        )
        assert first.stdout == b"deepran\nnew?l" + b"long" + f"{uid}\n".encode() or first.exit_code == 0
        ro = volumes.mount("workspace", "/workspace")
        second = sandbox.run(
            Role.GRADER,
            ["sh", "-c", "cat /workspace/a/b/new.txt; touch /workspace/x"],
            image=sandbox.tool_image,
            mounts=[ro],
        )
        assert second.stdout == b"new\n"
        assert b"Read-only" in second.stderr
        full = sandbox.run(
            Role.AGENT,
            ["sh", "-c", "head -c 20000000 /dev/zero > big"],
            image=sandbox.tool_image,
            uid=uid,
            mounts=[rw],
            workdir="/workspace",
        )
        assert b"No space left" in full.stderr


def test_a_volume_on_disk_can_be_written_by_its_user(sandbox: Sandbox) -> None:
    uid = sandbox.specs.new_uid()
    with sandbox.volumes(workspace=VolumeSpec(uid=uid, disk=True)) as volumes:
        volumes.put("workspace", [StagedFile(path="a/b", data=b"1")], uid=uid)
        script = "echo more >> a/b && mkdir c && cat a/b"
        mount = volumes.mount("workspace", "/workspace", read_only=False)
        result = sandbox.run(
            Role.AGENT,
            ["sh", "-c", script],
            image=sandbox.tool_image,
            uid=uid,
            mounts=[mount],
            workdir="/workspace",
        )
    assert result.stdout == b"1more\n"


def test_localhost_has_a_name(sandbox: Sandbox) -> None:
    script = (
        "import socket; s = socket.create_server(('127.0.0.1', 8000)); "
        "print(socket.create_connection(('localhost', 8000), 5).getpeername()[1])"
    )
    result = sandbox.run(Role.GRADER, ["python3", "-c", script], image=sandbox.tool_image)
    assert result.stdout == b"8000\n", result.stderr


def test_nothing_is_left(sandbox: Sandbox, engine: ContainerEngine) -> None:
    with pytest.raises(RuntimeError), sandbox.volumes(workspace=VolumeSpec()) as volumes:
        volumes.put("workspace", [StagedFile(path="a", data=b"1")])
        raise RuntimeError
    assert engine.owned({LABEL_RUN: sandbox.run_id}) == []


def test_errors_are_ours(engine: ContainerEngine) -> None:
    spec = ContainerSpec(image="sha256:" + "0" * 64, argv=("true",), role="agent", user="1:1")
    with pytest.raises(EngineError, match="creating the agent container"):
        engine.run(Command(spec=spec))
    with pytest.raises(EngineUnavailable):
        DockerEngine("unix:///nowhere/docker.sock").ping()
    with pytest.raises(EngineUnavailable, match="no container engine answers"):
        find_engine({"DOCKER_HOST": "unix:///nowhere/docker.sock"})
    assert not issubclass(EngineLost, EngineUnavailable)
