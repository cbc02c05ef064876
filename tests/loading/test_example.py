"""``examples/input-files``: three ways to write one thing, and the run that its README promises."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agentv_sandbox.loading import load_suites

EXAMPLES = Path(__file__).parents[2] / "examples"
EXAMPLE = EXAMPLES / "input-files"


def test_the_three_ways_are_one_input() -> None:
    result = load_suites([EXAMPLE], cwd=EXAMPLE, environ={})
    assert [str(p) for p in result.problems] == []
    by_name = {suite.name: {case.id: case for case in suite.cases} for suite in result.suites}
    short, long = by_name["input-files-short"], by_name["input-files-long"]
    for_all = by_name["input-files-for-all"]
    for mine, other in (("one-file", "one-file"), ("two-files", "files-of-its-own")):
        cases = [short[mine], long[mine], for_all[other]]
        plain = [
            replace(
                c,
                id="",
                suite="",
                position=None,
                assertions=tuple(replace(a, position=None) for a in c.assertions),
            )
            for c in cases
        ]
        assert plain[0] == plain[1] == plain[2]


def test_all_examples_load_without_a_problem() -> None:
    environ = dict.fromkeys(("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL", "ANTHROPIC_API_KEY"), "x")
    for folder in sorted(path for path in EXAMPLES.iterdir() if path.is_dir() and path.name != "ci"):
        result = load_suites([folder], cwd=folder, environ=environ)
        assert [str(p) for p in result.problems] == []
        assert sum(len(suite.cases) for suite in result.suites) > 0


@pytest.mark.engine
def test_the_example_passes(tmp_path: Path) -> None:
    project = Path(shutil.copytree(EXAMPLE, tmp_path / "project"))
    argv = [sys.executable, "-m", "agentv_sandbox", "run", ".", "-o", str(tmp_path / "results")]
    ran = subprocess.run(argv, cwd=project, capture_output=True, text=True, check=False, timeout=600)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "(9/9 scored" in ran.stdout
