"""The process that makes user namespaces, which is a second watchdog."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentv_sandbox.kernel.ids import container_ids
from agentv_sandbox.kernel.namespaces import UserNamespaces

pytestmark = [pytest.mark.engine, pytest.mark.native]

KILLED = """
import os, sys
from agentv_sandbox.kernel.ids import container_ids
from agentv_sandbox.kernel.namespaces import UserNamespaces
made = UserNamespaces(container_ids(), ["/usr/bin/touch", sys.argv[1]])
os.close(made.new())
os.kill(os.getpid(), int(sys.argv[2]))
"""


def made(mark: Path) -> UserNamespaces:
    """One whose helper has an answer under way that nobody has taken."""
    namespaces = UserNamespaces(container_ids(), ["/usr/bin/touch", str(mark)])
    os.close(namespaces.new())
    return namespaces


def test_nothing_is_swept_when_it_was_said_that_all_is_done(tmp_path: Path) -> None:
    namespaces = made(tmp_path / "swept")
    helper = namespaces._helper
    assert helper is not None
    begun = time.monotonic()
    namespaces.close()
    assert helper.returncode == 0
    assert time.monotonic() - begun < 1, "it knew, and did not wait"
    os.close(namespaces.new())  # begins another one
    namespaces.close()
    assert not (tmp_path / "swept").exists()


def test_nothing_is_swept_of_a_process_that_lives(tmp_path: Path) -> None:
    namespaces = made(tmp_path / "swept")
    helper, link = namespaces._helper, namespaces._link
    assert helper is not None
    assert link is not None
    link.close()
    assert helper.wait(30) == 0
    assert not (tmp_path / "swept").exists()
    namespaces.close()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_what_a_process_leaves_that_is_killed_is_swept(number: signal.Signals, tmp_path: Path) -> None:
    mark = tmp_path / "swept"
    done = subprocess.run([sys.executable, "-P", "-c", KILLED, str(mark), str(int(number))], check=False)
    assert done.returncode == -number
    until = time.monotonic() + 30
    while not mark.exists():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_process_that_ends_by_itself_says_so(tmp_path: Path) -> None:
    mark = tmp_path / "swept"
    subprocess.run([sys.executable, "-P", "-c", KILLED, str(mark), "0"], check=True)
    time.sleep(1.5)
    assert not mark.exists()
