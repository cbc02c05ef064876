"""Prompts of LLM graders: text, a file, or a program that prints one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentv_sandbox.load.assertion_docs import LlmGraderDoc, PromptCommandDoc
from agentv_sandbox.load.commands import resolve_command
from agentv_sandbox.load.references import OUTSIDE, Project
from agentv_sandbox.load.tree import Map, Problems, plain, show
from agentv_sandbox.load.yaml12 import read_text

MAX_PROMPT_BYTES = 1 << 20
VARIABLES = frozenset(
    {
        "answer",
        "criteria",
        "expected_output",
        "file_changes",
        "input",
        "metadata",
        "metadata_json",
        "output",
        "question",
        "rubric",
        "rubrics",
        "rubrics_json",
        "tool_calls",
    }
)
_VARIABLE = re.compile(r"\{\{\s*([A-Za-z0-9_]+)\s*\}\}")
_PATH = re.compile(r"[^\s{}]{1,400}\Z")


@dataclass(frozen=True)
class Prompt:
    text: str | None = None
    file: Path | None = None
    command: tuple[str, ...] | None = None
    config: Mapping[str, Any] = field(default_factory=dict)


def read_prompt(doc: LlmGraderDoc, project: Project, problems: Problems) -> Prompt | None:
    """The prompt of a grader; None when it cannot be had."""
    if doc.prompt is None:
        return Prompt()
    if isinstance(doc.prompt, PromptCommandDoc):
        prompt = doc.prompt
        key = "command" if "command" in prompt.src else "script"
        command = resolve_command(prompt.src, key, prompt.command, project, problems)
        return Prompt(command=command, config=plain(prompt.config or {}))
    node, forced = doc.src, doc.prompt.startswith("file://")
    path = _file(doc.prompt, node, "prompt", project, problems)
    if path is None:
        return None if forced and not problems.converting else Prompt(text=doc.prompt)
    text = _text(path, project, problems)
    if text is None:
        return None
    names = set(_VARIABLE.findall(text))
    if not names & {"output", "answer", "expected_output"}:
        if not forced or problems.converting:
            return Prompt(text=text)
        message = f"{path.name} must hold {{{{ output }}}} or {{{{ expected_output }}}}"
        problems.error(node, "prompt", message, hint="the grader would not see the answer otherwise")
        return None
    for name in sorted(names - VARIABLES):
        known = ", ".join(sorted(VARIABLES))
        problems.warn(
            node, "prompt", f"{path.name} holds {{{{ {name} }}}}, which nothing fills", hint=f"known: {known}"
        )
    return Prompt(text=text, file=path)


def file_text(value: str | None, node: Map, key: str, project: Project, problems: Problems) -> str | None:
    """``value``, or what stands in the file that it names."""
    if value is None:
        return None
    path = _file(value, node, key, project, problems)
    if path is None:
        return value
    return _text(path, project, problems)


def _text(path: Path, project: Project, problems: Problems) -> str | None:
    """Each prompt file is read once, however many tests name it."""
    text = project.prompt_texts.get(path)
    if text is None and (text := read_text(path, problems, limit=MAX_PROMPT_BYTES)) is not None:
        text = project.prompt_texts[path] = text.replace("\r\n", "\n")
    return text


def _file(value: str, node: Map, key: str, project: Project, problems: Problems) -> Path | None:
    """The file a prompt names: ``file://…`` must exist; a bare relative path counts when it does."""
    forced = value.startswith("file://")
    name = value.removeprefix("file://")
    looks_like_path = (
        _PATH.match(name) is not None and ("/" in name or "." in name) and not name.startswith("/")
    )
    if not forced and not looks_like_path:
        return None
    found = project.find(name)
    if found.path is not None and found.path.is_file():
        return found.path
    if forced or found.reason == OUTSIDE:
        problems.broken(
            node, key, f"the prompt file {show(name)} {found.reason or 'is not a file'}", hint=found.hint
        )
    elif name.startswith(("./", "../")) or name.endswith((".md", ".txt")):
        hint = f"{found.hint}; write file://{name} to make this an error"
        problems.warn(
            node, key, f"{show(name)} looks like a file and does not exist; it is used as text", hint=hint
        )
    return None
