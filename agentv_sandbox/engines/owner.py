"""The process that started a container, identified well enough to check later whether it still lives."""

from __future__ import annotations

import functools
import os
from pathlib import Path

from agentv_sandbox.base.dataclass import dataclass


@dataclass(frozen=True)
class Owner:
    """``boot id/pid namespace:pid:start time in clock ticks``, as it stands in a label."""

    boot: str = ""
    """Numbers of processes mean nothing in another namespace: two orchestrators that run in containers of one
    machine must not take each other for dead."""
    pid: int = 0
    started: int = 0

    @classmethod
    def current(cls) -> Owner:
        pid = os.getpid()
        return cls(_boot_id(), pid, _start_time(pid))

    @classmethod
    def parse(cls, label: str) -> Owner:
        try:
            boot, pid, started = label.split(":")
            return cls(boot, int(pid), int(started))
        except ValueError:
            return cls()

    def __str__(self) -> str:
        return f"{self.boot}:{self.pid}:{self.started}"

    def dead(self) -> bool:
        """True only when it is certain: same boot of the same machine, and the process is gone."""
        if not self.boot or self.boot != _boot_id():
            return False
        return _start_time(self.pid) != self.started

    def alive(self) -> bool:
        """True only when it is certain."""
        return bool(self.boot) and self.boot == _boot_id() and not self.dead()


def _boot_id() -> str:
    return _boot_id_of(os.getpid())


@functools.lru_cache(maxsize=1)
def _boot_id_of(_process: int) -> str:
    """Of one process it stays as it is; one that it forks may be in another namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return ""
    return f"{boot}/{namespace}"


def _start_time(pid: int) -> int:
    """Field 22 of /proc/PID/stat; -1 when there is no such process."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return -1
    return int(stat.rpartition(")")[2].split()[19])
