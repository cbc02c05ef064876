"""A folder full of mistakes: each is found, in its place, with what to write instead, and nothing else is."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from agentv_sandbox.base.errors import Problem
from agentv_sandbox.loading import load_suites, problems_as_json

PLANTED = Path(__file__).with_name("planted")
_EXPECT = re.compile(r"# expect(-warning)?: (.*)")
NOT_IN_COMMENTS = {
    ("evals/lines.jsonl", 3): "is not valid JSON",
    ("evals/lines.jsonl", 4): "a second test has the id 'l1'",
}


def planted(tmp_path: Path) -> tuple[Path, tuple[Problem, ...]]:
    root = tmp_path / "planted"
    shutil.copytree(PLANTED, root)
    (root / ".git").mkdir()
    (tmp_path / "outside.txt").write_text("a file outside the project")
    return root, load_suites([Path("evals")], cwd=root, environ={}).problems


def test_every_mistake_is_named_in_its_line_and_nothing_else(tmp_path: Path) -> None:
    root, problems = planted(tmp_path)
    expected = {key: ("", text) for key, text in NOT_IN_COMMENTS.items()}
    for path in sorted(p for p in root.rglob("*") if p.is_file() and p.suffix in (".yaml", ".jsonl")):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if match := _EXPECT.search(line):
                expected[str(path.relative_to(root)), number] = (match[1] or "", match[2])
    assert len(expected) >= 36
    found = {(str(p.path.relative_to(root)), p.line): p for p in problems if p.path}
    assert {k: str(p) for k, p in found.items() if k not in expected} == {}
    assert sorted(expected.keys() - found.keys()) == []
    for key, (warning, texts) in expected.items():
        for text in texts.split(" | "):
            assert text in str(found[key])
        assert found[key].warning == bool(warning), found[key]


def test_problems_for_tools_have_numbers_not_prose(tmp_path: Path) -> None:
    root, problems = planted(tmp_path)
    row = next(r for r in problems_as_json(problems) if r.get("field") == "execution.workers")
    assert row == {
        "severity": "error",
        "message": "must be at most 50, found 99",
        "path": str(root / "evals/keys.eval.yaml"),
        "line": 5,
        "column": 12,
        "field": "execution.workers",
        "hint": "workers: how many tests run at a time.",
    }
