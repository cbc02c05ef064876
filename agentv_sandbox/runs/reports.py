"""What a run left, for whoever asked for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypedDict

from agentv_sandbox.base.dataclass import dataclass
from agentv_sandbox.base.errors import SandboxError, unforeseen
from agentv_sandbox.report.summary import exit_code
from agentv_sandbox.rows.record import Row
from agentv_sandbox.rows.redact import Redactor
from agentv_sandbox.rows.rowfile import read_all_rows


class FolderOptions(TypedDict):
    """What ``RunFolder`` is told of a run beside its place."""

    redactor: Redactor
    matrix: bool
    engine: str
    private: bool


@dataclass(frozen=True, kw_only=True)
class RunReport:
    """What a run left."""

    folder: Path
    """The run folder."""
    rows: tuple[Row, ...]
    """The lines of ``index.jsonl``, one a test, in the order in which tests ended; see docs/reference/results.md."""
    planned: int
    """Number of tests that were to run."""
    graded: bool = True
    """Whether verdicts were asked for, and not left to ``regrading.grade``."""
    failure: SandboxError | None = None
    """What ended the run early, or went wrong at its end; rows until then are complete."""

    @property
    def exit_code(self) -> int:
        """0 all tests at or above their threshold, 1 one below it, 3 an execution error, else the failure's."""
        return (
            self.failure.exit_code if self.failure is not None else exit_code(self.rows, grading=self.graded)
        )


def report_of(folder: Path, planned: int, failure: SandboxError | None) -> RunReport:
    """Of the run in ``folder``, as far as its rows can be read."""
    rows: list[Row] = []
    unread = failure_of(lambda: rows.extend(read_all_rows(folder).rows))
    return RunReport(folder=folder, rows=tuple(rows), planned=planned, failure=failure or unread)


def failure_of(step: Callable[[], object]) -> SandboxError | None:
    """What ``step`` raised, as an error of ours."""
    try:
        step()
    except SandboxError as error:
        return error
    except Exception as error:
        return unforeseen(error)
    return None
