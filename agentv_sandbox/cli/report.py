"""``agentv-sandbox report``: run folders as one page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from agentv_sandbox.cli.common import err, out, with_exit_codes
from agentv_sandbox.errors import InputError, Problem
from agentv_sandbox.logs import safe_name, safe_text
from agentv_sandbox.report.comparison import Comparison, compare_runs
from agentv_sandbox.report.comparisonwords import evidence
from agentv_sandbox.report.layout import PAGE
from agentv_sandbox.report.packing import require_unaltered
from agentv_sandbox.report.page import write_report
from agentv_sandbox.report.runreader import Run

COMPARISON = "comparison.html"
"""The page of several runs, in the current folder."""


@with_exit_codes
def report(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="Folders of runs; with several, each is compared with the first.",
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help=f"Where to write it, instead of {PAGE} in the folder of one run, or {COMPARISON} here.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Write runs as one HTML page: what failed and why, every test with all that is known of it, runs side by side.

    Exit status: 0; 2 when a folder cannot be read or the page cannot be written.
    """
    opened = open_runs(runs)
    path = output or _usual_place(runs)
    write(path, opened, [compare_runs(opened[0], run) for run in opened[1:]], field="--output")
    out.print(f"Report: {safe_name(str(path))}", markup=False, soft_wrap=True)


def open_runs(paths: Sequence[Path]) -> list[Run]:
    """Runs that hold results; what is wrong with single rows is a warning. Raises InputError with the problems of all
    of them."""
    runs: list[Run] = []
    problems: list[Problem] = []
    for path in paths:
        try:
            require_unaltered(path)
            run = Run.open(path)
        except InputError as error:
            problems += error.problems
            continue
        if not run.rows:
            problems.append(Problem(message="there is no result in it", path=path / "index.jsonl"))
        for sentence in run.problems:
            err.print(safe_text(f"warning: {sentence}"), markup=False)
        runs.append(run)
    if problems:
        raise InputError(problems)
    return runs


def write(path: Path, runs: Sequence[Run], comparisons: Sequence[Comparison], *, field: str) -> None:
    """Write one page. ``field``: the option that named it. Raises InputError."""
    try:
        write_report(path, runs, comparisons, [evidence(comparison) for comparison in comparisons])
    except OSError as error:
        message = f"cannot write the page: {error.strerror or error}"
        raise InputError([Problem(message=message, path=path, field=field)]) from error


def _usual_place(runs: Sequence[Path]) -> Path:
    if len(runs) > 1:
        return Path(COMPARISON)
    return runs[0] / PAGE
