from __future__ import annotations

from pathlib import Path

import pytest

from agentv_sandbox.models.suite import Suite


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite(
        path=tmp_path / "evals/reports.eval.yaml",
        project_root=tmp_path,
        search_roots=(tmp_path,),
        name="reports",
    )
