"""Answers that stand where the agent can read them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from agentv_sandbox.audit.checks.base import Examined
from agentv_sandbox.audit.findings import Finding
from agentv_sandbox.audit.knowledge import MOST_BYTES, keys_of, text_of
from agentv_sandbox.models.suite import Target
from agentv_sandbox.project import Project

_LIKE_AN_ANSWER = re.compile(
    r"(?i)(?:^|[._-])(answers?|solutions?|expected|golden?|reference|oracle|truth|keys?)(?:[._-]|$)"
)
_SHORTEST = 3
"""Characters of an answer that is looked for."""
_MOST_FILES = 2000
_CODE = frozenset({".py", ".js", ".ts", ".go", ".rs", ".java", ".c", ".h", ".sh"})


def in_files(examined: Examined) -> Iterator[Finding]:
    """A file that the agent sees is the expected output, or is called an answer and holds it; or is what a grader
    compares
    with."""
    case = examined.case
    wanted = case.reference_answer.strip()
    keys = {text.strip() for path in keys_of(examined.suite, case) if len(text := text_of(path)) > _SHORTEST}
    for path, name in _reach(examined):
        text = text_of(path).strip()
        if not text or len(text) < _SHORTEST:
            continue
        why = _why(name, text, wanted, keys)
        if why:
            yield examined.finding("answer-in-reach", f"the agent can read {name}, {why}", path=path, line=1)
            return


def _why(name: str, text: str, wanted: str, keys: set[str]) -> str:
    called = any(_LIKE_AN_ANSWER.search(part) for part in name.split("/"))
    if len(wanted) >= _SHORTEST and text == wanted:
        return "which is the expected output"
    if called and len(wanted) >= _SHORTEST and Path(name).suffix not in _CODE and wanted in _values(text):
        return "which holds the expected output"
    if text in keys:
        return "which a grader compares with"
    return ""


def _values(text: str) -> list[str]:
    """Lines of a text and, of JSON, its values."""
    try:
        value = json.loads(text)
    except ValueError:
        return [line.strip() for line in text.splitlines()]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
    return [each if isinstance(each, str) else json.dumps(each) for each in inner]


def _reach(examined: Examined) -> Iterator[tuple[Path, str]]:
    """Files that an agent sees, each with its name there."""
    case, suite = examined.case, examined.suite
    if case.workspace is not None and case.workspace.template is not None:
        yield from _below(case.workspace.template)
    for path in case.input_files:
        yield path, path.name
    if (target := examined.reference) is not None:
        for path in _of_target(target, Project(suite.project_root, cwd=suite.project_root)):
            yield path, path.relative_to(suite.project_root).as_posix()


def _of_target(target: Target, project: Project) -> list[Path]:
    return project.matching(target.files)


def _below(folder: Path) -> Iterator[tuple[Path, str]]:
    for number, path in enumerate(sorted(folder.rglob("*"))):
        if number > _MOST_FILES:
            return
        if (
            path.is_file()
            and not path.is_symlink()
            and path.stat().st_size <= MOST_BYTES
            and ".git" not in path.parts
        ):
            yield path, path.relative_to(folder).as_posix()


def beside_solution(examined: Examined) -> Iterator[Finding]:
    """A file of the workspace is what the oracle's patch makes of another."""
    oracle, space = examined.case.oracle, examined.case.workspace
    if oracle is None or oracle.patch is None or space is None or space.template is None:
        return
    added = {
        line[1:].strip()
        for line in text_of(oracle.patch).splitlines()
        if line[:1] == "+" and line[:3] != "+++"
    }
    added = {line for line in added if len(line) > _SHORTEST}
    for path, name in _below(space.template):
        folder = name.rpartition("/")[0]
        if added and any(_LIKE_AN_ANSWER.search(part) for part in (*folder.split("/"), Path(name).name)):
            lines = {line.strip() for line in text_of(path).splitlines()}
            if added <= lines:
                message = f"the agent can read {name}, which holds the lines of the solution"
                yield examined.finding("answer-in-reach", message, path=path, line=1)
                return


CHECKS = (in_files, beside_solution)
