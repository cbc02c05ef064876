"""Containers of a user who is not root: what that needs, and the way in.

A process of theirs starts anew in a user namespace in which it is root, of their subordinate ids, and in a mount
namespace of its own. There everything is as it is for root: volumes and images are mounted, files get owners, each
container has a namespace within. What that root may do ends at what the user may do. Limits need control groups that
the machine's root has handed over (delegated), which systemd does for every logged-in user.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NoReturn

from agentv_sandbox.base import hostprograms
from agentv_sandbox.kernel import cgroups, namespaceentry
from agentv_sandbox.kernel.ids import IDS
from agentv_sandbox.kernel.layout import FOLDER_VARIABLE

_NAMES_S = 10.0
_UNIT = ("--user", "--scope", "--quiet", "--collect", "--property=Delegate=yes", "--slice=agentv_sandbox")
_DELEGATE = "`sudo systemctl edit user@.service`: [Service], Delegate=cpu memory pids; then log in again"


def is_own_namespace() -> bool:
    """Whether this process is where ``enter`` leads."""
    return namespaceentry.FOLDER_VARIABLE in os.environ


def way_in() -> list[str]:
    """What a person writes before a command that is to see what this process sees."""
    return (
        [*hostprograms.PYTHON_WITH_PACKAGES, "-m", "agentv_sandbox.engines.native"]
        if is_own_namespace()
        else []
    )


def missing() -> Iterator[str]:
    """Sentences about what this user lacks; none where ``enter`` can be tried."""
    yield from _missing_namespaces()
    for program in ("newuidmap", "newgidmap"):
        if hostprograms.find_program(program) is None:
            yield f"there is no program {program} on PATH (Debian and Ubuntu: package uidmap)"
    for kind in ("uid", "gid"):
        if sum(count for _, count in _subordinate(kind)) < IDS:
            yield (
                f"this user has fewer than {IDS} subordinate ids in /etc/sub{kind} (`sudo usermod "
                f"--add-sub{kind}s 100000-165535 {_user()}`, with ids that nobody else has)"
            )
    yield from _missing_groups()


def _missing_namespaces() -> Iterator[str]:
    switches = (
        ("/proc/sys/kernel/unprivileged_userns_clone", "0", "1"),
        ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
    )
    for path, closed, opened in switches:
        if _content(path) == closed:
            name = path.removeprefix("/proc/sys/").replace("/", ".")
            yield f"the kernel gives user namespaces to root alone (`sudo sysctl -w {name}={opened}`)"


def _missing_groups() -> Iterator[str]:
    if _has_manager():
        user = os.getuid()
        folder = cgroups.ROOT / f"user.slice/user-{user}.slice/user@{user}.service"
        there = (_content(str(folder / "cgroup.controllers")) or "").split()
        if absent := [name for name in namespaceentry.CONTROLLERS if name not in there]:
            yield f"systemd does not hand over the control of {', '.join(absent)} to users ({_DELEGATE})"
    elif not namespaceentry.own_groups():
        yield (
            "no control groups are this user's, so no limit could be enforced (log in so that systemd runs for this "
            "user, with control groups version 2: `systemctl --user status` must answer)"
        )


def _has_manager() -> bool:
    """Whether systemd runs for this user and knows the unified hierarchy."""
    folder = os.environ.get("XDG_RUNTIME_DIR")
    return (
        cgroups.version() == 2
        and folder is not None
        and (Path(folder) / "systemd/private").exists()
        and (Path(folder) / "bus").exists()
        and hostprograms.find_program("systemd-run") is not None
    )


def enter(command: Sequence[str]) -> NoReturn:
    """Become ``command`` in the namespaces. Raises OSError where even its first program cannot be started; a later
    failure ends the process with a message and exit code 3."""
    argv = [
        *hostprograms.PYTHON,
        namespaceentry.__file__,
        str(_state_folder()),
        *map(_map, ("uid", "gid")),
        *command,
    ]
    if _has_manager():
        argv = [hostprograms.find_program("systemd-run") or "systemd-run", *_UNIT, "--", *argv]
    hostprograms.become(hostprograms.OWN_NAMESPACES, argv)


def was_used() -> bool:
    """Whether this user has images or volumes."""
    return _state_folder().is_dir()


def _state_folder() -> Path:
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share")
    return Path(os.environ.get(FOLDER_VARIABLE) or data / "agentv-sandbox").absolute()


def _map(kind: str) -> str:
    """For newuidmap: this user's own id as 0, the subordinate ones from 1 on."""
    own = os.getuid() if kind == "uid" else os.getgid()
    words, at = [f"0 {own} 1"], 1
    for first, count in _subordinate(kind):
        words.append(f"{at} {first} {count}")
        at += count
    return " ".join(words)


@cache
def _subordinate(kind: str) -> tuple[tuple[int, int], ...]:
    """(first, how many) of this user's subordinate ids."""
    names = {_user(), str(os.getuid())}
    try:  # where they may come from elsewhere than from the file
        argv = ["getsubids", *(["-g"] if kind == "gid" else []), _user()]
        done = hostprograms.run(hostprograms.USER_IDS, argv, timeout_s=_NAMES_S)
        done.check_returncode()
        lines = [line.split(":", 1)[1].split() for line in done.stdout.decode().splitlines()]
        return tuple((int(words[1]), int(words[2])) for words in lines)
    except (OSError, subprocess.SubprocessError, ValueError, IndexError):
        pass
    found = []
    for line in (_content(f"/etc/sub{kind}") or "").splitlines():
        name, _, numbers = line.partition(":")
        first, _, count = numbers.partition(":")
        if name in names and first.isdecimal() and count.strip().isdecimal():
            found.append((int(first), int(count)))
    return tuple(found)


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _content(path: str) -> str | None:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return None
