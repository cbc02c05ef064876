"""``pytest``: counts of our own plugin become a verdict; whatever else is printed does not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentv_sandbox.models.case import GraderResult
from tests import forkserver
from tests.graders.fakes import PROJECT, FakeTools, grade_one, ran, spec_of

NONE = {
    "passed": 0,
    "failed": 0,
    "skipped": 0,
    "expected": 0,
    "surprising": 0,
    "missing": 0,
    "code": 0,
    "broken": [],
    "tests": [],
    "left_out": {},
    "files_left_out": [],
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


def settled(left_out: dict[str, str], own: dict[str, str], *, alone: Any = None, **said: Any) -> GraderResult:
    """Verdict where ``left_out`` is with the candidate, and ``own`` without it; ``alone``: how that run ended."""
    counts = {outcome: list(left_out.values()).count(outcome) for outcome in set(left_out.values())}
    names = {**left_out, **dict.fromkeys(said.pop("fine", ()), "passed")}
    tests = [{"name": name, "outcome": outcome, "why": ""} for name, outcome in names.items()]
    first = {**NONE, "passed": 2, **counts, "left_out": left_out, "tests": tests, **said}
    second = json.dumps({**NONE, "left_out": own, "files_left_out": said.get("own_files", [])})
    first.pop("own_files", None)
    tools = FakeTools([ran(json.dumps(first)), alone or ran(second)])
    options = {"tests": (PROJECT / "hidden" / "test_it.py",), "cwd": PROJECT, "score": "share"}
    done = grade_one(spec_of("pytest", options), tools)
    assert [json.loads(call.stdin)["without"] for call in tools.calls] == [False, True]
    return done


@pytest.mark.parametrize(
    ("left_out", "own", "share"),
    [
        ({"a": "skipped"}, {"a": "skipped"}, 1),
        ({"a": "skipped"}, {}, 2 / 3),
        ({"a": "expected", "b": "skipped"}, {"b": "skipped"}, 2 / 3),
        ({"a": "expected"}, {"a": "skipped"}, 1),
        ({"a": "surprising"}, {}, 1),
        ({"a": "skipped", "b": "surprising"}, {"c": "skipped"}, 3 / 4),
    ],
)
def test_what_is_left_out_only_with_the_candidate_has_failed(
    left_out: dict[str, str], own: dict[str, str], share: float
) -> None:
    done = settled(left_out, own)
    assert done.score == pytest.approx(share)
    said = {each.text: each.evidence or "" for each in done.assertions if not each.passed}
    assert all("by what the candidate says" in why for why in said.values())


def test_what_is_not_remembered_by_name_has_failed() -> None:
    assert settled({"a": "skipped"}, {"a": "skipped"}, skipped=3).score == 0.5


@pytest.mark.parametrize("alone", [ran("{"), ran(code=1), ran(outcome="timeout"), ran(json.dumps([]))])
def test_a_run_without_the_candidate_that_says_nothing_excuses_nothing(alone: Any) -> None:
    assert settled({"a": "skipped"}, {"a": "skipped"}, alone=alone).score == pytest.approx(2 / 3)


def test_an_engine_that_ends_the_run_without_the_candidate_gives_no_verdict() -> None:
    assert settled({"a": "skipped"}, {}, alone=ran(outcome="engine")).not_begun


@pytest.mark.parametrize(("own", "score"), [([], 0), (["test_two.py"], 1)])
def test_a_file_that_is_skipped_only_with_the_candidate_fails_all(own: list[str], score: float) -> None:
    done = settled({}, {}, files_left_out=["test_two.py"], own_files=own)
    assert done.score == score
    assert score or "test_two.py is left out by what the candidate says" in (done.error or "")


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
