"""Private folders of a killed process go within seconds, not with the next run; those of living ones stay."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agentv_sandbox.engines.watchdog import command

_RUN = """
import os, socket, time
from pathlib import Path
from agentv_sandbox.egress.relay import SOCKET
from agentv_sandbox.engines.bindcheck import SHARED, SHARED_PREFIX
from agentv_sandbox.base.ownership import temporary_folder
from agentv_sandbox.base.scratch import scratch_folder

shared = temporary_folder() / f"{SHARED_PREFIX}{os.getpid()}-test"
shared.mkdir(mode=0o700)
(shared / SHARED).mkdir()
listener = socket.socket(socket.AF_UNIX)
os.chdir(shared / SHARED)
listener.bind(SOCKET)
listener.listen()
os.chdir("/")
with scratch_folder() as scratch:
    (scratch / "clone").write_bytes(b"x")
    print(scratch, shared, sep="\\n", flush=True)
    time.sleep(600)
"""


def start(folder: Path) -> tuple[subprocess.Popen[str], list[Path]]:
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _RUN],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(folder)},
    )
    assert process.stdout is not None
    with process.stdout as output:
        return process, [Path(output.readline().strip()) for _ in range(2)]


@pytest.mark.slow
def test_the_folders_of_a_killed_run_go_and_those_of_others_stay(tmp_path: Path) -> None:
    killed, of_killed = start(tmp_path)
    living, of_living = start(tmp_path)
    try:
        assert all(folder.is_dir() for folder in (*of_killed, *of_living))
        killed.kill()
        killed.wait()
        reaper = command("nobody:1:1", "", "native:///nowhere/at/all")
        environ = {**os.environ, "TMPDIR": str(tmp_path)}
        subprocess.run(reaper, stdin=subprocess.DEVNULL, env=environ, timeout=100, check=True)
        assert not any(folder.exists() for folder in of_killed)
        assert all(folder.is_dir() for folder in of_living)
        assert (of_living[0] / "clone").read_bytes() == b"x"
    finally:
        for process in (killed, living):
            process.kill()
            process.wait()
