"""``report.html``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agentv_sandbox.report.page import write_report
from agentv_sandbox.report.view import View
from agentv_sandbox.rows.layout import PAGE
from agentv_sandbox.rows.reader import Run


def _write(runs: Sequence[Run], path: Path) -> str:
    write_report(path, runs)
    return ""


VIEWS = (
    View(
        name="page",
        summary="One HTML page: what failed and why, every test, runs side by side.",
        write=_write,
        suffix=".html",
        kept=PAGE,
        several=True,
    ),
)
