"""``pytest``: counts of our own plugin become a verdict; whatever else is printed does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests import forkserver
from tests.graders.fakes import PROJECT, FakeTools, grade_one, ran, spec_of

NONE = {
    "passed": 0,
    "failed": 0,
    "skipped": 0,
    "expected": 0,
    "missing": 0,
    "code": 0,
    "broken": [],
    "tests": [],
    "modules": [],
}


def verdict(score: str = "all", **said: Any) -> tuple[float, str | None]:
    tools = FakeTools([ran(json.dumps({**NONE, **said}))])
    options = {"tests": (PROJECT / "hidden" / "test_it.py",), "cwd": PROJECT, "score": score}
    done = grade_one(spec_of("pytest", options), tools)
    return done.score, done.error


@pytest.mark.parametrize(
    ("said", "whole", "share"),
    [
        ({"passed": 4}, 1, 1),
        ({"passed": 3, "failed": 1, "code": 1}, 0, 0.75),
        ({"passed": 3, "missing": 1}, 0, 0.75),
        ({"passed": 3, "skipped": 5, "expected": 2}, 1, 1),
        ({"failed": 2, "code": 1}, 0, 0),
    ],
)
def test_the_score_is_the_share_or_all_or_nothing(said: dict[str, int], whole: float, share: float) -> None:
    assert verdict(**said) == (whole, None)
    assert verdict("share", **said) == (share, None)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"code": 5}, "nothing ran"),
        ({}, "nothing ran"),
        ({"skipped": 3}, "all tests were skipped"),
        ({"skipped": 3, "expected": 1}, "all tests were skipped"),
        ({"broken": ["test_it.py: ImportError"], "code": 2}, "nothing ran: test_it.py: ImportError"),
        ({"passed": 9, "broken": ["test_two.py: ImportError"], "code": 1}, "test_two.py: ImportError"),
        ({"passed": 9, "code": 3}, "pytest ended with 3"),
    ],
)
def test_what_did_not_run_as_a_whole_fails(said: dict[str, Any], why: str) -> None:
    score, error = verdict("share", **said)
    assert score == 0 and why in (error or "")


@pytest.mark.parametrize(
    "stdout",
    [
        *("", "4 passed", "[]", '{"passed": 4}', '{"passed": "4"}', "{" * 10_000, json.dumps(NONE) * 2),
        *(
            json.dumps({**NONE, "passed": 1, **wrong})
            for wrong in (
                {"tests": [5]},
                {"tests": [{"name": "a", "outcome": "won", "why": ""}]},
                {"tests": 5},
                {"passed": True},
                {"passed": -1},
                {"broken": 5},
            )
        ),
    ],
)
def test_only_whole_counts_are_believed(stdout: str) -> None:
    options = {"tests": (PROJECT / "test_it.py",), "cwd": PROJECT}
    done = grade_one(spec_of("pytest", options), FakeTools([ran(stdout)]))
    assert done.score == 0 and done.error


def test_a_timeout_fails_and_a_missing_pytest_is_no_verdict() -> None:
    spec = spec_of("pytest", {"tests": (PROJECT / "test_it.py",), "cwd": PROJECT})
    late = grade_one(spec, FakeTools([ran(outcome="timeout")]))
    assert late.score == 0 and "timed out" in (late.error or "")
    missing = grade_one(spec, FakeTools([ran(stderr="No module named pytest", code=1)]))
    assert missing.not_begun and "No module named pytest" in (missing.error or "")


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"type": "pytest", "tests": ["hidden/test_*.py"]}, ""),
        ({"type": "pytest", "tests": "hidden/test_it.py", "folder": "src", "score": "share"}, ""),
        ({"type": "pytest", "tests": ["gone/*.py"]}, "no file of the project matches 'gone/*.py'"),
        ({"type": "pytest", "tests": ["**/**/**/**/**/x.py"]}, "invalid pattern"),
        (
            {"type": "pytest", "tests": ["hidden/test_it.py"], "folder": "../x"},
            "is a folder of the workspace",
        ),
        ({"type": "pytest"}, "tests"),
    ],
)
def test_an_entry_is_checked(tmp_path: Path, entry: dict[str, Any], said: str) -> None:
    targets = "targets: [{name: agent, provider: cli, command: 'true {OUTPUT_FILE}'}]\n"
    (tmp_path / "targets.yaml").write_text(targets)
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "test_it.py").write_text("def test(): pass\n")
    (tmp_path / "s.eval.yaml").write_text(
        "name: s\nexecution: {target: agent}\ntests:\n  - id: t\n    criteria: c\n    input: go\n"
        f"    assertions:\n      - {json.dumps(entry)}\n"
    )
    done = forkserver.command("validate", "s.eval.yaml", cwd=tmp_path)
    assert (done.returncode == 0) is (said == ""), done.stdout + done.stderr
    assert said in done.stderr and "Traceback" not in done.stderr


def test_a_script_of_that_name_goes_first(tmp_path: Path) -> None:
    (tmp_path / "targets.yaml").write_text(
        "targets: [{name: agent, provider: cli, command: 'true {OUTPUT_FILE}'}]\n"
    )
    (tmp_path / ".agentv" / "assertions").mkdir(parents=True)
    (tmp_path / ".agentv" / "assertions" / "pytest.py").write_text("print('{\"score\": 1}')\n")
    (tmp_path / "s.eval.yaml").write_text(
        "name: s\nexecution: {target: agent}\ntests:\n"
        "  - {id: t, criteria: c, input: go, assertions: [{type: pytest, of: ours}]}\n"
    )
    done = forkserver.command("validate", "s.eval.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
