"""Matches the file blocks of an answer with what was collected. Paths are looked up, never opened."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence

from agentv_sandbox.files import WORKSPACE, container_meaning, final_content
from agentv_sandbox.logs import safe_name
from agentv_sandbox.models import media
from agentv_sandbox.models.case import Blob, FileEntry, OutputFile, Skipped
from agentv_sandbox.models.suite import Message

REMOTE = "remote file paths are not supported for preprocessing"
_MAX_DECLARED = 100

Roots = Mapping[str, Mapping[bytes, FileEntry]]
"""Where containers see a folder -> path below it -> entry."""


def answer_files(messages: Sequence[Message], roots: Roots, left_out: Mapping[str, str]) -> list[OutputFile]:
    """One entry for each file block of the final answer, in block order.

    ``left_out`` says, by container path in display form, why something was not collected.
    """
    content = final_content(messages)
    if not isinstance(content, list):
        return []
    return [
        _resolve(block["path"], block["media_type"], roots, left_out)
        for block in content
        if block["type"] == "file"
    ]


def _resolve(path: str, media_type: str, roots: Roots, left_out: Mapping[str, str]) -> OutputFile:
    place = container_meaning(path)
    if place is None:
        return OutputFile(path=path, media_type=media_type, refused=REMOTE)
    for root, entries in roots.items():
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
            return OutputFile(path=path, media_type=media_type, refused=_why(place, below, entries, left_out))
    return OutputFile(path=path, media_type=media_type, refused="not collected: outside of the workspace")


def _why(place: str, below: bytes, entries: Mapping[bytes, FileEntry], left_out: Mapping[str, str]) -> str:
    if below in entries:
        return "not collected: a symbolic link"
    shown = safe_name(place)
    for end in [len(shown), *(n for n, char in enumerate(shown) if char == "/")]:
        if shown[:end] in left_out:  # the file or a folder above it
            return f"not collected: {left_out[shown[:end]]}"
    if any(path.startswith(below + b"/") for path in entries):
        return "EISDIR: illegal operation on a directory, read"
    return f"ENOENT: no such file or directory, open '{place}'"


def declared_files(
    globs: Sequence[str], candidates: Iterable[FileEntry], named: Sequence[OutputFile]
) -> tuple[list[OutputFile], list[Skipped]]:
    """Files that the suite's ``outputs`` match and the answer does not name, in path order."""
    patterns = [_glob(g) for g in globs]
    have = {file.workspace_path for file in named}
    found = []
    for entry in sorted(candidates, key=lambda e: e.path):
        text = os.fsdecode(entry.path)
        if entry.kind == "file" and entry.path not in have and any(p.fullmatch(text) for p in patterns):
            shown = entry.path.decode("utf-8", "replace")
            found.append(
                OutputFile(
                    path=shown,
                    media_type=media.of_name(shown),
                    blob=Blob(sha256=entry.sha256, size=entry.size),
                    workspace_path=entry.path,
                    declared=True,
                )
            )
    rest = len(found) - _MAX_DECLARED
    note = f"more than {_MAX_DECLARED} files match outputs"
    return found[:_MAX_DECLARED], ([Skipped(path=f"… {rest} more", reason=note)] if rest > 0 else [])


def _glob(pattern: str) -> re.Pattern[str]:
    """``*`` and ``?`` within one folder, ``**/`` for any number of folders, ``[…]`` for a set."""
    parts = []
    for token in re.findall(r"\*\*/|\*\*|\*|\?|\[!?\]?[^\]]*\]|.", pattern.removeprefix("./"), re.DOTALL):
        match token:
            case "**/":
                parts.append("(?:.*/)?")
            case "**":
                parts.append(".*")
            case "*":
                parts.append("[^/]*")
            case "?":
                parts.append("[^/]")
            case _ if len(token) > 1:
                inner = token[1:-1].replace("\\", "\\\\").replace("[", "\\[")
                parts.append(
                    "[" + ("^" + inner[1:] if inner.startswith("!") else inner.replace("^", "\\^")) + "]"
                )
            case _:
                parts.append(re.escape(token))
    try:
        return re.compile("".join(parts), re.DOTALL)
    except re.error:  # a set such as [z-a]: then it is no pattern but a name
        return re.compile(re.escape(pattern))
