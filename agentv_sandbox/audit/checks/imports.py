"""Graders that take code or programs of the workspace into their own process, or in the place of the image's."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from agentv_sandbox.audit.checks.base import Examined
from agentv_sandbox.audit.findings import Finding
from agentv_sandbox.audit.programs import Program, called, mentions_workspace, of_workspace
from agentv_sandbox.authoring.shadowing import shell_line

_UNPICKLES = "unpickles a file of the workspace, which runs what its writer wants"
_LOADS = {
    "spec_from_file_location": "imports a file of the workspace",
    "SourceFileLoader": "imports a file of the workspace",
    "run_path": "runs a file of the workspace in its own process",
    "run_module": "runs a module of the workspace in its own process",
}
"""By the last part of a name, which is the same however the module is called."""
_PICKLES = frozenset(
    f"{module}.{function}"
    for module in ("pickle", "dill", "joblib", "torch")
    for function in ("load", "loads")
)
_PATHS = frozenset({"sys.path.insert", "sys.path.append", "site.addsitedir"})
_EVALUATES = frozenset({"exec", "eval", "compile"})
_ANSWERS = frozenset({"answer", "output", "response", "candidate", "code", "reply"})
_PATH_FIRST = re.compile(r"\bPATH=[\"']?(?:\$\{?AGENTV_WORKSPACE_PATH\}?|/workspace|\.)[^\s;:]*:")
_VENV = re.compile(
    r"(?:/workspace|AGENTV_WORKSPACE_PATH\}?\"?)/(?:[\w.-]+/)*(?:\.?venv|env)/bin/\w+|(?:^|[\s;&|(])(?:\.|source)\s+\S*/activate\b"
)
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
    given = _given_in(tree)
    for name, call in called(tree):
        arguments = [*call.args, *(word.value for word in call.keywords)]
        there = any(mentions_workspace(argument, names) for argument in arguments)
        # One finding a call, the most telling first: a path opens the way to all that is imported later.
        if name in _PATHS and there:
            yield "puts the workspace on Python's path, and imports from it in its own process", call.lineno
        elif there and (why := _LOADS.get(name.rpartition(".")[2])):
            yield why, call.lineno
        elif there and name in _PICKLES:
            yield _UNPICKLES, call.lineno
        elif name in _EVALUATES and (there or any(_of_answer(argument, given) for argument in arguments)):
            yield f"{name}s what the agent wrote in its own process", call.lineno


def _given_in(tree: ast.Module) -> frozenset[str]:
    """Variables that hold the agent's answer."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            texts = {
                each.value
                for each in ast.walk(node.value)
                if isinstance(each, ast.Constant) and isinstance(each.value, str)
            }
            reads = any(
                isinstance(each, ast.Attribute) and each.attr == "answer" for each in ast.walk(node.value)
            )
            if reads or texts & {"output", "answer", "messages"}:
                found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return frozenset(found)


def _of_answer(node: ast.AST, given: frozenset[str]) -> bool:
    return any(
        (isinstance(each, ast.Name) and each.id in given and each.id in _ANSWERS | given)
        or (isinstance(each, ast.Attribute) and each.attr == "answer")
        for each in ast.walk(node)
    )


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
        if match := pattern.search(text):
            return message, text.count("\n", 0, match.start()) + 1
    line = shell_line(text)
    if line is not None and not re.search(
        r"python3?\S*\s+(?:-\S+\s+)*-m\s+(?:unittest|pytest|doctest)\b", text
    ):
        return "starts Python in the workspace, where the agent's modules are imported by their names", line
    return None


CHECKS = (in_python, in_shell)
