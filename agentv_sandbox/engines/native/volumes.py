"""Volumes: memory-backed mounts with a size and a number of files, or plain folders on disk."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path

from agentv_sandbox.base.errors import EngineError
from agentv_sandbox.engines.native.records import read_json, record_file, recorded, write_new
from agentv_sandbox.engines.native.staging import (
    copied,
    discard,
    locked,
    remove_small,
)
from agentv_sandbox.engines.native.systems import ROOT, end_system, lay_over, make_system, refuse_lost
from agentv_sandbox.engines.stated import tmpfs_options
from agentv_sandbox.kernel.kernel import mount_tmpfs, unmount
from agentv_sandbox.kernel.rootless import is_own_namespace
from agentv_sandbox.models.container import VolumeSpec

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,200}")


class NativeVolumes:
    """Folders below ``memory`` (gone after a reboot) and ``disk``, by their names."""

    def __init__(self, memory: Path, disk: Path, *, first_id: int, in_use: Callable[[str], bool]) -> None:
        """``first_id``: of this machine, for the containers' id 0. ``in_use``: whether a container has the volume."""
        self._memory, self._disk = memory, disk
        self._first_id = first_id
        self._in_use = in_use

    def create(
        self,
        name: str,
        spec: VolumeSpec,
        labels: Mapping[str, str],
        *,
        files: Sequence[Path] = (),
        hidden: Sequence[str] = (),
    ) -> None:
        """Nothing where it is there. ``files``: folders that it begins with and leaves alone; ``hidden``: what of the
        last one a system does not show. Raises EngineError."""
        if not _NAME.fullmatch(name):
            raise EngineError(f"{name!r} cannot be the name of a volume")
        place = self._disk if spec.disk else self._memory
        folder = place / name
        try:
            with self._locked(place):
                if record_file(folder).exists():
                    return
                write_new(record_file(folder), dict(labels))
                self._make_folder(folder)
            if spec.image:
                make_system(
                    folder, spec, lowers=files, hidden=hidden, near=self._disk, first_id=self._first_id
                )
            elif not spec.disk:
                owner = self._first_id + spec.uid  # as this machine counts it
                options = [*tmpfs_options(spec), f"uid={owner}", f"gid={owner}"]
                mount_tmpfs(folder / "data", ",".join(options))
                if files:
                    lay_over(folder, files, owner=owner, mode=spec.mode)
        except OSError as error:
            self.remove(name)
            raise EngineError(f"the volume {name} cannot be made: {error.strerror}") from error
        except EngineError:
            self.remove(name)
            raise

    def _make_folder(self, folder: Path) -> None:
        (folder / "data").mkdir(parents=True)
        for path, owner, mode in ((folder, 0, 0o710), (folder / "data", self._first_id, 0o755)):
            os.chown(path, owner, self._first_id)
            path.chmod(mode)  # whatever the umask is

    def system(self, name: str, part: str) -> Path:
        """One of the folders of a system (``ROOT``, ``DATA``, ``BASE``). Raises EngineError where there is none."""
        folder = self._memory / name / part
        if not _NAME.fullmatch(name) or not folder.is_mount():
            raise EngineError(f"there is no system {name}")
        return folder

    def refuse_lost(self, name: str) -> None:
        """Raises EngineError where the disk had no room for all that was written to a system."""
        refuse_lost(self._memory / name, self._disk)

    def path(self, name: str) -> Path:
        """Its folder on this machine; of a system, all its files. Raises EngineError where there is none."""
        for place in (self._memory, self._disk):
            folder = place / name / "data"
            # What is not mounted would have no limit.
            if _NAME.fullmatch(name) and (folder.is_dir() if place is self._disk else folder.is_mount()):
                root = folder.with_name(ROOT)
                return root if root.is_mount() else folder
        raise EngineError(f"there is no volume {name}")

    def is_alive(self, name: str) -> bool:
        """Whether it is there, and what should be mounted still is."""
        with suppress(EngineError):
            return self.path(name).exists()
        return False

    def remove(self, name: str) -> None:
        """Absent is fine. Raises EngineError while a container has it, where it is on disk."""
        for place in (self._memory, self._disk):
            folder = place / name
            if not record_file(folder).exists():
                continue
            with self._locked(place):
                if place is self._disk and self._in_use(name):
                    raise EngineError(f"the volume {name} is in use")
                self._remove_from(place, name)

    def _remove_from(self, place: Path, name: str) -> None:
        folder = place / name
        try:
            end_system(folder)
            unmount(folder / "data")
            if place is self._disk:  # of containers' own making
                discard(folder / "data")
            remove_small(folder)
            record_file(folder).unlink(missing_ok=True)  # last: what cannot be removed can still be found
        except OSError as error:
            raise EngineError(f"the volume {name} cannot be removed: {error}") from error

    def kept_path(self, name: str) -> Path:
        """Where its files are when this process is gone: mounts in a namespace of one's own end with it."""
        return self._disk / name / "data" if is_own_namespace() else self.path(name)

    def persist(self, name: str) -> None:
        """Make one that is in memory one on disk, with the same labels. Raises EngineError."""
        source, labels = self.path(name), read_json(record_file(self._memory / name)) or {}
        self.create(name, VolumeSpec(disk=True), labels)
        if complaint := copied(source, self._disk / name / "data"):
            self._remove_from(self._disk, name)
            raise EngineError(f"the volume {name} cannot be kept: {complaint}")
        self._remove_from(self._memory, name)

    def all(self) -> Iterator[tuple[str, Mapping[str, str]]]:
        """Names with their labels."""
        for place in (self._memory, self._disk):
            for name in recorded(place):
                yield name, read_json(record_file(place / name)) or {}

    def stay(self, names: Iterable[str]) -> AbstractContextManager[None]:
        """While the block lasts, nobody removes those of them that are on disk."""
        on_disk = any((self._disk / name).is_dir() for name in names)
        return self._locked(self._disk if on_disk else self._memory)

    def _locked(self, place: Path) -> AbstractContextManager[None]:
        """No other process decides about volumes on disk meanwhile. Those in memory are of one run, whose threads would
        wait for each other a thousand times."""
        return locked(place) if place is self._disk else nullcontext()
