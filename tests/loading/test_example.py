"""``examples/input-files``: three ways to write one thing, and the run that its README promises."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from agentv_sandbox.loading import load_suites
from agentv_sandbox.project import Project, words_of
from agentv_sandbox.targets.chosen import used_targets
from tests.examples import EXAMPLES, NAMES, clone, commands, run_as_shown

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


@pytest.mark.parametrize("name", NAMES)
def test_every_example_is_valid_by_the_commands_that_its_readme_shows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a clone's root; scripts that a target's command names are found there, too."""
    for key in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL", "ANTHROPIC_API_KEY"):
        monkeypatch.setenv(key, "x")
    root = clone(tmp_path)
    shown = commands(name)
    assert shown
    for command in shown:
        assert Path(root, command[2]).exists()
        result = load_suites([root / command[2]], cwd=root, environ=os.environ)
        assert [str(p) for p in result.problems] == []
        assert sum(len(suite.cases) for suite in result.suites) > 0
        project = Project(root, cwd=root)
        for suite in result.suites:
            used = used_targets(suite, ())
            assert used
            for target in (target for target in used if target.provider == "cli"):
                line = str(target.settings["command"])
                scripts = [word for word in words_of(line) if word.endswith((".py", ".sh", ".ts"))]
                bases = [*target.script_folders, root]
                assert scripts[0] in project.named_in(line, bases=bases, template=None)


@pytest.mark.engine
def test_the_example_passes(tmp_path: Path) -> None:
    ran = run_as_shown("input-files", clone(tmp_path / "clone"), tmp_path / "results")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "(9/9 scored" in ran.stdout
