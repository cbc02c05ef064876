"""Answers that stand where the agent can read them."""

from __future__ import annotations

import csv
import json
import posixpath
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from agentv_sandbox.audit.checks.base import Examined
from agentv_sandbox.audit.findings import Finding
from agentv_sandbox.audit.knowledge import keys_of, scripts_of, text_of
from agentv_sandbox.audit.programs import compared_values, kept_beside
from agentv_sandbox.audit.reach import IN_IMAGE, below, reach
from agentv_sandbox.base.errors import InputError
from agentv_sandbox.dockerfile.evaluating import Copy, RunStep, Step, evaluate
from agentv_sandbox.dockerfile.stages import read_dockerfile
from agentv_sandbox.scripts.pythontexts import compared_paths

_LIKE_AN_ANSWER = re.compile(
    r"(?i)(?:^|[._-])(answers?|solutions?|expected|gold(?:en)?|reference|oracle|truth|keys?)(?:[._-]|$)"
)
_SHORTEST = 3
"""Characters of an answer that is looked for."""
_SETTING = re.compile(
    r"(?m)^[ \t]*(?:-[ \t]+)?[\"']?([A-Za-z][\w.-]{0,60})[\"']?[ \t]*[:=][ \t]*[\"']?([^\n]{1,200}?)[\"']?[ \t]*,?"
    r"[ \t]*$"
)
"""A line of YAML, TOML or plain settings."""
_DIFFERS = frozenset({"diff", "cmp", "comm"})
_GIT = re.compile(
    r"(?i)\bgit\b|\bcommits?\b|\bhistory\b|\bbranch\w*|\brevert\w*|\brepositor\w+|\bversions?\b|\bblame\b"
)
_CHANGES = re.compile(
    r"\bsed\s+-\w*i|\bpatch\b|\bmv\b|\bcp\b|\brm\b|>\s*[\w./]+|\bperl\s+-\w*i|\bgit\s+(?:apply|rm|mv)\b"
)
_COMMITS = re.compile(r"\bgit\b[^&;|\n]{0,200}\bcommit\b")
_CODE = frozenset({".py", ".js", ".ts", ".go", ".rs", ".java", ".c", ".h", ".sh"})


def in_files(examined: Examined) -> Iterator[Finding]:
    """A file that the agent sees is the expected output, or is called an answer and holds it; or is what a grader
    compares with, or the solution."""
    case = examined.case
    wanted = case.reference_answer.strip()
    compared = [*keys_of(examined.suite, case), *kept_beside(case)]
    keys = {text.strip() for path in compared if len(text := text_of(path)) > _SHORTEST}
    held = _held_against(examined)
    constants = compared_values(examined.programs)
    scripts = {text_of(path).strip() for path in scripts_of(case)}
    # What stands beside a script is often what the image has as well, such as its data.
    beside = {text_of(path).strip() for script in scripts_of(case) for path, _ in below(script.parent)}
    for path, name, of_image in reach(examined.suite, examined.case, examined.reference):
        text = text_of(path).strip()
        called = any(_LIKE_AN_ANSWER.search(part) for part in name.split("/"))
        if not text or (len(text) < _SHORTEST and not (called and text in constants)):
            continue
        solved = text in scripts or (called and text in beside)
        # An image has data that tests read, too.
        # What the instruction names is what the work begins with.
        same = text in held and Path(name.removesuffix(IN_IMAGE)).name not in case.question
        why = _why(name, text, wanted, keys if called or not of_image or same else set()) or (
            "which is the solution"
            if solved
            else "which holds what its tests compare with"
            if called and _holds(text, constants)
            else ""
        )
        if why:
            yield examined.finding("answer-in-reach", f"the agent can read {name}, {why}", path=path, line=1)
            return


def _held_against(examined: Examined) -> frozenset[str]:
    """Contents of files among a task's tests that are held to be equal to what the agent made."""
    names = set()
    for program in examined.programs:
        if program.of_task and program.tree is not None:
            names |= set(compared_paths(program.tree))
        for call in program.calls if program.of_task else ():
            if call.words and call.words[0].rpartition("/")[2] in _DIFFERS:
                names |= set(call.words[1:])
    wanted = {Path(name).name for name in names if name.startswith(("/tests/", "./")) or "/" not in name}
    return frozenset(
        text.strip()
        for path in kept_beside(examined.case)
        if path.name in wanted and len(text := text_of(path)) > _SHORTEST
    )


def _why(name: str, text: str, wanted: str, keys: set[str]) -> str:
    called = any(_LIKE_AN_ANSWER.search(part) for part in name.split("/"))
    if len(wanted) >= _SHORTEST and text == wanted:
        return "which is the expected output"
    if called and len(wanted) >= _SHORTEST and Path(name).suffix not in _CODE and wanted in _values(text):
        return "which holds the expected output"
    if len(wanted) >= _SHORTEST and Path(name).suffix not in _CODE and wanted in _called_answers(text):
        return "which holds the expected output as an answer"
    if text in keys:
        return "which a grader compares with"
    return ""


def _holds(text: str, constants: frozenset[str]) -> bool:
    """Whether a text is one of some values; or has one, as a line or a value, that nothing else is by chance."""
    return text in constants or any(
        len(each) >= _SHORTEST and not each.isdigit() and each in constants for each in _values(text)
    )


def _documents(text: str) -> list[Any]:
    """JSON, or one document a line."""
    for parts in ([text], text.splitlines()):
        try:
            return [json.loads(part) for part in parts if part.strip()]
        except (ValueError, RecursionError):
            continue
    return []


def _called_answers(text: str) -> set[str]:
    """What stands under a key that is called an answer: in JSON or lines of it, however deep, and in ``key: value``."""
    waiting = [(each, False) for each in _documents(text)]
    found = {match[2] for match in _SETTING.finditer(text) if _LIKE_AN_ANSWER.search(match[1])}
    while waiting:
        value, called = waiting.pop()
        if isinstance(value, dict):
            waiting += [(each, called or bool(_LIKE_AN_ANSWER.search(key))) for key, each in value.items()]
        elif isinstance(value, list):
            waiting += [(each, called) for each in value]
        elif called:
            found.add(value if isinstance(value, str) else json.dumps(value))
    return found


def _values(text: str) -> list[str]:
    """Lines of a text and, of JSON, its values; of a table, the column that is called an answer."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return [*(line.strip() for line in text.splitlines()), *_column(text)]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
    return [each if isinstance(each, str) else json.dumps(each) for each in inner]


def _column(text: str) -> list[str]:
    try:
        head, *rows = csv.reader(text.splitlines())
    except (csv.Error, ValueError):
        return []
    at = next((number for number, name in enumerate(head) if _LIKE_AN_ANSWER.search(name)), None)
    return [row[at].strip() for row in rows if len(row) > at] if at is not None else []


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
    for path, name in below(space.template):
        folder = name.rpartition("/")[0]
        if added and any(_LIKE_AN_ANSWER.search(part) for part in (*folder.split("/"), Path(name).name)):
            lines = {line.strip() for line in text_of(path).splitlines()}
            if added <= lines:
                message = f"the agent can read {name}, which holds the lines of the solution"
                yield examined.finding("answer-in-reach", message, path=path, line=1)
                return


def in_image(examined: Examined) -> Iterator[Finding]:
    """A variable of the image is what tests compare with, or the history of its repository has files as they were
    before they were changed."""
    case = examined.case
    file = case.task.environment.dockerfile if case.task is not None else None
    if file is None:
        return
    try:
        written = read_dockerfile(file, text_of(file), architecture="amd64")
        made = evaluate(written, written.stages[-1], base={}, arguments={})
    except InputError:  # `validate` says what is wrong
        return
    constants = compared_values(examined.programs)
    for name, _, value in (str(each).partition("=") for each in made.config.get("Env") or ()):
        known = value in constants and not value.replace(".", "").isdigit()
        if known and len(value) > _SHORTEST and value not in case.question and name not in case.question:
            message = f"the agent can read the variable {name} of its image, which its tests compare with"
            yield examined.finding("answer-in-reach", message, path=file, line=1)
            return
    line = _changed_after_commit(made.steps)
    if line and not _GIT.search(case.question):
        message = (
            "the repository in its image has a history, with files as they were before they were changed"
        )
        yield examined.finding("answer-in-reach", message, path=file, line=line)


def _changed_after_commit(steps: Sequence[Step]) -> int:
    """The line of what changes a file after a commit and before the next; 0 where nothing does."""
    committed, changed = False, 0
    copied: set[str] = set()
    for step in steps:
        if isinstance(step, Copy):
            names = {posixpath.join(step.target, Path(name).name) for name in step.sources}
            names = names if step.target.endswith("/") else {*names, step.target}
            changed = changed or (step.line if committed and names & copied else 0)
            copied |= names
        if not isinstance(step, RunStep):
            continue
        for part in re.split(r"&&|;|\n", " ".join((*step.argv, step.script))):
            if ".git" in part and re.search(r"\brm\b", part):
                committed, changed = False, 0
            elif _COMMITS.search(part) and "--amend" not in part:
                if changed:
                    return changed
                committed = True
            elif committed and not changed and _CHANGES.search(part):
                changed = step.line
    return 0


CHECKS = (in_files, beside_solution, in_image)
