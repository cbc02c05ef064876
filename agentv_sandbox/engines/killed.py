"""Whether a container's program was ended from outside: ``docker kill``, a SIGKILL on the host.

An exit code does not say so, since every program can return 137. That a container's first process died of SIGKILL does:
it is our timer, and no process inside of a container can kill its first one. Where somebody picks an agent's own
process on the host, that looks like a kill from inside, and is put down to the agent.
"""

from __future__ import annotations

import fcntl
import os
import signal
import struct
from collections.abc import Callable
from contextlib import suppress

KILLED = 137
"""128 + SIGKILL: what the kernel leaves, and what a program can return."""
_GET_INFO = 0xC040FF0B
"""``PIDFD_GET_INFO`` with the first form of its record."""
_INFO = struct.Struct("=Q52xi")
_EXIT = 1 << 3
"""Asks for the exit status of a process that is gone; of Linux 6.15 and later."""


class Watched:
    """A process by a descriptor, so that its end can be looked up when it is gone. Close it."""

    def __init__(self, pid: Callable[[], int]) -> None:
        """``pid`` may raise OSError or ValueError: then nothing is known."""
        self._descriptor = -1
        with suppress(OSError, ValueError):
            self._descriptor = os.pidfd_open(pid())

    @property
    def killed(self) -> bool:
        """Whether it died of SIGKILL; False where the kernel does not say how it ended."""
        record = bytearray(_INFO.pack(_EXIT, 0))
        try:
            fcntl.ioctl(self._descriptor, _GET_INFO, record)
        except (OSError, ValueError):
            return False
        answered, status = _INFO.unpack(record)
        return bool(answered & _EXIT) and os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
