"""``agentv-sandbox regrade`` and ``grade``: captured outputs, judged again or for the first time."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from agentv_sandbox import regrading
from agentv_sandbox.building import sentence
from agentv_sandbox.cli import options as opt
from agentv_sandbox.cli.common import counted, out, start_logs, with_exit_codes
from agentv_sandbox.cli.outcome import show_on_github
from agentv_sandbox.cli.run import Events, interruptible, show_report
from agentv_sandbox.logs import safe_name, safe_text
from agentv_sandbox.report.progress import Progress
from agentv_sandbox.report.summary import WORD
from agentv_sandbox.runfolder.redact import Redactor
from agentv_sandbox.runfolder.regraded import Change
from agentv_sandbox.runfolder.rows import Wire

SHOWN = 200
_WHY = 300
_REASONS = 4

TestIds = Annotated[
    list[str] | None,
    typer.Option(
        "--test-id",
        metavar="GLOB",
        show_default=False,
        help="Grade only tests whose id matches; may be repeated.",
    ),
]
NewFolder = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FOLDER",
        show_default=False,
        help="Run folder, new or empty; else .agentv/results/runs/EXPERIMENT/TIME.",
    ),
]


@with_exit_codes
def regrade(
    run: opt.RunFolderPath,
    suite: opt.SuitePaths = None,
    targets: opt.TargetsFile = None,
    test_id: TestIds = None,
    output: NewFolder = None,
    threshold: opt.Threshold = None,
    grader_target: opt.GraderTarget = None,
    workers: opt.Workers = None,
    allow_other_image: opt.OtherImage = False,
    trust_pack: opt.TrustPack = False,
    engine: opt.Engine = None,
    runtime: opt.Runtime = None,
    require_tier: opt.RequireTier = None,
    allow_outside: opt.AllowOutside = False,
    verbose: opt.Verbose = False,
) -> int:
    """Grade the outputs of a run again, with the same or changed graders. No agent runs; RUN stays as it is.

    Exit status: as that of `run`.
    """
    asked = regrading.GradeOptions(
        suites=suite or (),
        targets_file=targets,
        test_ids=test_id or (),
        threshold=threshold,
        grader_target=grader_target,
        workers=workers,
        allow_other_image=allow_other_image,
        trust_pack=trust_pack,
        engine=engine,
        runtime=runtime,
        required_tier=require_tier,
        allow_outside=allow_outside,
    )
    return _grade(run, asked, output, verbose=verbose, again=True)


@with_exit_codes
def grade(
    run: opt.RunFolderPath,
    suite: opt.SuitePaths = None,
    targets: opt.TargetsFile = None,
    test_id: TestIds = None,
    threshold: opt.Threshold = None,
    grader_target: opt.GraderTarget = None,
    workers: opt.Workers = None,
    allow_other_image: opt.OtherImage = False,
    trust_pack: opt.TrustPack = False,
    engine: opt.Engine = None,
    runtime: opt.Runtime = None,
    require_tier: opt.RequireTier = None,
    allow_outside: opt.AllowOutside = False,
    verbose: opt.Verbose = False,
) -> int:
    """Grade a run that was made with `run --no-grade`, here or on another machine, in its folder.

    Exit status: as that of `run`.
    """
    asked = regrading.GradeOptions(
        suites=suite or (),
        targets_file=targets,
        test_ids=test_id or (),
        threshold=threshold,
        grader_target=grader_target,
        workers=workers,
        allow_other_image=allow_other_image,
        trust_pack=trust_pack,
        engine=engine,
        runtime=runtime,
        required_tier=require_tier,
        allow_outside=allow_outside,
    )
    return _grade(run, asked, None, verbose=verbose, again=False)


def _grade(
    run: Path, asked: regrading.GradeOptions, output: Path | None, *, verbose: bool, again: bool
) -> int:
    start_logs(verbose)
    started = time.monotonic()
    # Secrets of judges are known once the suites are loaded; what is shown is redacted by the log's own filter too.
    with interruptible() as stop, Progress(out, redactor=Redactor(), sentence=sentence) as progress:
        events = Events(progress)
        if again:
            report = regrading.regrade(run, asked, output=output, stop=stop, on_event=events)
        else:
            report = regrading.grade(run, asked, stop=stop, on_event=events)
    show_report(report, Redactor(), out, seconds=time.monotonic() - started)
    show_on_github(report, {}, Redactor())
    if again:
        _show_changes(report)
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
