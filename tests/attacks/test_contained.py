"""Nothing gets through: the product's own self-check, on this engine."""

from __future__ import annotations

import pytest

from agentv_sandbox.machine.selfcheck import Report

pytestmark = [pytest.mark.engine, pytest.mark.every_engine, pytest.mark.xdist_group("selfcheck")]


def test_everything_is_contained(report: Report) -> None:
    assert report.ok, "\n".join(map(str, report.failures))


def test_the_check_is_not_empty(report: Report) -> None:
    """A script that dies early must not look like a wall that holds."""
    tried = {a.id for a in report.attempts}
    assert len(report.attempts) >= 650
    assert {f"E{n}" for n in (*range(1, 24), 26)} <= tried
    assert {"R1", "R2", "R9", "R14", "R17", "R22", "R24", "R25", "R27", "R30"} <= tried
    assert {"N7", "N8", "S4", "S6", "A0", "A1", "A3", "A12", "A21", "G1-G16", "O7", "O14"} <= tried
    assert report.seconds < 300  # about 30 on an idle machine


def test_the_figures_can_be_printed(report: Report) -> None:
    lines = list(report.lines())
    assert any(line.startswith("attacks tried") and line.endswith("got through 0") for line in lines)
    assert any(line.startswith("isolation tier:") for line in lines)
