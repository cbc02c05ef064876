"""Reads a run folder back: rows and the files that they name, bounded, and nothing outside of the folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agentv_sandbox.errors import InputError, Problem
from agentv_sandbox.models.foreign_json import ForeignJsonError, read_json
from agentv_sandbox.models.suite import Json
from agentv_sandbox.report.rows import MAX_VALUES, Row, read_all_rows, status_of

MAX_JSON = 32 << 20


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run folder that was written earlier, perhaps by another program."""

    path: Path
    rows: Sequence[Row]
    waiting: Sequence[Row] = ()
    """Of tests that are yet to be graded."""
    problems: Sequence[str]
    """What could not be read, one sentence each."""
    _folders: dict[str, Path | None] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Where folders are that rows name: a test has a dozen files in one."""

    @classmethod
    def open(cls, path: Path) -> Run:
        """Raises InputError when ``path`` is not a run folder."""
        try:
            read = read_all_rows(path)
        except OSError as error:
            hint = "name a folder that holds an index.jsonl"
            message = f"cannot read results: {error.strerror or error}"
            raise InputError([Problem(message=message, path=path, hint=hint)]) from error
        rows = [row for row in read.rows if _is_result(row)]
        problems = list(read.problems)
        if len(rows) < len(read.rows):
            problems.append(f"{len(read.rows) - len(rows)} rows have no test_id, score or status; left out")
        waiting = [row for row in rows if status_of(row) == "not_graded"]
        judged = [row for row in rows if status_of(row) != "not_graded"] if waiting else rows
        return cls(path=path.resolve(), rows=judged, waiting=waiting, problems=problems)

    def data(self, relative: Json, limit: int) -> bytes | None:
        """At most ``limit`` bytes of a file below the folder; None when there is none."""
        path = self._inside(relative)
        if path is None or not path.is_file():
            return None
        try:
            with path.open("rb") as stream:
                return stream.read(limit)
        except OSError:
            return None

    def text(self, relative: Json, limit: int) -> str:
        """The same as text, with a note when it was cut; empty when there is no file."""
        data = self.data(relative, limit + 1)
        if data is None:
            return ""
        text = data[:limit].decode("utf-8", "replace")
        return f"{text}\n… cut here; the file has it whole" if len(data) > limit else text

    def json(self, relative: Json) -> Json:
        """A JSON file's value; None when there is none or it cannot be read."""
        try:
            return read_json(self.data(relative, MAX_JSON) or b"null", max_values=MAX_VALUES)
        except ForeignJsonError:
            return None

    def names(self, relative: Json) -> list[str]:
        """Sorted paths of the files directly in a folder below the run folder."""
        folder = self._inside(relative)
        if folder is None or not folder.is_dir():
            return []
        return sorted(f"{relative}/{path.name}" for path in folder.iterdir())

    def _inside(self, relative: Json) -> Path | None:
        """The path that a row names, all links followed, when it lies in the run folder."""
        if not isinstance(relative, str):
            return None
        folder, _, name = relative.rpartition("/")
        if folder not in self._folders:
            self._folders[folder] = self._resolved(folder)
        parent = self._folders[folder]
        if parent is None or name in ("", ".", "..") or "\0" in name:
            return self._resolved(relative)
        path = parent / name
        try:
            return self._resolved(relative) if path.is_symlink() else path
        except OSError:  # a name too long
            return None

    def _resolved(self, relative: str) -> Path | None:
        try:
            path = (self.path / relative).resolve()
        except (OSError, RuntimeError, ValueError):  # a loop of links, a NUL, a name too long
            return None
        return path if path.is_relative_to(self.path) else None


def _is_result(row: Row) -> bool:
    """Whether a row has the shape that its readers rely on."""
    scores = row.get("scores") or []
    return (
        isinstance(row.get("test_id"), str)
        and isinstance(row.get("execution_status"), str)
        and isinstance(row.get("score"), int | float)
        and isinstance(scores, list)
        and all(isinstance(entry, dict) and isinstance(entry.get("score"), int | float) for entry in scores)
    )
