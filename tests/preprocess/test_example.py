"""The example of ``examples/preprocessors``, run as its README says; prompts asserted to the byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.examples import clone, run_as_shown

pytestmark = pytest.mark.xdist_group("preprocessors")

LEAD = "The report for Q3 is done.\n[[ file: out/report.xlsx ]]\n"
AS_CSV = "## Sheet: Q3\n\nregion,revenue\nNorth,1200.5\nSouth,830\n"
AS_JSON = json.dumps(
    {"Q3": [{"region": "North", "revenue": "1200.5"}, {"region": "South", "revenue": "830"}]}, indent=2
)
PAGE = "[[ file: out/report.html ]]\n# Q3\n\nRevenue: **2030.5**\n"
DECLARED = "[[ file: out/notes.csv ]]\nregion,remark\nNorth,new office\n\n"
UNREADABLE = "default UTF-8 read produced binary or invalid text; configure a preprocessor"
WARNING = f"[file preprocessing warning] out/photo.raw (application/octet-stream): {UNREADABLE}"


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("example")
    out = folder / "results"
    done = run_as_shown("preprocessors", clone(folder / "clone"), out)
    assert done.returncode == 0, done.stderr
    return out / "preprocessors"


def prompt(results: Path, case: str, grader: str) -> str:
    document: dict[str, Any] = json.loads((results / case / "prompts" / f"{grader}.json").read_text())
    return str(document["request"]["user_prompt"])


@pytest.mark.engine
def test_prompts(results: Path) -> None:
    expected = {
        "reads-the-files": LEAD + AS_CSV + PAGE + DECLARED + WARNING,
        "workbook-as-json": LEAD + AS_JSON + "\n" + PAGE + DECLARED + WARNING,
        "first-line-inline": LEAD
        + AS_CSV
        + '[[ file: out/report.html ]]\n"original_path":"out/report.html"\n'
        + DECLARED
        + WARNING,
    }
    assert {name: prompt(results, "report", name) for name in expected} == expected
    assert prompt(results, "builtin", "shipped-converter") == LEAD + AS_CSV + PAGE + WARNING


@pytest.mark.engine
def test_failures_are_in_results_and_diffs_show_workbooks(results: Path) -> None:
    grading = json.loads((results / "report" / "grading.json").read_text())
    for grader in grading["graders"]:
        assert grader["details"]["preprocessing"] == [
            {
                "path": "out/photo.raw",
                "media_type": "application/octet-stream",
                "reason": UNREADABLE,
                "stderr": "",
            }
        ]
    diff = (results / "report" / "workspace.diff").read_text()
    assert "+++ b/out/report.xlsx (as text)\t\n@@ -0,0 +1,5 @@\n+## Sheet: Q3\n" in diff


@pytest.mark.engine
def test_artifacts_are_named_by_their_hash_alone(results: Path) -> None:
    manifest = json.loads((results / "report" / "manifest.json").read_text())
    stored = {p.name for p in (results.parent / "artifacts" / "sha256").iterdir()}
    assert {f["sha256"] for f in manifest["files"]} <= stored
    assert all(len(name) == 64 for name in stored)
