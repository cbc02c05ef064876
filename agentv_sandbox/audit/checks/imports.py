"""Graders that take code or programs of the workspace into their own process, or in the place of the image's."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

from agentv_sandbox.audit.checks.base import Examined
from agentv_sandbox.audit.findings import Finding
from agentv_sandbox.audit.programs import (
    Program,
    called,
    mentions_answer,
    mentions_workspace,
    of_answer,
    of_workspace,
)
from agentv_sandbox.authoring.shadowing import shell_line

_UNPICKLES = "unpickles a file of the workspace, which runs what its writer wants"
_LOADS = {
    "spec_from_file_location": "imports a file of the workspace",
    "SourceFileLoader": "imports a file of the workspace",
    "run_path": "runs a file of the workspace in its own process",
    "run_module": "runs a module of the workspace in its own process",
    "load_source": "imports a file of the workspace",
    **dict.fromkeys(("CDLL", "PyDLL", "LoadLibrary", "load_extension"), "loads a library of the workspace"),
    **dict.fromkeys(("unsafe_load", "read_pickle", "Unpickler"), _UNPICKLES),
}
"""By the last part of a name, which is the same however the module is called."""
_PICKLES = frozenset(
    f"{module}.{function}"
    for module in ("pickle", "dill", "joblib", "torch")
    for function in ("load", "loads")
) | {"shelve.open"}
_TEST_RUNNERS = frozenset({"unittest", "pytest", "doctest"})
_PATHS = ("sys.path.insert", "sys.path.append", "sys.path.extend", "site.addsitedir", ".syspath_prepend")
_EVALUATES = frozenset({"exec", "eval"})
"""`compile` alone runs nothing."""
_PATH_FIRST = re.compile(r"\bPATH=[\"']?(?:\$\{?AGENTV_WORKSPACE_PATH\}?|/workspace|\.)[^\s;:]*:")
_VENV = re.compile(
    r"(?:/workspace|AGENTV_WORKSPACE_PATH\}?\"?)/(?:[\w.-]+/)*(?:\.?venv|env)/bin/\w+|(?:^|[\s;&|(])(?:\.|source)\s+\S*/activate\b"
)
_LOADED = re.compile(
    r"\b(?:require|import)\(\s*[^()\n]{0,80}(?:workspace_path\b|workspacePath\b|AGENTV_WORKSPACE_PATH\b|[\"'`]/workspace/)"
)
_MADE = re.compile(r"\buv\s+(?:venv|init|sync)\b|-m\s+(?:venv|virtualenv)\b|\bvirtualenv\s")
"""An environment that the tests of a task make themselves."""
_SOURCES = frozenset({".", "source"})
_FROM_WORKSPACE = re.compile(r"(?:\.|source)\s+[\"']?(?:/workspace/|\$\{?AGENTV_WORKSPACE_PATH\b)")
_ON_PATH = re.compile(r"\bPYTHONPATH=[\"']?[^\s\"']*/workspace\b")
_LIBRARY = re.compile(
    r"\b(?:LD_PRELOAD|LD_LIBRARY_PATH|NODE_PATH|PERL5LIB|RUBYLIB|PYTHONSTARTUP)=\S*(?:/workspace|AGENTV_WORKSPACE_PATH)"
)


def in_python(examined: Examined) -> Iterator[Finding]:
    for program in examined.programs:
        if program.kind == "python" and program.tree is not None:
            found = next(_loads(program.tree), None)
            if found is not None:
                message, line = found
                yield examined.in_program("imports-from-workspace", message, program, line)


def _loads(tree: ast.Module) -> Iterator[tuple[str, int]]:
    names = of_workspace(tree)
    given = of_answer(tree)
    for name, call in called(tree):
        arguments = [*call.args, *(word.value for word in call.keywords)]
        there = any(mentions_workspace(argument, names) for argument in arguments)
        # One finding a call, the most telling first: a path opens the way to all that is imported later.
        if name.endswith(_PATHS) and there:
            yield "puts the workspace on Python's path, and imports from it in its own process", call.lineno
        elif there and (why := _LOADS.get(name.rpartition(".")[2])):
            yield why, call.lineno
        elif there and name in _PICKLES:
            yield _UNPICKLES, call.lineno
        elif _runs_tests(call) and _has_path_there(call, names):
            yield (
                "runs its tests in one process with the modules of the workspace, and believes how it ends",
                call.lineno,
            )
        elif name in _EVALUATES and (
            there or any(mentions_answer(argument, given) for argument in arguments)
        ):
            yield f"{name}s what the agent wrote in its own process", call.lineno


def _runs_tests(call: ast.Call) -> bool:
    """Whether a command is a call's first argument that starts Python's tests."""
    words = call.args[0].elts if call.args and isinstance(call.args[0], ast.List | ast.Tuple) else []
    texts = [word.value if isinstance(word, ast.Constant) else None for word in words]
    return any(pair[0] == "-m" and pair[1] in _TEST_RUNNERS for pair in pairwise(texts))


def _has_path_there(call: ast.Call, names: frozenset[str]) -> bool:
    """Whether ``env`` of a call puts the workspace on Python's path."""
    given = next((word.value for word in call.keywords if word.arg == "env"), None)
    pairs = [
        (key, value)
        for each in (ast.walk(given) if given is not None else ())
        if isinstance(each, ast.Dict)
        for key, value in zip(each.keys, each.values, strict=True)
    ]
    return any(
        isinstance(key, ast.Constant) and key.value == "PYTHONPATH" and mentions_workspace(value, names)
        for key, value in pairs
    )


def in_scripts(examined: Examined) -> Iterator[Finding]:
    """JavaScript that loads modules of the workspace."""
    for program in examined.programs:
        if program.kind == "script" and (match := _LOADED.search(program.text)):
            line = program.text.count("\n", 0, match.start()) + 1
            message = "loads a module of the workspace in its own process"
            yield examined.in_program("imports-from-workspace", message, program, line)


def in_shell(examined: Examined) -> Iterator[Finding]:
    for program in examined.programs:
        if program.kind == "shell" and (found := _shell(program)):
            message, line = found
            yield examined.in_program("imports-from-workspace", message, program, line)


def _shell(program: Program) -> tuple[str, int] | None:
    text = program.text
    for pattern, message in (
        (_PATH_FIRST, "looks for programs in the workspace first"),
        (_VENV, "uses a virtual environment of the workspace"),
        (_LIBRARY, "loads libraries from the workspace"),
    ):
        if (match := pattern.search(text)) and not (
            pattern is _VENV and program.of_task and _MADE.search(text)
        ):
            return message, text.count("\n", 0, match.start()) + 1
    lines = text.splitlines()
    for call in program.calls:
        if call.words[:1] and call.words[0] in _SOURCES and _FROM_WORKSPACE.search(lines[call.line - 1]):
            return "runs shell text of the workspace in its own process", call.line
    if program.of_task and (match := _ON_PATH.search(text)):
        message = "puts the workspace on Python's path, and imports from it in its own process"
        return message, text.count("\n", 0, match.start()) + 1
    line = shell_line(text)
    if (
        line is not None
        and not program.of_task
        and not re.search(r"python3?\S*\s+(?:-\S+\s+)*-m\s+(?:unittest|pytest|doctest)\b", text)
    ):
        return "starts Python in the workspace, where the agent's modules are imported by their names", line
    return None


CHECKS = (in_python, in_scripts, in_shell)
