"""Attacks of another user with a shell on a container that runs, on each kind of engine."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agentv_sandbox.containers.policy import Role
from agentv_sandbox.containers.sandbox import Sandbox
from agentv_sandbox.containers.volumes import StagedFile
from agentv_sandbox.engines import ContainerEngine
from agentv_sandbox.engines.native.engine import NativeEngine
from agentv_sandbox.models.container import VolumeSpec
from tests.strangers import stranger
from tests.strangers.stranger import as_stranger

pytestmark = [pytest.mark.engine, pytest.mark.every_engine, pytest.mark.xdist_group("strangers-and-engines")]

DENIED = {"PermissionError", "Operation not permitted", "Permission denied"}


@dataclass(frozen=True)
class Running:
    pid: int
    """Of the container's program, as this machine counts."""
    workspace: str
    """The name of a volume with a file."""


@pytest.fixture(scope="module")
def running(engine: ContainerEngine, tool_image: str) -> Iterator[Running]:
    """A container with a workspace, a key in its environment and a secret file, until the tests are through."""
    mark = f"{os.getpid()}.{time.monotonic_ns()}"
    with Sandbox(engine, tool_image=tool_image) as box:
        uid = box.specs.new_uid()
        with box.volumes(workspace=VolumeSpec(uid=uid, size_bytes=8 << 20, inodes=64)) as volumes:
            volumes.put("workspace", [StagedFile(path="answer", data=b"42")], uid=uid)
            mount = volumes.mount("workspace", "/workspace")
            argv = ["sh", "-c", f"sleep 300; : {mark}"]
            kept = {"env": {"TOKEN": "of the agent"}, "mounts": [mount], "uid": uid}
            thread = threading.Thread(
                target=lambda: box.run(Role.AGENT, argv, image=tool_image, **kept),  # type: ignore[arg-type]
                daemon=True,
            )
            thread.start()
            until = time.monotonic() + 60
            while (pid := _process_with(mark)) is None:
                assert time.monotonic() < until, "the container did not start"
                time.sleep(0.05)
            yield Running(pid, mount.source)
            os.kill(pid, 9)
            thread.join(60)


def _process_with(mark: str) -> int | None:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
            name = (path.parent / "comm").read_text().strip()
        except OSError:
            continue
        if name == "sh" and words[0] == b"sh" and mark.encode() in words[2]:
            return int(path.parent.name)
    return None


PROBES: dict[str, Callable[[int], Any]] = {
    "environ": lambda pid: str(stranger.read_file(f"/proc/{pid}/environ")),
    "memory": lambda pid: str(stranger.read_file(f"/proc/{pid}/mem")),
    "workspace": lambda pid: os.listdir(f"/proc/{pid}/root/workspace"),
    "answer": lambda pid: str(stranger.read_file(f"/proc/{pid}/cwd/answer")),
    "open files": lambda pid: os.listdir(f"/proc/{pid}/fd"),
    "namespaces": lambda pid: os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY),
    "trace": stranger.trace,
    "descriptors": stranger.take_descriptor,
    "end": stranger.end,
}


@pytest.mark.parametrize("probe", PROBES)
def test_a_container_is_looked_into_or_ended(probe: str, running: Running) -> None:
    assert as_stranger(lambda: PROBES[probe](running.pid)) in DENIED
    assert Path(f"/proc/{running.pid}").exists()


def test_its_control_group_is_frozen(running: Running) -> None:
    folders = []
    for line in Path(f"/proc/{running.pid}/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        folders.append(Path("/sys/fs/cgroup", *names.removeprefix("name=").split(",")[:1], path[1:]))
    files = [folder / name for folder in folders for name in ("cgroup.procs", "freezer.state", "cgroup.kill")]
    there = [file for file in files if file.exists()]
    assert there
    for file in there:
        assert as_stranger(lambda file=file: file.write_text("1")) in DENIED


def test_the_folders_of_the_engine_are_read(engine: ContainerEngine, running: Running) -> None:
    if isinstance(engine, NativeEngine):
        folders = [
            engine._places.run,
            engine._places.containers,
            engine._places.memory_volumes,
            engine._places.root,
        ]
    else:
        folders = [
            Path("/var/lib/docker"),
            Path("/var/lib/docker/volumes"),
            Path("/var/lib/docker/containers"),
        ]
    for folder in folders:
        assert as_stranger(lambda folder=folder: os.listdir(folder)) in DENIED
        assert as_stranger(lambda folder=folder: (folder / "x").write_text("")) in DENIED


def test_the_engine_does_what_they_ask(engine: ContainerEngine, running: Running) -> None:
    def ask(path: str) -> str:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
        return "connected"

    if isinstance(engine, NativeEngine):
        assert as_stranger(lambda: os.listdir(engine._places.state)) in DENIED, "there is none to ask"
    else:
        assert as_stranger(lambda: ask(engine.address.removeprefix("unix://"))) in DENIED
