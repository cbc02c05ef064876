"""``compare`` over the folders of real runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests import forkserver
from tests.e2e.conftest import Done, Project
from tests.pagedata import index_of

pytestmark = pytest.mark.engine

TESTS = 12


def run(project: Project, name: str, answer: str) -> Path:
    """A run of twelve tests, of which those with an even number want the answer ``yes``."""
    wanted = ["yes" if n % 2 == 0 else "e" for n in range(TESTS)]
    tests = "".join(
        f"  - {{id: t{n}, criteria: c, input: go, assert: [{{type: contains, value: {word}}}]}}\n"
        for n, word in enumerate(wanted)
    )
    project.write(
        {
            "s.eval.yaml": f"execution: {{target: agent}}\ntests:\n{tests}",
            ".agentv/targets.yaml": f"targets:\n  - {{name: agent, provider: mock, response: {answer}}}\n",
        }
    )
    folder = project.folder / name
    done = forkserver.run(
        project.argv("run", "s.eval.yaml", "-o", str(folder)),
        cwd=project.folder,
        env=project.env(),
        timeout=300,
    )
    assert done.returncode in (0, 1), done.stderr
    return folder


def compare(project: Project, *args: str) -> Done:
    argv = project.argv("compare", *args)
    done = forkserver.run(argv, cwd=project.folder, env=project.env(), timeout=60)
    return Done(done.returncode, done.stdout, done.stderr, project.folder)


def test_runs_are_compared_test_by_test_and_a_fall_ends_with_status_1(project: Project) -> None:
    base, same, worse = (
        run(project, name, answer) for name, answer in [("a", "yes"), ("b", "yes"), ("c", "never")]
    )

    done = compare(project, str(base), str(same), "--fail-on-regression")
    assert done.code == 0 and done.stderr == ""
    # Nothing fell; that nothing ever would, twelve tests do not show.
    assert done.stdout.splitlines()[-1].startswith(
        "RESULT: NOT ENOUGH EVIDENCE  (mean change +0.000 over 12 tests"
    )
    assert "92 that stay equal are enough" in done.stdout
    assert "12 tests: 12 did not change" in done.stdout
    assert " t11 " not in done.stdout
    assert (
        len(re.findall(r"^ *t\d+ .* same *$", compare(project, str(base), str(same), "--all").stdout, re.M))
        == 12
    )
    assert "RESULT: NOT ENOUGH" in compare(project, str(base), str(same), "--margin", "0").stdout
    assert "RESULT: BETTER OR EQUAL" in compare(project, str(base), str(same), "--margin", "0.5").stdout

    gate = ("--fail-on-regression", "--confidence", "0.95")
    done = compare(project, str(base), str(same), str(worse), *gate)
    assert done.code == 1
    verdicts = [line.partition("  ")[0] for line in done.stdout.splitlines() if line.startswith("RESULT")]
    assert verdicts == ["RESULT: NOT ENOUGH EVIDENCE", "RESULT: WORSE"]
    assert "12 tests: 6 fell, 6 did not change" in done.stdout
    fallen = [line.split()[:4] for line in done.stdout.splitlines() if line.endswith("fell ")]
    assert sorted(fallen) == [[f"t{n}", "1.00", "0.00", "-1.00"] for n in (0, 10, 2, 4, 6, 8)]
    assert compare(project, str(base), str(worse), "--confidence", "0.95").code == 0

    done = compare(project, str(base), str(worse))
    assert (
        done.code == 0 and "RESULT: NOT ENOUGH EVIDENCE  (mean change -0.500" in done.stdout
    )  # six falls: 1/64
    assert "More tests, or more trials in both runs, would say more" in done.stdout

    assert compare(project, str(base), str(worse), "--page", "page.html").code == 0
    (shown,) = index_of(project.folder / "page.html")["comparisons"]
    assert shown["sentence"].startswith("mean change -0.500 over 12 tests")
    assert [change[3] for change in shown["tests"]].count("fell") == 6
    made = forkserver.run(
        project.argv("report", str(base), str(worse), "-o", "again.html"), cwd=project.folder, check=True
    )
    assert made.returncode == 0
    assert (project.folder / "again.html").read_bytes() == (project.folder / "page.html").read_bytes()
    done = compare(project, str(base), str(worse), "--page", "no/such/folder.html")
    assert (done.code, "--page: cannot write the report" in done.stderr) == (2, True), done.stderr

    (read,) = json.loads(compare(project, str(base), str(worse), "--json").stdout)
    assert (read["outcome"], read["paired_tests"], read["mean_difference"]) == (
        "not enough evidence",
        12,
        -0.5,
    )
    assert read["chance_of_fall"] == pytest.approx(1 / 64)
    assert read["totals"]["run"]["passed"] == 6 and read["totals"]["base"]["passed"] == 12
    assert [test["change"] for test in read["tests"]] == ["fell"] * 6 + ["same"] * 6


def test_all_folders_that_cannot_be_compared_are_named(project: Project) -> None:
    base = run(project, "a", "yes")
    (project.folder / "empty").mkdir()
    (project.folder / "empty" / "index.jsonl").write_text("")
    done = compare(project, str(base), "nowhere", "empty", str(base))
    assert done.code == 2
    assert "nowhere: cannot read results: nowhere: No such file or directory" in done.stderr
    assert "empty/index.jsonl: there is no result in it" in done.stderr
    assert "2 problems" in done.stderr and "RESULT" not in done.stdout


def test_names_of_another_programs_rows_cannot_paint_the_terminal(project: Project) -> None:
    row = {
        "test_id": "\x1b[31m",
        "suite": "\x1b[2J",
        "target": "\x07",
        "score": 0.5,
        "execution_status": "ok",
    }
    for name, score in (("x", 0.5), ("y", 0.1)):
        project.write({f"{name}/index.jsonl": json.dumps({**row, "score": score}) + "\nnot JSON\n{}\n"})
    done = compare(project, "x", "y")
    assert (
        done.code == 0 and "\x1b" not in done.stdout + done.stderr and "\x07" not in done.stdout + done.stderr
    )
    assert "x/index.jsonl:2: not a JSON object" in done.stderr
    assert "1 test: 1 fell" in done.stdout
