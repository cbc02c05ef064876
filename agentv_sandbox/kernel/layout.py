"""Where the native engine keeps what: images and plain volumes on disk, all that lives in memory."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from agentv_sandbox.base.errors import EngineError
from agentv_sandbox.base.ownership import describe, is_ours
from agentv_sandbox.kernel import namespaceentry

FOLDER_VARIABLE = "AGENTV_SANDBOX_STATE"
_DEFAULT_FOLDER = "/var/lib/agentv-sandbox"
_NAME = "agentv-sandbox"
_MODE = 0o710
TRIALS = "trials.json"
"""In the folder of one engine: which runtimes it has tried."""


def memory_folder(mounts: str) -> Path:
    """Where files are in memory, so that they are made quickly and a reboot leaves nothing of them: /run nearly
    everywhere, /dev/shm where /run is a folder on disk, as in some virtual machines and containers.

    ``mounts``: as in /proc/self/mounts.
    """
    in_memory = {tuple(line.split(" ")[1:3]) for line in mounts.splitlines()}
    on_disk = ("/run", "tmpfs") not in in_memory
    return Path("/dev/shm" if on_disk and ("/dev/shm", "tmpfs") in in_memory else "/run")  # noqa: S108


def state_folder(environ: Mapping[str, str]) -> str:
    """Where images and volumes are."""
    if own := environ.get(namespaceentry.FOLDER_VARIABLE):
        return f"{own}/state"
    return str(Path(environ.get(FOLDER_VARIABLE) or _DEFAULT_FOLDER).absolute())


class StateFolders:
    """Folders of one engine, whose images are below ``root``."""

    def __init__(self, root: Path, *, group: int) -> None:
        """``group``: of this machine, whose members may pass through: the containers' root."""
        self._group = group
        self.root = root
        own = os.environ.get(namespaceentry.FOLDER_VARIABLE)
        self._runs = Path(own, "run") if own else memory_folder(Path("/proc/self/mounts").read_text()) / _NAME
        self.run = self._runs / hashlib.sha256(os.fsencode(root)).hexdigest()[:12]
        self.name = self.run.name
        """Tells this engine's control groups from those of others."""
        self.containers, self.memory_volumes = self.run / "containers", self.run / "volumes"
        self.disk_volumes, self.writable = root / "volumes", root / "writable"
        self.state = self.run / "state"
        """The runtime's own."""
        self._of = self.run / "of"
        """A link to ``root``: whose folder of memory this is."""

    def make(self) -> None:
        """Raises EngineError, also where something else is in one of them."""
        try:
            self._take(self._runs)
            if os.path.lexists(self.root) and not self._is_ours_or_roots(self.root):
                raise self._taken(self.root)
            for folder in (
                *(self.root, self.disk_volumes, self.writable),
                *(self._runs, self.run, self.containers, self.memory_volumes),
            ):
                self._make(folder)
            self.state.mkdir(mode=0o700, exist_ok=True)
            if not self._of.is_symlink():
                self._remove_others()
                with suppress(FileExistsError):
                    self._of.symlink_to(self.root)
        except OSError as error:
            raise EngineError(f"the native engine's folders cannot be made: {error}") from error

    def _remove_others(self) -> None:
        """Empty folders of engines whose images somebody removed: no command of theirs would come again."""
        for run in self._runs.iterdir():
            with suppress(OSError):  # one that is not empty stays, with its link
                if not os.path.lexists((run / "of").readlink()):
                    for name in ("state", "volumes", "containers"):
                        (run / name).rmdir()
                    for name in ("of", TRIALS):
                        (run / name).unlink(missing_ok=True)
                    run.rmdir()

    @staticmethod
    def _take(folder: Path) -> None:
        """Make ``folder`` where everybody may have put something of that name. Raises EngineError."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not is_ours(folder):
            raise StateFolders._taken(folder)

    @staticmethod
    def _is_ours_or_roots(path: Path) -> bool:
        """Of a folder that the operator named: also by a link, if it is theirs."""
        return all(each.lstat().st_uid in (0, os.geteuid()) for each in (path, path.resolve()))

    @staticmethod
    def _taken(folder: Path) -> EngineError:
        return EngineError(
            f"the native engine cannot use {folder}: it is not a folder of root's, but {describe(folder)}, so "
            "somebody else made it",
            hint="Look at what it is, then remove it.",
        )

    def _make(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        in_use = any(folder.iterdir())  # first: whoever makes it now closes it before anything is in it
        known = folder.stat()
        if (known.st_uid, known.st_gid, known.st_mode & 0o7777) == (0, self._group, _MODE):
            return
        if in_use:
            raise EngineError(
                f"the native engine cannot use {folder}: it holds other files, and would be closed to everybody else",
                hint=f"Name a folder of its own in {FOLDER_VARIABLE}.",
            )
        with suppress(PermissionError):
            os.chown(folder, 0, self._group)
            folder.chmod(_MODE)
