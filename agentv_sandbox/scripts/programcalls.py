"""Which programs scripts in Python, JavaScript and TypeScript plainly start: literal names in calls of the libraries
that start programs. Texts are read, nothing is run; what a script makes up while it runs is not found.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from agentv_sandbox.base.dataclass import dataclass
from agentv_sandbox.scripts.parsing import parsed

UNKNOWN_WORD = "$UNKNOWN"
"""Stands in a shell's text for what only the script knows."""
_MAX_CALLS = 1000
_MAX_TEXT = 10_000
"""Characters of one command."""
_MAX_LINE = 4000


@dataclass(frozen=True)
class Started:
    """One program that is started, and its line, from 1."""

    line: int
    words: tuple[str, ...] = ()
    """Its literal words up to the first that is not; empty where a shell runs ``text``."""
    text: str = ""


# -- Python -------------------------------------------------------------------------------------------
_OF_SUBPROCESS = ("run", "call", "check_call", "check_output", "Popen")
_ARGV: Mapping[str, int] = {
    **{f"subprocess.{name}": 0 for name in _OF_SUBPROCESS},
    "asyncio.create_subprocess_exec": 0,
    **{
        f"os.{name}": 0
        for name in ("execv", "execvp", "execve", "execvpe", "execl", "execlp", "posix_spawnp")
    },
    **{f"os.{name}": 1 for name in ("spawnv", "spawnvp", "spawnl", "spawnlp")},
}
"""Where the program stands among the arguments of functions that start one."""
_SHELL = frozenset(
    (
        "os.system",
        "os.popen",
        "subprocess.getoutput",
        "subprocess.getstatusoutput",
        "asyncio.create_subprocess_shell",
    )
)
_MODULES = frozenset(("subprocess", "os", "asyncio"))


@lru_cache(maxsize=1024)
def python_tree(text: str) -> ast.Module | None:
    """None where it cannot be parsed, or not in bounded time: the parser takes the square of some lines' lengths."""
    if any(len(line) > _MAX_LINE for line in text.split("\n")):
        return None
    return parsed(text)


@lru_cache(maxsize=256)
def python_calls(text: str) -> tuple[Started, ...]:
    """Empty where it cannot be parsed."""
    if not any(name in text for name in _MODULES) or (tree := python_tree(text)) is None:
        return ()
    nodes = list(ast.walk(tree))
    names, literals = _names(nodes), _literals(nodes)
    found: list[Started] = []
    for node in nodes:
        if isinstance(node, ast.Call) and len(found) < _MAX_CALLS:
            called = _called(node, names, literals)
            if called is not None:
                found.append(called)
    return tuple(sorted(found, key=lambda each: each.line))


def _names(nodes: Sequence[ast.AST]) -> dict[str, str]:
    """What names of the script stand for, of the modules that start programs."""
    names: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {each.asname or each.name: each.name for each in node.names if each.name in _MODULES}
        elif isinstance(node, ast.ImportFrom) and node.module in _MODULES and not node.level:
            names |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    return names


def _literals(nodes: Sequence[ast.AST]) -> dict[str, ast.expr]:
    """Names that get one value in all of the script, with that."""
    values: dict[str, list[ast.expr | None]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            values.setdefault(node.targets[0].id, []).append(node.value)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            values.setdefault(node.id, []).append(None)
        elif isinstance(node, ast.arg):
            values.setdefault(node.arg, []).extend([None, None])
    # An assignment is met twice: as a statement, and as its name.
    return {name: given[0] for name, given in values.items() if len(given) == 2 and given[0] is not None}


def _called(node: ast.Call, names: Mapping[str, str], literals: Mapping[str, ast.expr]) -> Started | None:
    function = _function(node.func, names)
    if function in _SHELL:
        at, shell = 0, True
    elif function in _ARGV:
        at, shell = _ARGV[function], _is_shell(node)
    else:
        return None
    arguments = node.args[at:]
    if not arguments:
        arguments = [each.value for each in node.keywords if each.arg in ("args", "cmd", "command")][:1]
    if not arguments:
        return None
    first = _value(arguments[0], literals)
    text = _text(first)
    if shell:
        return Started(node.lineno, text=text[:_MAX_TEXT]) if text else None
    if text:
        rest = arguments[1:] if function.startswith(("os.", "asyncio.")) else []
        words = [text, *_words(rest)] if function.startswith("asyncio.") else [text]
    else:
        words = _list(first, literals)
    return Started(node.lineno, words=tuple(words)) if words else None


def _function(node: ast.expr, names: Mapping[str, str]) -> str:
    """Its full name; empty where it is not known."""
    if isinstance(node, ast.Name):
        return names.get(node.id, "")
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        module = names.get(node.value.id, "")
        return f"{module}.{node.attr}" if module in _MODULES else ""
    return ""


def _is_shell(node: ast.Call) -> bool:
    return any(
        each.arg == "shell" and isinstance(each.value, ast.Constant) and each.value.value is True
        for each in node.keywords
    )


def _value(node: ast.expr, literals: Mapping[str, ast.expr]) -> ast.expr:
    return literals.get(node.id, node) if isinstance(node, ast.Name) else node


def _list(node: ast.expr, literals: Mapping[str, ast.expr]) -> list[str]:
    """The literal words that a list begins with."""
    for _ in range(20):  # additions nest to the left
        if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)):
            break
        node = _value(node.left, literals)
    if isinstance(node, ast.List | ast.Tuple):
        return _words(node.elts)
    splits = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "split"
    if splits and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        said = _text(node.args[0] if node.args else node.func.value)
        return said.split()[:1]
    return []


def _words(nodes: Sequence[ast.expr]) -> list[str]:
    words: list[str] = []
    for node in nodes:
        if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            break
        words.append(node.value)
    return words


def _text(node: ast.expr) -> str:
    """A literal text; ``UNKNOWN_WORD`` in the place of what is put into it. Empty where the value is
    not a literal text."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(
            each.value if isinstance(each, ast.Constant) and isinstance(each.value, str) else UNKNOWN_WORD
            for each in node.values
        )
    return ""


# -- JavaScript and TypeScript ------------------------------------------------------------------------
_MODULE = r"""["'](?:node:)?child_process["']"""
_FROM = rf"(?:\s*from\s*|\s*=\s*(?:await\s+import|require)\s*\(\s*){_MODULE}"
_MEMBERS = re.compile(rf"\b(?:import|const|let|var)\s*(?:\w+\s*,\s*)?\{{([^{{}}]{{0,500}})\}}{_FROM}")
_SPACE = re.compile(
    rf"\b(?:import|const|let|var)\s+(?:\*\s*as\s+)?(\w{{1,64}})(?:\s*,\s*\{{[^{{}}]{{0,500}}\}})?{_FROM}"
)
_PROMISED = re.compile(
    r"\b(\w{1,64})\s*=\s*(?:\w{1,64}\.)?promisify\s*\(\s*(?:(\w{1,64})\s*\.\s*)?(\w{1,64})\s*\)"
)
_OF_SHELL = frozenset(("exec", "execSync"))
_OF_ARGV = frozenset(("spawn", "spawnSync", "execFile", "execFileSync"))
# What is not ended ends with its line, or is long enough: each letter is looked at once.
_TEXT = r'"(?:[^"\\\n]|\\.){0,4000}+"?|\'(?:[^\'\\\n]|\\.){0,4000}+\'?|`(?:[^`\\]|\\.){0,4000}+`?'
# Comments and texts are passed over as wholes, so that nothing in them is taken for a call.
_TOKEN = re.compile(
    rf"//[^\n]*|/\*.*?(?:\*/|\Z)|(?<![\w$.])((?:\w{{1,64}}\s*\.\s*)?[\w$]{{1,64}})\s*(?:\(\s*\[?\s*)?({_TEXT})|{_TEXT}",
    re.DOTALL,
)
_HOLE = re.compile(r"\$\{[^{}]*\}")
_OPENED = {"tag": "", "shell": "(", "argv": "(", "list": "(["}
"""What stands between the name and the text of a call, by its kind."""
_BUN = re.compile(r"""\bfrom\s*["'](?:bun|zx)["']|\brequire\s*\(\s*["'](?:bun|zx)["']\s*\)""")


@lru_cache(maxsize=256)
def javascript_calls(text: str) -> tuple[Started, ...]:
    starts = _starters(text)
    if not starts:
        return ()
    found: list[Started] = []
    line, before = 1, 0
    for token in _TOKEN.finditer(text):
        line, before = line + text.count("\n", before, token.start()), token.start()
        kind = starts.get("".join((token[1] or "").split()), "")
        said = token[2] or ""
        if not kind or len(said) < 2 or said[0] != said[-1]:
            continue
        # Tokens are no grammar: only a literal right behind the opening of the call is certainly what
        # it starts.
        opens = "".join(text[token.end(1) : token.start(2)].split())
        called = _HOLE.sub(UNKNOWN_WORD, said[1:-1]) if said[0] == "`" else said[1:-1]
        at = line + text.count("\n", token.start(), token.start(2))
        if opens != _OPENED[kind] or (kind == "tag" and said[0] != "`"):
            continue
        if kind in ("shell", "tag"):
            found.append(Started(at, text=called))
        elif UNKNOWN_WORD not in called:
            found.append(Started(at, words=(called,)))
        if len(found) >= _MAX_CALLS:
            break
    return tuple(found)


def _starters(text: str) -> dict[str, str]:
    """By the name that a script calls: whether a ``shell`` gets a text, a program its ``argv`` or a ``list``."""
    starts: dict[str, str] = {}
    kinds = {**dict.fromkeys(_OF_SHELL, "shell"), **dict.fromkeys(_OF_ARGV, "argv")}
    if "Bun." in text:
        starts |= {"Bun.spawn": "list", "Bun.spawnSync": "list", "Bun.$": "tag"}
    if _BUN.search(text):
        starts["$"] = "tag"
    if "child_process" not in text:
        return starts
    for members in _MEMBERS.finditer(text):
        for member in members[1].split(","):
            words = re.split(r"\s*:\s*|\s+as\s+", member.strip())
            if words[0] in kinds:
                starts[words[-1]] = kinds[words[0]]
    for space in _SPACE.finditer(text):
        starts |= {f"{space[1]}.{name}": kind for name, kind in kinds.items()}
    for promised in _PROMISED.finditer(text):
        name = f"{promised[2]}.{promised[3]}" if promised[2] else promised[3]
        if name in starts:
            starts[promised[1]] = starts[name]
    return starts
