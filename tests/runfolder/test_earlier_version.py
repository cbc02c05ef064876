"""Run folders of the version before: they open, go on, are graded again and compared."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path

import pytest

from agentv_sandbox.base.errors import InputError
from agentv_sandbox.report import VIEWS
from agentv_sandbox.report.comparison import compare_runs
from agentv_sandbox.rows.reader import Run
from agentv_sandbox.rows.restoring import result_of
from agentv_sandbox.rows.rows import is_as_written
from agentv_sandbox.runfolder.captured import captured_run
from agentv_sandbox.runfolder.intact import Intact
from tests.e2e.conftest import Project
from tests.e2e.test_regrade import command
from tests.pipeline.test_resume import Resumed, notes, standing

KEPT = Path(__file__).with_name("earlier.tar.xz")
"""``home``: rows of each kind, of a suite whose agent is made up; ``native``: the project of ``test_regrade``, run."""


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    with tarfile.open(KEPT) as tar:
        tar.extractall(tmp_path, filter="data")
    for facts in tmp_path.glob("*/*/run.json"):
        text = facts.read_text().replace("/tmp/r3old", str(tmp_path))
        facts.write_text(text)
    return tmp_path


@pytest.mark.parametrize("name", ["home/out", "native/first"])
def test_every_row_is_as_it_was_written_and_gives_its_result(kept: Path, name: str) -> None:
    run = Run.open(kept / name)
    assert run.problems == [] and len(run.rows) in (4, 6)
    intact = Intact(run.path)
    for row in run.rows:
        assert row.whole and is_as_written(row) and intact.holds(row), row.test_id
        result = result_of(row)
        assert result is not None and (result.case_id, result.score) == (row.test_id, row.score)
    assert VIEWS["page"].write([run], kept / "page.html") == ""
    assert compare_runs(run, run).outcome in ("better or equal", "not enough evidence")


def test_what_rows_say_is_in_their_records(kept: Path) -> None:
    rows = {row.test_id: row for row in Run.open(kept / "home/out").rows}
    measured = rows["measured"]
    assert measured.claimed is not None and measured.claimed.turns == 2
    assert measured.model_calls is not None and measured.model_calls.calls == 2
    assert measured.scores[0].details == {"x": 1} and measured.scores[0].agents_word == ("cost_usd",)
    assert rows["failed"].scores[1].scores[0].name == "inner" and rows["failed"].notes == ("something",)
    assert rows["crashed"].status == "execution_error" and rows["crashed"].cause == "timeout"
    [twice] = [row for row in Run.open(kept / "native/first").rows if row.test_id == "twice"]
    assert [trial.score for trial in twice.trials] == [0.9, 0.9] and twice.trials[1].scores[
        0
    ].verdict == "pass"


def test_a_run_goes_on(kept: Path) -> None:
    run = Resumed(kept / "home", eval=(kept / "home/s.eval.yaml").read_text())
    before = run.index.read_text().splitlines()
    plan = run.again()
    assert standing(plan) == ["passed", "failed", "measured"]
    assert "crashed" in notes(plan)
    assert run.index.read_text().splitlines() == [line for line in before if '"crashed"' not in line]
    shutil.rmtree(run.output / "s/measured/outputs")
    assert standing(run.again()) == ["passed", "failed"]


@pytest.mark.engine
def test_a_run_is_graded_again(kept: Path, tool_image: str) -> None:
    project = Project(kept / "native")
    # Packages have newer versions by now than in the image of that run.
    done = command(project, "regrade", "first", "-o", "again", "--allow-other-image")
    assert done.code == 3, done.stdout + done.stderr
    old = [json.loads(line) for line in (kept / "native/first/index.jsonl").read_text().splitlines()]
    for row in old:
        now = done.rows[row["test_id"]]
        # Not what graders print: theirs is a hash of all that they saw, and how a number is written may change.
        judged = [
            [[each[key] for key in ("name", "score", "verdict")] for each in r.get("scores") or ()]
            for r in (row, now)
        ]
        assert (now["score"], judged[1]) == (row["score"], judged[0]), row["test_id"]


@pytest.mark.parametrize(
    "name", ["all/plain/capture.json", "trials/twice/trials/2/capture.json", "all/kinds/input.md"]
)
def test_what_somebody_edited_is_not_graded(kept: Path, name: str) -> None:
    run = kept / "native/first"
    captured_run(run, graded=True)
    with (run / name).open("a") as file:
        file.write(" ")
    with pytest.raises(InputError, match=f"altered since it was written.*{name.split('/')[1]}"):
        captured_run(run, graded=True)
