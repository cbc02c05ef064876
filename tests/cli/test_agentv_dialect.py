"""Suites that AgentV runs, through ``validate`` and ``transpile``: what it ignores or shortens is no error here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentv_sandbox.loading import load_suites
from agentv_sandbox.models.suite import Suite

from .test_commands import command

TARGETS = "targets:\n  - {name: default, provider: mock, response: hi}\n"
CONTAINS = "[{type: contains, value: x}]"


def suite_text(test: str = f"assertions: {CONTAINS}", head: str = "") -> str:
    return f"{head}\ntests:\n  - id: one\n    input: hi\n    criteria: c\n    {test}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "targets.yaml").write_text(TARGETS)
    return tmp_path


def validated(folder: Path, text: str, name: str = "s.eval.yaml") -> list[dict[str, Any]]:
    (folder / name).write_text(text)
    done = command("validate", "--json", name, cwd=folder)
    problems: list[dict[str, Any]] = json.loads(done.stdout)
    assert done.returncode == (2 if any(p["severity"] == "error" for p in problems) else 0), done.stderr
    return problems


def loaded(folder: Path, name: str = "s.eval.yaml") -> Suite:
    return load_suites([folder / name], cwd=folder, environ={}).suites[0]


def test_recorded_calls_may_carry_their_input_and_output(folder: Path) -> None:
    call = "{tool: a, input: {x: 1}, output: y, argsMatch: subset, maxDurationMs: 5}"
    text = suite_text(f"assertions: [{{type: tool-trajectory, mode: in_order, expected: [{call}]}}]")
    problems = validated(folder, text)
    assert [(p["severity"], p["field"].rpartition(".")[2]) for p in problems] == [
        ("warning", "input"),
        ("warning", "output"),
    ]
    options: Any = loaded(folder).cases[0].assertions[0].options
    assert (options.expected[0].args_match, options.expected[0].max_duration_ms) == ("subset", 5)


def test_a_repository_may_be_named_by_owner_and_name(folder: Path) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    head = f"workspace: {{repos: [{{repo: pallets/click, commit: '{commit}'}}]}}"
    assert validated(folder, suite_text(head=head)) == []
    workspace = loaded(folder).workspace
    assert workspace is not None
    assert (workspace.repos[0].repo, workspace.repos[0].path) == (
        "https://github.com/pallets/click.git",
        "click",
    )


def test_below_a_folder_of_the_project_it_is_a_path(folder: Path) -> None:
    (folder / "repos").mkdir()
    problems = validated(folder, suite_text(head="workspace: {repos: [{repo: repos/clikc}]}"))
    assert "'repos/clikc' does not exist" in problems[0]["message"]


def test_the_target_of_a_single_test_is_ignored(folder: Path) -> None:
    text = suite_text(f"execution: {{target: nowhere}}\n    assertions: {CONTAINS}")
    (problem,) = validated(folder, text)
    assert (problem["severity"], problem["line"]) == ("warning", 6)
    assert loaded(folder).cases[0].targets == ()


def test_of_two_lists_of_assertions_the_unused_one_is_named(folder: Path) -> None:
    both = "assertions: [{type: contains, value: outer}]\nexecution: {assertions: [{type: contains, value: inner}]}"
    (problem,) = validated(folder, suite_text("", both))
    assert (problem["severity"], problem["field"]) == ("warning", "execution.assertions")
    assert [g.name for g in loaded(folder).cases[0].assertions] == ["contains-outer"]

    (folder / "l.yaml").write_text(f"name: lines\n{both}\n")
    (problem,) = validated(folder, '{"id": "one", "input": "hi", "criteria": "c"}\n', "l.jsonl")
    assert (problem["severity"], problem["field"]) == ("warning", "assertions")
    assert [g.name for g in loaded(folder, "l.jsonl").cases[0].assertions] == ["contains-inner"]


def test_a_file_block_in_an_expected_output_is_its_text(folder: Path) -> None:
    (folder / "want.md").write_text("Sales rose.\n")
    blocks = "[{type: text, value: 'Such as:'}, {type: file, value: want.md}]"
    (folder / "s.eval.yaml").write_text(
        suite_text(f"expected_output: [{{role: assistant, content: {blocks}}}]")
    )
    done = command("transpile", "--stdout", "s.eval.yaml", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["evals"][0]["expected_output"] == "Such as:\nSales rose.\n"
