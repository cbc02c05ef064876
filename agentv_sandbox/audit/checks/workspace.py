"""Graders whose verdict is the end of what they start in the workspace."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from agentv_sandbox.audit.checks.base import Examined
from agentv_sandbox.audit.findings import Finding
from agentv_sandbox.audit.programs import (
    Program,
    called,
    dotted,
    mentions_workspace,
    of_workspace,
)
from agentv_sandbox.audit.shellwords import started
from agentv_sandbox.scripts.shellcalls import UNKNOWN, calls_of

_STARTERS = frozenset(
    {"run", "call", "check_call", "check_output", "Popen", "system", "popen", "getoutput", "getstatusoutput"}
)
_ENTERS = re.compile(r"\b(?:cd|pushd)\s+(?:--\s+)?[\"']?(?:/workspace\b|\$\{?AGENTV_WORKSPACE_PATH\b)")


def in_shell(examined: Examined) -> Iterator[Finding]:
    for program in examined.programs:
        if program.kind != "shell" or program.of_task:  # `tasks` asks what else decides
            continue
        entered = _ENTERS.search(program.text) is not None
        for call in program.calls:
            if word := started(call.words, entered=entered):
                yield examined.in_program(
                    "decided-in-workspace",
                    f"runs {word} in the workspace and believes how it ends",
                    program,
                    call.line,
                )
                break


def in_python(examined: Examined) -> Iterator[Finding]:
    for program in examined.programs:
        if program.kind == "python" and program.tree is not None and not program.of_task:
            yield from _python(examined, program, program.tree)


def _python(examined: Examined, program: Program, tree: ast.Module) -> Iterator[Finding]:
    names = of_workspace(tree)
    compared = _compared(tree)
    for name, call in called(tree):
        if (
            name.rpartition(".")[2] not in _STARTERS
            or not name.startswith(("subprocess.", "os."))
            or not call.args
        ):
            continue
        what = _command(call, names)
        if what and not (compared and _captures(call)):
            message = f"runs {what} in the workspace and believes how it ends"
            yield examined.in_program("decided-in-workspace", message, program, call.lineno)
            return


def _command(call: ast.Call, names: frozenset[str]) -> str:
    """What a call of ``subprocess`` runs of the workspace."""
    cwd = next((word.value for word in call.keywords if word.arg == "cwd"), None)
    there = cwd is not None and mentions_workspace(cwd, names)
    first = call.args[0]
    if isinstance(first, ast.List | ast.Tuple):
        return started([_word(each, names) for each in first.elts], entered=there)
    if not isinstance(first, ast.Constant | ast.JoinedStr | ast.BinOp):
        return ""
    text = _shell_text(first, names)
    there = there or _ENTERS.search(text) is not None
    return next(filter(None, (started(call.words, entered=there) for call in calls_of(text).commands)), "")


def _shell_text(node: ast.AST, names: frozenset[str]) -> str:
    """A command line as far as it is written, with the workspace's path for what holds it."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(_shell_text(each, names) for each in node.values)
    if isinstance(node, ast.FormattedValue) and dotted(node.value) == "sys.executable":
        return "python3"
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _shell_text(node.left, names) + _shell_text(node.right, names)
    # Not what stands for something else: "$x" may be anything to the shell.
    return "/workspace" if mentions_workspace(node, names) else "-"


def _word(node: ast.AST, names: frozenset[str]) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if dotted(node) == "sys.executable":
        return "python3"
    if mentions_workspace(node, names):
        last = [
            each.value
            for each in ast.walk(node)
            if isinstance(each, ast.Constant) and isinstance(each.value, str)
        ]
        return f"/workspace/{last[-1] if last else UNKNOWN}"
    return "-"


def _captures(call: ast.Call) -> bool:
    given = {word.arg for word in call.keywords}
    return bool(given & {"capture_output", "stdout"}) or dotted(call.func).endswith(
        ("check_output", "getoutput")
    )


def _compared(tree: ast.Module) -> bool:
    """Whether output of a program is compared with values, and not only looked for a word."""
    return any(_reads_output(node) for node in ast.walk(tree) if _compares(node))


def _compares(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        return any(isinstance(operator, ast.Eq | ast.NotEq) for operator in node.ops)
    return isinstance(node, ast.Call) and dotted(node.func).endswith(("json.loads", "literal_eval"))


def _reads_output(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Attribute) and each.attr == "stdout" for each in ast.walk(node))


CHECKS = (in_shell, in_python)
