"""Another user of the machine: a child process with a user id that nobody has."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

UID = 54321


def as_stranger(act: Callable[[], Any]) -> Any:
    """What ``act`` returns (as JSON can say it) to a process of the other user; the name of an error it raised."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setresgid(UID, UID, UID)
            os.setresuid(UID, UID, UID)
            os.umask(0)
            try:
                said = json.dumps(act())
            except OSError as error:
                said = json.dumps(type(error).__name__)
            os.write(writing, said.encode())
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as said_by_child:
        said = said_by_child.read()
    os.waitpid(child, 0)
    return json.loads(said)


def read_file(path: str) -> bytes:
    return Path(path).read_bytes()


def trace(process: int) -> str:
    """What the kernel says to an attempt to attach to a process as a debugger does."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.ptrace(16, process, None, None) == 0:
        return "attached"
    return os.strerror(ctypes.get_errno())


def take_descriptor(process: int) -> str:
    """The same for its open files, by pidfd_open and pidfd_getfd."""
    libc = ctypes.CDLL(None, use_errno=True)
    own = libc.syscall(434, process, 0)
    if own < 0 or libc.syscall(438, own, 0, 0) < 0:
        return os.strerror(ctypes.get_errno())
    return "taken"


def watch(folder: str) -> str:
    """The same for notices of what happens in a folder."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.inotify_add_watch(libc.inotify_init1(0), os.fsencode(folder), 0xFFF) >= 0:
        return "watched"
    return os.strerror(ctypes.get_errno())


def end(process: int) -> str:
    os.kill(process, signal.SIGKILL)
    return "ended"
