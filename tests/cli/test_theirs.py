"""Options and commands of AgentV's that are not here: the error says what to write."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.beside.test_interface import rows
from tests.forkserver import command


def said(*words: str, cwd: Path) -> str:
    done = command(*words, cwd=cwd)
    assert done.returncode == 2
    return " ".join(re.sub(r"[│╭╮╰╯─]", " ", done.stderr).split())


@pytest.mark.parametrize(
    ("words", "ours"),
    [
        (("run", "x", "--keep-workspaces"), "--keep-failed"),
        (("run", "x", "--budget-usd", "1"), "budget_usd"),
        (("run", "x", "--model=y"), "--grader-target"),
        (("eval", "run", "x"), "agentv-sandbox run"),
        (("results", "show"), "report"),
    ],
)
def test_a_word_on_ours(words: tuple[str, ...], ours: str, tmp_path: Path) -> None:
    text = said(*words, cwd=tmp_path)
    assert "AgentV's" in text
    assert ours in text


def test_every_option_of_a_run_that_is_not_here_has_its_word(tmp_path: Path) -> None:
    missing = [
        option
        for names, state, _ in rows("Commands and options")
        for option in names[1:]
        if names[0] == "eval run" and state == "missing"
    ]
    assert len(missing) > 20
    assert [option for option in missing if "AgentV's" not in said("run", "x", option, cwd=tmp_path)] == []
