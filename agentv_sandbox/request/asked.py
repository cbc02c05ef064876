"""What is made of a request's fields: the options of each command, what was given, what ``run.json`` says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path

from agentv_sandbox.base.errors import Problem
from agentv_sandbox.request import RunRequest
from agentv_sandbox.request.option import Option


def _all_options() -> Iterator[tuple[str, Option]]:
    for each in fields(RunRequest):
        if "option" in each.metadata:
            yield each.name, each.metadata["option"]
        for part, known in each.metadata.get("parts", {}).items():
            yield f"{each.name}.{part}", known


_OPTIONS = dict(_all_options())


def options_of(command: str) -> Iterator[tuple[str, Option]]:
    """The options of ``command`` with the names of their fields, dotted in a record inside."""
    return ((name, known) for name, known in _OPTIONS.items() if command in known.commands)


def given(request: RunRequest) -> Iterator[tuple[str, Option, object]]:
    """What was asked beside the suites, as ``options_of`` names it, with its value."""
    plain = RunRequest()
    for name, known in _OPTIONS.items():
        value, default = request, plain
        for part in name.split("."):
            value, default = getattr(value, part), getattr(default, part)
        if value != default:
            yield name, known, value


def others(request: RunRequest, commands: Iterable[str]) -> Iterator[Problem]:
    """What was asked that none of ``commands`` does."""
    taken = {name for command in commands for name, _ in options_of(command)}
    for name, _, _ in given(request):
        if name not in taken:
            yield Problem(field=name, message=f"has no meaning for {' and '.join(commands)}")


def as_json(request: RunRequest) -> dict[str, object]:
    """What ``run.json`` says of it: what another grading has to know, and every other option that was given."""
    graded = {
        "targets": list(request.targets),
        "threshold": request.threshold,
        "grader_target": request.grader_target,
    }
    more = {name: _plain(value) for name, _, value in given(request)}
    return {**graded, **more}


def _plain(value: object) -> object:
    return str(value) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value
