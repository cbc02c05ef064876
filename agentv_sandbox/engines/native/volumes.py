"""Volumes: memory-backed mounts with a size and a number of files, or plain folders on disk."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from pathlib import Path

from agentv_sandbox.engines.native.kernel import mount_tmpfs, unmount
from agentv_sandbox.engines.native.parts import locked
from agentv_sandbox.engines.native.records import read_json, write_json
from agentv_sandbox.errors import EngineError

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,200}")
_FLAGS = frozenset({"nosuid", "nodev"})
"""Always set, and no options of the file system."""
_OWNERS = ("uid", "gid")


class Volumes:
    """Folders below ``memory`` (gone after a reboot) and ``disk``, by their names."""

    def __init__(self, memory: Path, disk: Path, *, first_id: int, in_use: Callable[[str], bool]) -> None:
        """``first_id``: of this machine, for the containers' id 0. ``in_use``: whether a container has the volume."""
        self._memory, self._disk = memory, disk
        self._first_id = first_id
        self._in_use = in_use

    def create(self, name: str, options: Mapping[str, str], labels: Mapping[str, str]) -> None:
        """``options`` as Docker's local driver has them (``type``, ``o``). Nothing where it is there. Raises
        EngineError."""
        if not _NAME.fullmatch(name):
            raise EngineError(f"{name!r} cannot be the name of a volume")
        folder = (self._memory if options else self._disk) / name
        try:
            with self.locked():
                if folder.exists():
                    return
                self._make_folder(folder, labels)
            if options:
                mount_tmpfs(folder / "data", self._mount_options(options["o"]))
        except OSError as error:
            self.remove(name)
            raise EngineError(f"the volume {name} cannot be made: {error.strerror}") from error

    def _make_folder(self, folder: Path, labels: Mapping[str, str]) -> None:
        """In one step with its labels, by which it is found again."""
        part = folder.with_name(f".{folder.name}")  # of a process that was killed, or none
        shutil.rmtree(part, ignore_errors=True)
        (part / "data").mkdir(parents=True)
        write_json(part / "volume.json", dict(labels))
        for path, owner, mode in ((part, 0, 0o710), (part / "data", self._first_id, 0o755)):
            os.chown(path, owner, self._first_id)
            path.chmod(mode)  # whatever the umask is
        part.rename(folder)

    def _mount_options(self, text: str) -> str:
        """With owners as this machine counts them; whatever has none belongs to the containers' root."""
        given = dict(part.partition("=")[::2] for part in text.split(",") if part not in _FLAGS)
        owners = {key: str(self._first_id + int(given.get(key, 0))) for key in _OWNERS}
        return ",".join(f"{key}={value}" for key, value in (given | owners).items())

    def path(self, name: str) -> Path:
        """Its folder on this machine. Raises EngineError where there is none."""
        for place in (self._memory, self._disk):
            folder = place / name / "data"
            # What is not mounted would have no limit.
            if _NAME.fullmatch(name) and (folder.is_dir() if place is self._disk else folder.is_mount()):
                return folder
        raise EngineError(f"there is no volume {name}")

    def is_alive(self, name: str) -> bool:
        """Whether it is there, and what should be mounted still is."""
        with suppress(EngineError):
            return self.path(name).exists()
        return False

    def remove(self, name: str) -> None:
        """Absent is fine. Raises EngineError while a container has it."""
        with self.locked():
            for place in (self._memory, self._disk):
                folder = place / name
                if not folder.is_dir():
                    continue
                if place is self._disk and self._in_use(name):
                    raise EngineError(f"the volume {name} is in use")
                try:
                    unmount(folder / "data")
                    # The record last: what cannot be removed can still be found.
                    shutil.rmtree(folder / "data", ignore_errors=True)
                    shutil.rmtree(folder)
                except OSError as error:
                    raise EngineError(f"the volume {name} cannot be removed: {error}") from error

    def all(self) -> Iterator[tuple[str, Mapping[str, str]]]:
        """Names with their labels."""
        for place in (self._memory, self._disk):
            with suppress(FileNotFoundError):
                for entry in sorted(place.iterdir()):
                    if _NAME.fullmatch(entry.name):
                        yield entry.name, read_json(entry / "volume.json") or {}

    def locked(self) -> AbstractContextManager[None]:
        """No other process decides about volumes on disk meanwhile."""
        return locked(self._disk)
