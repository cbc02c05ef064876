"""What a run keeps of a workspace, so that graders can be given the same one later."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from agentv_sandbox.base.logs import safe_name
from agentv_sandbox.containers.blobs import BlobStore
from agentv_sandbox.containers.volumes import StagedFile
from agentv_sandbox.models.capture import KeptWorkspace
from agentv_sandbox.models.case import FileEntry
from agentv_sandbox.models.content import Blob
from agentv_sandbox.workspace.collect import Baseline

UNCHANGED_BYTES = 512 << 20
"""Kept of what agents leave as it was, all tests of a run together."""
_PART = 1 << 20


class KeptContents:
    """The contents of workspaces that ``collected`` does not hold: what agents did not change, each content once.
    For several threads."""

    def __init__(self, collected: BlobStore, kept: BlobStore) -> None:
        self._collected = collected
        self.store = kept
        self._known: dict[str, bool] = {}
        """By hash, whether it is there."""
        self._left = UNCHANGED_BYTES
        self._mutex = threading.Lock()

    def keep(self, workspace: KeptWorkspace, baseline: Baseline) -> KeptWorkspace:
        """``workspace`` with all its contents in one of the stores, or with the reason why it is not."""
        for entry in workspace.entries.values():
            if entry.kind != "file":
                continue
            with self._mutex:
                if entry.sha256 not in self._known:
                    self._known[entry.sha256] = self._kept(entry, baseline)
                if not self._known[entry.sha256]:
                    why = f"{safe_name(entry.path)}: the files that agents left as they were are more than "
                    why += f"{UNCHANGED_BYTES >> 20} MiB together, or changed meanwhile"
                    return replace(workspace, missing=(*workspace.missing, why))
        return workspace

    def _kept(self, entry: FileEntry, baseline: Baseline) -> bool:
        blob = Blob(sha256=entry.sha256, size=entry.size)
        if self._collected.path(blob).exists() or self.store.path(blob).exists():
            return True
        source = baseline.sources.get(entry.sha256)
        if source is None or entry.size > self._left:
            return False
        self._left -= entry.size
        try:
            return copied(source, entry.size, self.store).sha256 == entry.sha256
        except OSError:
            return False


def copied(source: bytes | Path, size: int, store: BlobStore) -> Blob:
    """What ``store`` has of ``source`` then, at most ``size`` bytes and one. Raises OSError."""
    writer = store.writer()
    try:
        for piece in _pieces(source, size + 1):
            writer.write(piece)
    except BaseException:
        writer.abort()
        raise
    return writer.commit()


def _pieces(source: bytes | Path, most: int) -> Iterator[bytes]:
    if isinstance(source, bytes):
        yield source
        return
    fd = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as stream:
        for data in iter(partial(stream.read, min(_PART, most)), b""):
            yield data[:most]
            most -= len(data)
            if most <= 0:
                return


def staged_workspace(files: Iterable[StagedFile]) -> tuple[KeptWorkspace, Baseline]:
    """A workspace in which nothing ran, and where its contents are."""
    staged: Sequence[StagedFile] = tuple(files)
    baseline = Baseline.staged(staged)
    modes = {os.fsencode(file.path): file.mode for file in staged}
    entries = {
        path: replace(e, mode=modes[path]) if e.kind == "file" else e for path, e in baseline.entries.items()
    }
    for file in staged:
        if file.kind == "dir":
            path = os.fsencode(file.path)
            entries[path] = FileEntry(path=path, kind="dir", mode=file.mode)
    return KeptWorkspace(entries=entries), baseline
