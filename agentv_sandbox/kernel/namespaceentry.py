"""``python -I -S entering.py STATE UIDS GIDS COMMAND...``: become COMMAND as root of a user namespace and a mount
namespace of its own.

Only a process with one thread can enter them, and it does so before any other module is loaded: nothing of ours is
imported. STATE: the folder of images; UIDS, GIDS: maps as newuidmap wants them.
"""

import ctypes
import os
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

FOLDER_VARIABLE = "AGENTV_SANDBOX_OWN_NAMESPACE"
"""Set inside: the folder below which the engine has its own, which containers can pass through as no home can be."""
GROUP_VARIABLE = "AGENTV_SANDBOX_OWN_GROUP"
"""Set inside: the control group that is the user's, below the root of each hierarchy."""
CONTROLLERS = ("memory", "pids", "cpu")
_GROUPS = Path("/sys/fs/cgroup")
_OWN_LEAF = "orchestrator"
_NEW_MOUNTS, _NEW_USER = 0x20000, 0x10000000
_BIND, _RECURSIVE, _PRIVATE = 0x1000, 0x4000, 0x40000
_PASSABLE_PLACE, _PASSABLE = Path("/tmp"), 0o711  # noqa: S108 - not where TMPDIR says, which may be in a home
_INOTIFY = Path("/proc/sys/user/max_inotify_instances")
_SHARE = 4
"""One container gets at most this part of what the user has of them."""


def own_groups() -> str:
    """The control group of this process below the root of each hierarchy, where it is this user's; else empty. In
    version 1 it must have the same path in all hierarchies."""
    lines = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    if (_GROUPS / "cgroup.controllers").exists():
        paths = {path for _, names, path in lines if not names}
        folders = [_GROUPS / path[1:] for path in paths]
    else:
        paths = {path for _, names, path in lines if set(names.split(",")) & {*CONTROLLERS, "freezer"}}
        folders = [_GROUPS / name / path[1:] for path in paths for name in (*CONTROLLERS, "freezer")]
    its_own = len(paths) == 1 and all(os.access(f"{folder}/cgroup.procs", os.W_OK) for folder in folders)
    its_own = its_own and all(os.access(folder, os.W_OK) for folder in folders)
    return paths.pop() if its_own else ""


def _prepare_groups() -> str:
    """Make room for groups of containers, and return where."""
    path = own_groups()
    if not path:
        _fail("the control groups of this process are not this user's", "see `agentv-sandbox doctor`")
    folder = _GROUPS / path[1:]
    if (_GROUPS / "cgroup.controllers").exists():
        there = (folder / "cgroup.controllers").read_text().split()
        if absent := [name for name in CONTROLLERS if name not in there]:
            _fail(f"the control of {', '.join(absent)} is not handed over to this user", "see doctor")
        # Where processes are, nothing can be handed on to groups below.
        (folder / _OWN_LEAF).mkdir(exist_ok=True)
        (folder / _OWN_LEAF / "cgroup.procs").write_text(str(os.getpid()))
        (folder / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in CONTROLLERS))
    return path


def _enter(uids: str, gids: str) -> None:
    """Both namespaces; a child that stays outside sets the ids."""
    libc = ctypes.CDLL(None, use_errno=True)
    ready, tells = os.pipe()
    target = os.getpid()
    child = os.fork()
    if child == 0:
        os.close(tells)
        os.read(ready, 1)
        code = 0
        for program, extents in (("newuidmap", uids), ("newgidmap", gids)):
            argv = [program, str(target), *extents.split()]
            path = {"PATH": os.environ.get("PATH", os.defpath)}
            code = code or subprocess.run(argv, check=False, cwd="/", env=path).returncode
        os._exit(code)
    failed = libc.unshare(_NEW_USER | _NEW_MOUNTS) and ctypes.get_errno()
    os.write(tells, b"x")
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if failed:
        _fail(f"no namespace can be made: {os.strerror(failed)}", "the kernel or its AppArmor forbids it")
    if code:
        _fail("newuidmap or newgidmap refused this user's subordinate ids", "see /etc/subuid and /etc/subgid")
    _mount(libc, "", "/", _PRIVATE | _RECURSIVE)


def _own_folder(user: int) -> Path:
    """An empty folder for mounts, which everybody can pass through and nobody else can write to."""
    folder = _PASSABLE_PLACE / f"agentv-sandbox-{user}"
    try:
        folder.mkdir(exist_ok=True)
        known = folder.lstat()
        if stat.S_ISDIR(known.st_mode) and known.st_uid == user:
            folder.chmod(_PASSABLE)
            return folder
    except FileExistsError:
        pass
    own = folder.with_name(f"{folder.name}-{os.urandom(8).hex()}")  # that name is somebody else's
    own.mkdir()
    own.chmod(_PASSABLE)
    return own


def _mount_folders(folder: Path, state: str) -> None:
    """The engine's folders at places that containers can reach."""
    libc = ctypes.CDLL(None, use_errno=True)
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    places = {"state": state, "run": f"{runtime}/agentv-sandbox" if runtime else ""}
    for name, source in places.items():
        target = folder / name
        target.mkdir(exist_ok=True)
        if source:
            Path(source).mkdir(parents=True, exist_ok=True)
            _mount(libc, source, str(target), _BIND)


def _mount(libc: ctypes.CDLL, source: str, target: str, flags: int) -> None:
    if libc.mount(os.fsencode(source) or None, os.fsencode(target), None, flags, None):
        number = ctypes.get_errno()
        _fail(
            f"{source or target} cannot be mounted: {os.strerror(number)}",
            "the kernel or AppArmor forbids it",
        )


def _fail(what: str, hint: str) -> NoReturn:
    sys.stderr.write(f"error: containers cannot be run natively without root here: {what} ({hint})\n")
    sys.exit(3)


def main(state: str, uids: str, gids: str, *command: str) -> NoReturn:
    try:
        most = int(_INOTIFY.read_text())
        folder = _own_folder(os.getuid())
        group = _prepare_groups()
        _enter(uids, gids)
        _mount_folders(folder, state)
        # What containers have of the user's is charged to the owners of their namespaces, each for itself.
        _INOTIFY.write_text(str(max(most // _SHARE, 1)))
    except (OSError, ValueError) as error:
        _fail(str(error), "see `agentv-sandbox doctor`")
    os.environ |= {FOLDER_VARIABLE: str(folder), GROUP_VARIABLE: group}
    _become(command)


def _become(command: Sequence[str]) -> NoReturn:
    try:
        os.execvp(command[0], list(command))  # noqa: S606 - a list, no shell
    except OSError as error:
        _fail(f"{command[0]}: {error.strerror}", "is it installed?")


if __name__ == "__main__":
    main(*sys.argv[1:])
