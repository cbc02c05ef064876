"""``agentv-sandbox regrade`` and ``grade``: captured outputs, judged again or for the first time."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.table import Table
from rich.text import Text

from agentv_sandbox.base.lazy import calling, lazily
from agentv_sandbox.base.logs import safe_name, safe_text
from agentv_sandbox.cli import options as opt
from agentv_sandbox.cli.asking import asks
from agentv_sandbox.cli.common import counted, out, start_logs, with_exit_codes
from agentv_sandbox.cli.outcome import show_on_github
from agentv_sandbox.cli.run import Events, interruptible, show_report
from agentv_sandbox.request import RunRequest

if TYPE_CHECKING:
    from agentv_sandbox.building import sentence
    from agentv_sandbox.report.progress import Progress
    from agentv_sandbox.report.summary import WORD
    from agentv_sandbox.runfolder.redact import Redactor
    from agentv_sandbox.runfolder.regraded import Change
    from agentv_sandbox.runfolder.rows import Wire
    from agentv_sandbox.runs import regrading
else:
    WORD = calling("agentv_sandbox.report.summary", "WORD")
    regrading = lazily("agentv_sandbox.runs.regrading")
    sentence = calling("agentv_sandbox.building", "sentence")
    Progress = calling("agentv_sandbox.report.progress", "Progress")
    Redactor = calling("agentv_sandbox.runfolder.redact", "Redactor")

SHOWN = 200
_WHY = 300
_REASONS = 4


@with_exit_codes
@asks("regrade")
def regrade(
    request: RunRequest, run: opt.RunFolderPath, suite: opt.SuitePaths = None, verbose: opt.Verbose = False
) -> int:
    """Grade the outputs of a run again, with the same or changed graders. No agent runs; RUN stays as it is.

    Exit status: as that of `run`.
    """
    report = _graded(regrading.regrade, run, replace(request, suites=suite or ()), verbose=verbose)
    _show_changes(report)
    return _status(report)


@with_exit_codes
@asks("grade")
def grade(
    request: RunRequest, run: opt.RunFolderPath, suite: opt.SuitePaths = None, verbose: opt.Verbose = False
) -> int:
    """Grade a run that was made with `run --no-grade`, here or on another machine, in its folder.

    Exit status: as that of `run`.
    """
    return _status(_graded(regrading.grade, run, replace(request, suites=suite or ()), verbose=verbose))


def _graded(
    work: Callable[..., regrading.RegradeReport], run: Path, request: RunRequest, *, verbose: bool
) -> regrading.RegradeReport:
    start_logs(verbose)
    started = time.monotonic()
    # Secrets of judges are known once the suites are loaded; what is shown is redacted by the log's own filter too.
    with interruptible() as stop, Progress(out, redactor=Redactor(), sentence=sentence) as progress:
        events = Events(progress)
        report = work(run, replace(request, stop=stop, on_event=events))
    show_report(report, Redactor(), out, seconds=time.monotonic() - started)
    show_on_github(report, {}, Redactor())
    return report


def _status(report: regrading.RegradeReport) -> int:
    if report.failure is not None:
        raise report.failure
    return report.exit_code


def _show_changes(report: regrading.RegradeReport) -> None:
    changed = [change for change in report.changes if not change["equal"]]
    total = counted(len(report.changes), "test")
    if not changed:
        out.print(f"Graded again: {total}, all as before.")
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in ("test", "before", "after", "why"):
        table.add_column(column, overflow="fold")
    for change in changed[:SHOWN]:
        name = safe_name(str(change["test_id"]))
        table.add_row(
            Text(name), Text(_verdict(change["before"])), Text(_verdict(change["after"])), Text(_why(change))
        )
    out.print(table)
    if len(changed) > SHOWN:
        out.print(f"… and {len(changed) - SHOWN} more in regraded.json")
    out.print(f"Graded again: {total}, {len(changed)} with changes.")


def _verdict(verdict: Wire) -> str:
    status = str(verdict["status"])
    word = WORD.get(status, status)
    return word if status == "execution_error" else f"{verdict['score']:.3f} {word}"


def _why(change: Change) -> str:
    lines = [safe_text(str(each), limit=_WHY, keep=frozenset()) for each in change["why"]]
    more = [f"… and {len(lines) - _REASONS} more"] if len(lines) > _REASONS else []
    return "\n".join([*lines[:_REASONS], *more])
