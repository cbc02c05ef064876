"""Verdicts that depend on chance, on the clock, or on a server elsewhere."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from agentv_sandbox.audit.checks.base import Examined
from agentv_sandbox.audit.checks.clocks import by_the_clock
from agentv_sandbox.audit.findings import Finding
from agentv_sandbox.audit.programs import Program, called, dotted
from agentv_sandbox.scripts.shellcalls import Called

_DRAWS = frozenset(
    [
        "random",
        "randint",
        "choice",
        "choices",
        "sample",
        "shuffle",
        "uniform",
        "randrange",
        "gauss",
        "betavariate",
        "getrandbits",
    ]
)
_SECRETS = ("secrets.choice", "secrets.randbelow", "secrets.randbits", "os.urandom")
_NAMES = ("uuid.uuid4", "uuid.uuid1", "secrets.token_")
"""What is drawn for names and marks; a verdict is one of chance only where it is compared."""
_NETWORK = (
    "urllib.request.",
    "urlopen",
    "requests.get",
    "requests.post",
    "requests.request",
    "httpx.get",
    "httpx.post",
    "httpx.Client",
    "http.client.HTTPSConnection",
    "http.client.HTTPConnection",
    "socket.create_connection",
    "socket.gethostbyname",
    "socket.getaddrinfo",
    "aiohttp.ClientSession",
)
_ELSEWHERE = re.compile(r"(?i)https?://(?!localhost|127\.|0\.0\.0\.0|\[|[^/]*\.local\b)[\w.-]+\.[a-z]{2,}")
"""An address of a server that is not this machine's."""
_FETCHERS = frozenset({"curl", "wget", "ping", "nslookup", "dig"})
_KEPT_AS = re.compile(r"(?:\s-\w*[oO]\s*|\s--output(?:-document)?[= ]|>\s*)[\"']?([\w./-]{2,200})")
_HOLDS = re.compile(r"\b(?:diff|cmp|comm|grep|jq|sha\d*sum|md5sum)\b|\$\(\s*(?:cat|<)")
_INSTALLS = {
    ("pip", "install"),
    ("pip3", "install"),
    ("npm", "install"),
    ("npm", "ci"),
    ("apt-get", "install"),
    ("git", "clone"),
}
_SHELL_RANDOM = re.compile(r"\bRANDOM\b|\bshuf\b|/dev/u?random")

_LONGEST_LINE = 1000
_NO_COMMENT = r"^(?!\s*(?://|\*)).*"
_OF_SCRIPTS = (
    (
        "disagrees-with-itself",
        "decides by chance",
        re.compile(_NO_COMMENT + r"(?:\bMath\.random\(\)\s*[<>]|[<>]=?\s*Math\.random\(\))"),
    ),
    (
        "depends-on-time",
        "decides by the clock",
        re.compile(
            _NO_COMMENT
            + r"(?:[=!]==?\s*new Date\(\)\.(?:get|to)|\bnew Date\(\)\.(?:get|to)\w+\([^)]*\)[^;]{0,40}[=!]==?"
            r"|\bincludes\(\s*new Date\(\))"
        ),
    ),
    (
        "depends-on-network",
        "asks a server",
        re.compile(_NO_COMMENT + r"\b(?:fetch|https?\.get|https?\.request|axios\.\w+)\(\s*[\"'`]https?://"),
    ),
)
"""By plain words."""


def in_python(examined: Examined) -> Iterator[Finding]:
    for program in examined.programs:
        tree = program.tree
        if tree is None:
            continue
        shown = _only_shown(tree)
        for rule, message, found in (
            ("disagrees-with-itself", "decides by chance", _chance(program, tree)),
            ("disagrees-with-itself", "depends on the order of a set", _unordered(tree)),
            ("depends-on-time", "decides by the clock", by_the_clock(tree)),
            ("depends-on-network", "asks a server", _servers(program, tree)),
        ):
            line = next((node.lineno for node in found if node not in shown), None)
            if line is not None:
                yield examined.in_program(rule, message, program, line)


def _servers(program: Program, tree: ast.Module) -> Iterator[ast.Call]:
    for name, call in called(tree):
        if not name.endswith(_NETWORK) and not name.startswith("urllib.request."):
            continue
        # A task may be about a server, which runs beside its tests: what is asked elsewhere is named there.
        if not program.of_task or any(_ELSEWHERE.match(text) for text in _texts(call)):
            yield call


def _texts(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value


def _chance(program: Program, tree: ast.Module) -> Iterator[ast.Call]:
    # Tests of a task draw values that they put to a program; there it is what the verdict is compared with that counts.
    compared = {each for node in ast.walk(tree) if isinstance(node, ast.Compare) for each in ast.walk(node)}
    yield from (call for call in _draws(list(called(tree))) if not program.of_task or call in compared)
    for node in compared:
        if isinstance(node, ast.Call) and dotted(node.func).startswith(_NAMES):
            yield node


def _draws(calls: Sequence[tuple[str, ast.Call]]) -> Iterator[ast.Call]:
    seeded = any(
        name in ("random.seed", "np.random.seed", "numpy.random.seed", "seed") and call.args
        for name, call in calls
    )
    for name, call in calls:
        module, _, what = name.rpartition(".")
        draws = module in ("random", "np.random", "numpy.random") and what in _DRAWS
        unseeded = name in ("random.Random", "random.SystemRandom", "np.random.default_rng") and not call.args
        if (draws and not seeded) or unseeded or name.startswith(_SECRETS):
            yield call


def _unordered(tree: ast.Module) -> Iterator[ast.Call]:
    """``list({…})[0]``, ``set(…).pop()``, ``next(iter({…}))``: one of a set, whichever comes first. Python makes
    another
    order of texts in each process."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Call):
            call = node.value
            if dotted(call.func) in ("list", "tuple") and call.args and _is_set(call.args[0]):
                yield call
        if isinstance(node, ast.Call) and dotted(node.func) == "iter" and node.args and _is_set(node.args[0]):
            yield node
        if isinstance(node, ast.Call) and _pops(node.func):
            yield node
        if isinstance(node, ast.Call) and dotted(node.func) == "hash":
            yield node


def _pops(function: ast.AST) -> bool:
    return isinstance(function, ast.Attribute) and function.attr == "pop" and _is_set(function.value)


def _is_set(node: ast.AST) -> bool:
    return isinstance(node, ast.Set | ast.SetComp) or (
        isinstance(node, ast.Call) and dotted(node.func) in ("set", "frozenset")
    )


def _only_shown(tree: ast.Module) -> set[ast.AST]:
    """Calls that only serve a message: inside of ``print(…, file=sys.stderr)`` or of a logger, of a text that is
    evidence, or of what is a stamp."""
    found: set[ast.AST] = set()
    for name, call in called(tree):
        to_errors = any(word.arg == "file" and dotted(word.value) == "sys.stderr" for word in call.keywords)
        if (name == "print" and to_errors) or name.startswith(("logging.", "log.", "logger.")):
            found |= set(ast.walk(call))
    # What is called a stamp is for evidence, where it is not held against anything.
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and all(
            isinstance(target, ast.Name) and re.search(r"(?i)stamp|now_text", target.id)
            for target in node.targets
        ):
            found |= set(ast.walk(node.value))
    return found


def in_shell(examined: Examined) -> Iterator[Finding]:
    for program in examined.programs:
        if program.kind == "shell":
            yield from _shell(examined, program)


def in_scripts(examined: Examined) -> Iterator[Finding]:
    """Of JavaScript, where it stands in what is compared."""
    for program in examined.programs:
        lines = program.text.splitlines() if program.kind == "script" else ()
        for rule, message, pattern in _OF_SCRIPTS:
            number = next(
                (at for at, line in enumerate(lines, 1) if pattern.search(line[:_LONGEST_LINE])), None
            )
            if number is not None and not (program.of_task and rule == "depends-on-network"):
                yield examined.in_program(rule, message, program, number)


def _shell(examined: Examined, program: Program) -> Iterator[Finding]:
    for call in program.calls:
        name = call.words[0].rpartition("/")[2] if call.words else ""
        if program.of_task and not (name in ("curl", "wget") and _compared_there(program, call)):
            continue
        if name in _FETCHERS or tuple(call.words[:2]) in _INSTALLS:
            yield examined.in_program("depends-on-network", f"asks a server by {name}", program, call.line)
            break
    if any(
        call.words[:1] == ("date",) and not {"-d", "--date", "-r"} & set(call.words) for call in program.calls
    ):
        line = next(call.line for call in program.calls if call.words[:1] == ("date",))
        if re.search(
            r"\[[^\]\n]{0,200}\$\(date|=\"?\$\(date|case\s+\"?\$\(date|test [^;\n]{0,200}\$\(date",
            program.text,
        ):
            yield examined.in_program("depends-on-time", "decides by the clock", program, line)
    if not program.of_task and (match := _SHELL_RANDOM.search(program.text)):
        line = program.text.count("\n", 0, match.start()) + 1
        yield examined.in_program("disagrees-with-itself", "decides by chance", program, line)


def _compared_there(program: Program, call: Called) -> bool:
    """Whether what a server elsewhere says goes into a variable, or into a file that is compared with something.
    Tools that a task's script fetches are another matter: they come from a layer of ours."""
    line = program.text.splitlines()[call.line - 1]
    asked = any(_ELSEWHERE.match(word) for word in call.words)
    kept = _KEPT_AS.search(line)
    later = program.text.splitlines()[call.line :]
    held = kept is not None and any(kept[1] in each and _HOLDS.search(each) for each in later)
    return asked and (held or re.search(r"=\s*\"?\$\(\s*(?:curl|wget)\b", line) is not None)


CHECKS = (in_python, in_shell, in_scripts)
