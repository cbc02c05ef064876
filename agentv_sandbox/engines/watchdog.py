"""Removes a run's containers and volumes when the orchestrator dies without doing so (SIGKILL, power cut of
the terminal). A child in a session of its own holds one end of a pipe; end-of-file means that the run is over.
"""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from typing import IO


class Watchdog:
    """Started once a run. ``stop`` after a clean end lets it go without a sweep."""

    def __init__(self, run_id: str, address: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "agentv_sandbox.engines.reaper", run_id, address],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def stop(self) -> None:
        stdin: IO[bytes] | None = self._process.stdin
        with suppress(OSError):
            if stdin is not None:
                stdin.write(b"done\n")
                stdin.close()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
