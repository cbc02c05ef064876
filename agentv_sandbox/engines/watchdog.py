"""Removes containers and volumes of a process that dies without doing so (SIGKILL, power cut of the terminal): those of
its run, and those of images that it was making. A child in a session of its own holds one end of a pipe; end-of-file
means that the process is gone.
"""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import IO

from agentv_sandbox.base import hostprograms
from agentv_sandbox.engines.owner import Owner

SWEEPING = "AGENTV_SANDBOX_SWEEPING"
"""Variable that the sweeper sets for itself: nobody sweeps after it."""


def command(owner: str, run_id: str, address: str) -> list[str]:
    """The child's command line."""
    reaper = str(Path(__file__).with_name("reaper.py"))
    return [*hostprograms.PYTHON, reaper, *sweeper_command(owner, run_id, address)]


def sweeper_command(owner: str, run_id: str, address: str) -> list[str]:
    """The command line of what removes the objects of a dead process; empty in the process that does so."""
    if SWEEPING in os.environ:
        return []
    # -P: what lies in the working directory, which may be a stranger's project, is not one of our modules.
    return [
        *hostprograms.PYTHON_WITH_PACKAGES,
        "-m",
        "agentv_sandbox.runs.sweeper",
        owner,
        run_id,
        address,
    ]


class Watchdog:
    """Started once a command. ``stop`` after a clean end lets it go without a sweep; as a context manager it stops by
    itself."""

    def __init__(self, address: str, run_id: str = "", owner: str = "") -> None:
        """``address``: empty where there is no engine. ``owner``: whose objects are removed; this process's by default.
        ``run_id``: the run of which also goes what
        was to be kept; that of others stays."""
        self._process = hostprograms.start(
            hostprograms.WATCHDOG,
            command(owner or str(Owner.current()), run_id, address),
            stdin=subprocess.PIPE,
        )

    def __enter__(self) -> Watchdog:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        stdin: IO[bytes] | None = self._process.stdin
        with suppress(OSError):
            if stdin is not None:
                stdin.write(b"done\n")
                stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
