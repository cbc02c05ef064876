"""Private folders for what repositories bring: gone with the run, and swept after one that was killed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agentv_sandbox.base.ownership import is_private, temporary_folder

PREFIX = "agentv-repos-"


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new folder below the temporary directory, locked by this process for as long as the block lasts."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=temporary_folder()))
        fd = _locked(path)
        if fd is not None and path.exists():
            break
        # A sweep came between: it took the folder for one without an owner.
        if fd is not None:
            os.close(fd)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        os.close(fd)


def sweep_scratch() -> int:
    """Remove the folders of this user's runs that were killed: nobody holds their lock. Returns how many."""
    removed = 0
    for path in temporary_folder().glob(f"{PREFIX}*"):
        fd = _locked(path)
        if fd is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(fd)
            removed += 1
    return removed


def _locked(path: Path) -> int | None:
    """The folder, open and locked; None where it is not ours, gone, a link, or somebody holds the lock."""
    with suppress(OSError):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            if is_private(path):  # nobody else can put another in its place
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return fd
        except OSError:
            pass
        os.close(fd)
    return None
