"""The example of Python graders does what its README says."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "graders-python"


@pytest.mark.engine
def test_every_test_of_the_example_passes(tmp_path: Path, tool_image: str) -> None:
    project = tmp_path / "graders-python"
    shutil.copytree(EXAMPLE, project)
    done = subprocess.run(
        [sys.executable, "-m", "agentv_sandbox", "run", "graders.eval.yaml", "-o", str(tmp_path / "out")],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in (tmp_path / "out" / "index.jsonl").read_text().splitlines()]
    graders = {score["name"]: score for row in rows for score in row["scores"]}
    assert {row["test_id"]: row["execution_status"] for row in rows} == {
        "function": "ok",
        "explanation": "ok",
        "panel": "ok",
    }
    assert len(graders["behaves"]["assertions"]) == 3
    assert graders["panel"]["details"]["agreement"] == {"members": 3, "share": 1.0}
    assert graders["asks-the-model"]["details"] == {"calls_left": 2}
    assert graders["tone"]["score"] == 1
    benchmark = json.loads((tmp_path / "out" / "benchmark.json").read_text())
    assert [(panel["panel"], panel["share"], panel["alpha"]) for panel in benchmark["panels"]] == [
        ("panel", 1, 1)
    ]
