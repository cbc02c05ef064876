"""The control groups of one container: what the kernel did to it for memory, and how all of it is ended."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from agentv_sandbox.kernel.namespaceentry import CONTROLLERS, GROUP_VARIABLE

ROOT = Path("/sys/fs/cgroup")
FAMILY = "agentv-sandbox"
"""The group of ours in which every engine, and in that every container, has its own."""
_SCOPES = "*.scope"
"""What systemd calls a group that it makes for one command, as it does for each of a user who is not root."""
_PATIENCE_S = 5.0


@cache
def version() -> int:
    """2 for the unified hierarchy, 1 for one a controller."""
    return 2 if (ROOT / "cgroup.controllers").is_file() else 1


@cache
def _base() -> str:
    """Below each hierarchy's root, the group in which ours are made: the root itself, or one that is the user's."""
    return os.environ.get(GROUP_VARIABLE, "").strip("/")


@cache
def _hierarchies() -> tuple[Path, ...]:
    """Where a group has a folder: the unified hierarchy, or each of version 1 (links name the same one twice)."""
    if version() == 2:
        return (ROOT,)
    folders = [entry for entry in ROOT.iterdir() if entry.is_dir() and not entry.is_symlink()]
    return tuple(folder for folder in folders if (folder / "cgroup.procs").is_file())


def missing_controllers() -> tuple[str, ...]:
    """Those that this process cannot use for limits."""
    if version() == 2:
        there = (ROOT / _base() / "cgroup.controllers").read_text().split()
        return tuple(name for name in CONTROLLERS if name not in there)
    return tuple(name for name in CONTROLLERS if not (ROOT / name / _base() / "cgroup.procs").is_file())


def is_writable() -> bool:
    """Whether groups can be made."""
    folder = (ROOT if version() == 2 else ROOT / CONTROLLERS[0]) / _base()
    return os.access(folder, os.W_OK) and not os.statvfs(folder).f_flag & os.ST_RDONLY


def limits_swap() -> bool:
    """Whether swap space counts towards the limit of memory."""
    return version() == 2 or (ROOT / "memory" / "memory.memsw.limit_in_bytes").is_file()


class Group:
    """The control groups of the container ``name``, one in each hierarchy. ``engine`` tells containers of several state
    folders apart."""

    def __init__(self, engine: str, name: str) -> None:
        self._engine, self._name = engine, name
        self.path = f"{_base() and '/'}{_base()}/{FAMILY}/{engine}/{name}"
        """As the runtime wants it: below the root of each hierarchy."""

    def _folder(self, hierarchy: Path) -> Path:
        """Where it is, or would be made. Another command of the same user may have made it in a group of its own."""
        own = hierarchy / self.path[1:]
        if _base() and not own.is_dir():
            for place in _places(hierarchy, self._engine):
                if (place / self._name).is_dir():
                    return place / self._name
        return own

    def _folders(self) -> Iterator[Path]:
        return (folder for folder in map(self._folder, _hierarchies()) if folder.is_dir())

    def memory_kills(self) -> int:
        """How many of its processes the kernel ended because its memory was used up."""
        return self._count("memory", "memory.events" if version() == 2 else "memory.oom_control", "oom_kill")

    def refused_processes(self) -> int:
        """How often it was to have one process more than it may."""
        return self._count("pids", "pids.events", "max")

    def _count(self, controller: str, name: str, event: str) -> int:
        folder = self._folder(ROOT if version() == 2 else ROOT / controller)
        try:
            counts = dict(line.split() for line in (folder / name).read_text().splitlines())
        except OSError:
            return 0
        return int(counts.get(event, 0))

    def kill(self) -> None:
        """End every process of it: none can be born meanwhile."""
        if version() == 2:
            with suppress(OSError):
                (self._folder(ROOT) / "cgroup.kill").write_text("1")
                return
        self._freeze("FROZEN")
        for number in self._processes():
            with suppress(OSError):
                os.kill(number, signal.SIGKILL)
        self._freeze("THAWED")

    def _freeze(self, state: str) -> None:
        hierarchy, name, value = ROOT / "freezer", "freezer.state", state
        if version() == 2:
            hierarchy, name, value = ROOT, "cgroup.freeze", "1" if state == "FROZEN" else "0"
        with suppress(OSError):
            (self._folder(hierarchy) / name).write_text(value)

    def _processes(self) -> set[int]:
        found: set[int] = set()
        for folder in self._folders():
            with suppress(OSError):
                found |= {int(line) for line in (folder / "cgroup.procs").read_text().split()}
        return found

    def remove(self) -> None:
        """End what is left in it, and remove it. Raises OSError when processes do not end in some seconds."""
        deadline = time.monotonic() + _PATIENCE_S
        for folder in self._folders():
            while True:
                try:
                    folder.rmdir()
                    break
                except FileNotFoundError:
                    break
                except OSError:  # groups below, or a process that has ended is still being cleared away
                    if time.monotonic() > deadline:
                        raise
                    self.kill()
                    _remove_below(folder)
                    time.sleep(0.002)


def _remove_below(folder: Path) -> None:
    """A container may make no groups, a runtime may. Looked at when it must be: to list a group costs as much as to
    make it."""
    with suppress(OSError):
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                _remove_below(Path(entry.path))
                Path(entry.path).rmdir()


def group_names(engine: str) -> list[str]:
    """Names of all containers of ``engine`` that have a control group."""
    names: set[str] = set()
    for hierarchy in _hierarchies():
        for place in _places(hierarchy, engine):
            with suppress(OSError):
                names |= {entry.name for entry in os.scandir(place) if entry.is_dir()}
    return sorted(names)


def _places(hierarchy: Path, engine: str) -> Iterator[Path]:
    """Where groups of the engine's containers may be: in this command's own group, and in those of others beside."""
    own = hierarchy / _base()
    yield own / FAMILY / engine
    if _base().endswith(_SCOPES[1:]):
        yield from own.parent.glob(f"{_SCOPES}/{FAMILY}/{engine}")
