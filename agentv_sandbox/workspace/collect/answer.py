"""Matches the file blocks of an answer with what was collected. Paths are looked up, never opened."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from agentv_sandbox.base.deadline import Deadline
from agentv_sandbox.base.logs import safe_name
from agentv_sandbox.containers.blobs import BlobStore, container_meaning
from agentv_sandbox.models import media
from agentv_sandbox.models.case import FileEntry, Skipped
from agentv_sandbox.models.content import (
    AnswerMessage,
    Blob,
    Block,
    Content,
    FileBlock,
    OutputFile,
    TextBlock,
    files_of,
    final_index,
)
from agentv_sandbox.models.paths import WORKSPACE
from agentv_sandbox.workspace.collect.baseline import Baseline
from agentv_sandbox.workspace.collect.globs import Glob

REMOTE = "remote file paths are not supported for preprocessing"
MAX_FILES = 1_000
"""File blocks of one answer; further ones are dropped from it."""
_MAX_DECLARED = 100
_MAX_PATH = 4_096
"""Characters: no path in a workspace is longer than the kernel allows."""
_MAX_DEPTH = 140
"""Folders of a path that may have been left out as a whole: more than a collection goes down."""
_OUT_OF_TIME = "not looked up: the time for this answer's files was spent"

Roots = Mapping[str, Mapping[bytes, FileEntry]]
"""Where containers see a folder -> path below it -> entry."""


class PathIndex:
    """What was collected, and what was left out and why, to be asked for the paths of an answer."""

    def __init__(self, roots: Roots, left_out: Mapping[str, str]) -> None:
        self._roots = roots
        self._left_out = left_out
        """By container path in display form."""
        self._sorted: dict[str, list[bytes]] = {}

    def file(self, path: str, media_type: str) -> OutputFile:
        """The file block as what was collected for it, or with the reason why there is nothing."""
        if len(path) > _MAX_PATH:
            return OutputFile(path=path, media_type=media_type, refused=f"longer than {_MAX_PATH} characters")
        place = container_meaning(path)
        if place is None:
            return OutputFile(path=path, media_type=media_type, refused=REMOTE)
        for root, entries in self._roots.items():
            if place.startswith(root + "/"):
                below = os.fsencode(place[len(root) + 1 :])
                entry = entries.get(below)
                if entry is not None and entry.kind == "file":
                    return OutputFile(
                        path=path,
                        media_type=media_type,
                        blob=Blob(sha256=entry.sha256, size=entry.size),
                        workspace_path=below if root == WORKSPACE else None,
                    )
                return OutputFile(path=path, media_type=media_type, refused=self._why(root, place, below))
        return OutputFile(path=path, media_type=media_type, refused="not collected: outside of the workspace")

    def _why(self, root: str, place: str, below: bytes) -> str:
        if below in self._roots[root]:
            return "not collected: a symbolic link"
        shown = safe_name(place)
        slashes = (n for n, char in enumerate(shown) if char == "/")
        for end in [len(shown), *islice(slashes, _MAX_DEPTH)]:
            if shown[:end] in self._left_out:  # the file or a folder above it
                return f"not collected: {self._left_out[shown[:end]]}"
        if self._is_folder(root, below):
            return "EISDIR: illegal operation on a directory, read"
        return f"ENOENT: no such file or directory, open '{place}'"

    def _is_folder(self, root: str, below: bytes) -> bool:
        if root not in self._sorted:
            self._sorted[root] = sorted(self._roots[root])
        paths = self._sorted[root]
        at = bisect_left(paths, below + b"/")
        return at < len(paths) and paths[at].startswith(below + b"/")


def collected_file(block: FileBlock, index: PathIndex, budget: Deadline) -> OutputFile:
    """What was collected for ``block``, or the reason why there is nothing."""
    if budget.left():
        return index.file(block.path, block.media_type)
    return OutputFile(path=block.path, media_type=block.media_type, refused=_OUT_OF_TIME)


def kept(file: OutputFile, baseline: Baseline, store: BlobStore) -> OutputFile:
    """``file`` with its bytes in the store: one that the agent did not change was not sent again."""
    if file.blob is None or store.path(file.blob).exists():
        return file
    entry = baseline.entries.get(file.workspace_path or b"")
    data = baseline.read(entry) if entry is not None else None
    if data is None:
        return replace(file, blob=None, refused="not collected: the staged file is gone")
    return replace(file, blob=store.put(data))


def with_collected_files(
    messages: Sequence[AnswerMessage], collect: Callable[[FileBlock], OutputFile]
) -> tuple[tuple[AnswerMessage, ...], int]:
    """``messages`` whose file blocks carry what ``collect`` gives for those of the final answer: for the first
    ``MAX_FILES`` of them, while further ones are dropped and counted. Another message that names one of these files
    carries it too."""
    at = final_index(messages)
    content = None if at is None else messages[at].content
    if at is None or not isinstance(content, tuple):
        return tuple(messages), 0
    blocks: list[Block] = []
    files: dict[tuple[str, str], OutputFile] = {}
    named = 0
    for block in content:
        if not isinstance(block, FileBlock):
            blocks.append(block)
            continue
        if named < MAX_FILES:
            file = replace(collect(block), number=named)
            files.setdefault((block.path, block.media_type), file)
            blocks.append(replace(block, file=file))
        named += 1
    before, after = ([_with_files(m, files) for m in part] for part in (messages[:at], messages[at + 1 :]))
    final = replace(messages[at], content=tuple(blocks))
    return (*before, final, *after), max(0, named - MAX_FILES)


def _with_files(message: AnswerMessage, files: Mapping[tuple[str, str], OutputFile]) -> AnswerMessage:
    if not files or not isinstance(message.content, tuple):
        return message
    blocks = (
        replace(block, file=files.get((block.path, block.media_type)))
        if isinstance(block, FileBlock)
        else block
        for block in message.content
    )
    return replace(message, content=tuple(blocks))


def with_declared_files(
    messages: Sequence[AnswerMessage], files: Sequence[OutputFile]
) -> tuple[AnswerMessage, ...]:
    """``messages`` whose final answer also holds a block for each of ``files``."""
    if not files:
        return tuple(messages)
    at = final_index(messages)
    content = None if at is None else messages[at].content
    blocks = content if isinstance(content, tuple) else _text_blocks(content)
    first = len(files_of(blocks))
    added = tuple(_declared_block(replace(file, number=n)) for n, file in enumerate(files, first))
    if at is None:
        return (*messages, AnswerMessage(role="assistant", content=added))
    return (*messages[:at], replace(messages[at], content=(*blocks, *added)), *messages[at + 1 :])


def _text_blocks(content: Content) -> tuple[Block, ...]:
    text = content if isinstance(content, str) else ""
    return (TextBlock(text=text, raw={"type": "text", "text": text}),) if text else ()


def _declared_block(file: OutputFile) -> FileBlock:
    raw = {"type": "file", "media_type": file.media_type, "path": file.path}
    return FileBlock(path=file.path, media_type=file.media_type, raw=raw, file=file)


def declared_files(
    globs: Sequence[str], candidates: Iterable[FileEntry], named: Sequence[OutputFile], budget: Deadline
) -> tuple[list[OutputFile], list[Skipped]]:
    """Files that the suite's ``outputs`` match and the answer does not name, in path order."""
    patterns = [Glob(text) for text in globs]
    have = {file.workspace_path for file in named}
    files = []
    late = 0
    for entry in sorted(candidates, key=lambda e: e.path) if patterns else ():
        if not budget.left():
            late += 1
            continue
        text = os.fsdecode(entry.path)
        if entry.kind == "file" and entry.path not in have and any(p.matches(text) for p in patterns):
            shown = entry.path.decode("utf-8", "replace")
            files.append(
                OutputFile(
                    path=shown,
                    media_type=media.of_name(shown),
                    blob=Blob(sha256=entry.sha256, size=entry.size),
                    workspace_path=entry.path,
                    declared=True,
                    rule="outputs",
                )
            )
    rows = (
        (len(files) - _MAX_DECLARED, f"more than {_MAX_DECLARED} files match outputs"),
        (late, "not compared with outputs: the time for this was spent"),
    )
    notes = [Skipped(path=f"… {count} more", reason=reason) for count, reason in rows if count > 0]
    return files[:_MAX_DECLARED], notes
