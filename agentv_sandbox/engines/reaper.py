"""``python -m agentv_sandbox.engines.reaper RUN_ID ADDRESS``: the watchdog's child process."""

from __future__ import annotations

import signal
import sys
import time
from contextlib import suppress

from agentv_sandbox.engines import LABEL_RUN
from agentv_sandbox.engines.table import engine_at
from agentv_sandbox.errors import SandboxError


def main(run_id: str, address: str) -> None:
    """Wait for the parent; unless it said that it is done, remove everything that carries its run id."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if sys.stdin.buffer.read():
        return
    # A container that was being created when the parent died appears a moment later: look more than once.
    for pause in (0.0, 1.0, 4.0):
        time.sleep(pause)
        try:
            engine = engine_at(address)
            for obj in engine.owned({LABEL_RUN: run_id}):
                with suppress(SandboxError):  # the others go; this one is tried again
                    engine.destroy(obj)
        except SandboxError:
            continue


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
