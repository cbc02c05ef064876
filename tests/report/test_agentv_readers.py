"""AgentV's own commands open a run folder of ours."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentv_sandbox.cli import app
from agentv_sandbox.models.suite import Suite
from agentv_sandbox.report import kept_views
from agentv_sandbox.report.comparison import compare_runs
from agentv_sandbox.rows.reader import Run
from agentv_sandbox.rows.rowfile import read_rows
from agentv_sandbox.rows.rows import is_as_written
from agentv_sandbox.runfolder.folder import RunFolder
from tests.agentv import agentv_command
from tests.report.made_results import make_case, make_error, make_result, write_case

pytestmark = pytest.mark.slow


def make_run_folder(project: Path) -> Path:
    suite = Suite(
        path=project / "reports.eval.yaml", project_root=project, search_roots=(project,), name="reports"
    )
    results = (
        make_result("q1"),
        make_result("q2", 0.25),
        make_error("q9"),
        make_result("q1", 0.5, target="other"),
    )
    with RunFolder.create(None, project, matrix=True) as folder:
        for result in results:
            write_case(folder, result, make_case(result.case_id), suite)
        folder.finish(views=kept_views())
    return folder.path


class AgentV:
    """AgentV's command line."""

    def __init__(self, cwd: Path) -> None:
        self._argv = agentv_command()
        self._cwd = cwd

    def __call__(self, *arguments: str | Path) -> str:
        done = subprocess.run(
            [*self._argv, *map(str, arguments)],
            cwd=self._cwd,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def test_agentv_opens_our_run_folder(tmp_path: Path) -> None:
    folder = make_run_folder(tmp_path)
    agentv = AgentV(tmp_path)
    rows = read_rows(folder).rows
    first = rows[0]["test_id"]
    validated = agentv("results", "validate", folder)
    assert "0 error(s)" in validated, validated
    summary = json.loads(agentv("results", "summary", folder))
    assert summary["total"] == len(rows), summary
    failed = json.loads(agentv("results", "failures", folder))
    passing = sum(1 for row in rows if row["execution_status"] == "ok")
    assert len(failed) == len(rows) - passing, failed
    shown = json.loads(agentv("results", "show", folder, "--test-id", first))
    assert shown["test_id"] == first and shown["score"] == rows[0]["score"], shown
    assert f"{len(rows)} tests" in agentv("inspect", "show", folder)
    assert "latency_s" in agentv("inspect", "stats", folder)
    assert first in agentv("inspect", "filter", folder)
    targets = {row["target"] for row in rows}
    compared = agentv("compare", folder) if len(targets) > 1 else agentv("compare", folder, folder)
    assert first in compared
    agentv("results", "export", folder, "--out", folder.parent / f"{folder.name}-export")
    agentv("results", "report", folder, "--out", folder.parent / f"{folder.name}.html")


AGENT = """
echo "$1" >> ran.txt
echo all done > $2
"""
TARGETS = "targets:\n  - {name: agent, provider: cli, command: 'sh agent.sh {EVAL_ID} {OUTPUT_FILE}'}\n"
TEST = "  - {id: %s, criteria: c, input: go, assertions: [{type: contains, value: all done}]}\n"


def test_agentv_sees_the_trend_of_our_runs_and_runs_what_failed_again(tmp_path: Path) -> None:
    """It takes execution errors for scores of 0, which we leave out, and puts its rows in the place of ours."""
    (tmp_path / ".agentv").mkdir()
    (tmp_path / ".agentv/targets.yaml").write_text(TARGETS)
    (tmp_path / "agent.sh").write_text(AGENT)
    eval_file = tmp_path / "reports.eval.yaml"
    head = "name: reports\nexecution: {target: agent}\ntests:\n"
    eval_file.write_text(head + "".join(TEST % name for name in ("q1", "q2", "q9")))
    suite = Suite(path=eval_file, project_root=tmp_path, search_roots=(tmp_path,), name="reports")
    folders = []
    for score in (0.5, 0.25):
        with RunFolder.create(tmp_path / f"run-{score}", tmp_path) as folder:
            for result in (make_result("q1"), make_result("q2", score), make_error("q9")):
                write_case(folder, result, make_case(result.case_id), suite)
            folder.finish(views=kept_views())
        folders.append(folder.path)
    agentv = AgentV(tmp_path)
    trend = json.loads(agentv("trend", *folders, "--json"))
    assert [run["mean_score"] for run in trend["runs"]] == [0.5, pytest.approx(1.25 / 3, abs=1e-5)]
    compared = compare_runs(*map(Run.open, folders))
    assert (compared.before.mean, compared.after.mean) == (0.75, 0.625)
    ours = read_rows(folders[1]).rows[0]
    agentv("eval", "run", eval_file, "--output", folders[1], "--rerun-failed")
    assert sorted((tmp_path / "ran.txt").read_text().split()) == ["q2", "q9"]
    read = read_rows(folders[1])
    # It writes each row that it puts in the place of another twice.
    assert [problem[-14:] for problem in read.problems] == ["it counts once"] * 2
    assert read.rows[0] == ours and is_as_written(ours) and is_as_written(read.rows[0])
    replaced = read.rows[1:]
    assert len(replaced) == 2
    assert {(row["test_id"], row["score"]) for row in replaced} == {("q2", 1), ("q9", 1)}
    assert not any(map(is_as_written, replaced))


def test_a_run_of_agentvs_is_compared_with_ours(tmp_path: Path) -> None:
    """As one who comes from AgentV does."""
    (tmp_path / ".agentv").mkdir()
    (tmp_path / ".agentv/targets.yaml").write_text(TARGETS)
    (tmp_path / "agent.sh").write_text(AGENT)
    (tmp_path / "reports.eval.yaml").write_text(
        "name: reports\nexecution: {target: agent}\ntests:\n" + "".join(TEST % name for name in ("q1", "q2"))
    )
    AgentV(tmp_path)("eval", "run", "reports.eval.yaml", "--output", "before")
    suite = Suite(
        path=tmp_path / "reports.eval.yaml", project_root=tmp_path, search_roots=(tmp_path,), name="reports"
    )
    with RunFolder.create(tmp_path / "results", tmp_path) as folder:
        for result in (make_result("q1"), make_result("q2", 0.25)):
            write_case(folder, result, make_case(result.case_id), suite)
        folder.finish(views=kept_views())
    done = CliRunner().invoke(app, ["compare", str(tmp_path / "before"), str(folder.path), "--json"])
    assert done.exit_code == 0, done.output
    (read,) = json.loads(done.stdout)
    assert {test["test"]: test["change"] for test in read["tests"]} == {"q1": "same", "q2": "fell"}
