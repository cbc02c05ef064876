"""Where the native engine keeps what: images and plain volumes on disk, all that lives below /run."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from agentv_sandbox.engines.native import entering
from agentv_sandbox.errors import EngineError

FOLDER_VARIABLE = "AGENTV_SANDBOX_STATE"
_DEFAULT_FOLDER = "/var/lib/agentv-sandbox"
_RUN = "/run/agentv-sandbox"
_MODE = 0o710


def state_folder(environ: Mapping[str, str]) -> str:
    """Where images and volumes are."""
    if own := environ.get(entering.FOLDER_VARIABLE):
        return f"{own}/state"
    return environ.get(FOLDER_VARIABLE) or _DEFAULT_FOLDER


class Places:
    """Folders of one engine, whose images are below ``root``."""

    def __init__(self, root: Path, *, group: int) -> None:
        """``group``: of this machine, whose members may pass through: the containers' root."""
        self._group = group
        self.root = root
        own = os.environ.get(entering.FOLDER_VARIABLE)
        self._runs = Path(f"{own}/run" if own else _RUN)
        self.run = self._runs / hashlib.sha256(os.fsencode(root)).hexdigest()[:12]
        self.name = self.run.name
        """Tells this engine's control groups from those of others."""
        self.containers, self.memory_volumes = self.run / "containers", self.run / "volumes"
        self.disk_volumes, self.writable = root / "volumes", root / "writable"
        self.state = self.run / "state"
        """The runtime's own."""

    def make(self) -> None:
        """Raises EngineError, also where something else is in one of them."""
        try:
            for folder in (
                *(self._runs, self.run, self.containers, self.memory_volumes),
                *(self.root, self.disk_volumes, self.writable),
            ):
                self._make(folder)
            self.state.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise EngineError(f"the native engine's folders cannot be made: {error}") from error

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
