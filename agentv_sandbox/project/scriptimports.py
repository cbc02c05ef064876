"""What scripts of a project load from beside them: imports of Python, JavaScript and TypeScript, files that a shell
sources. Texts are read, nothing is run; what a script makes up while it runs is not found.
"""

from __future__ import annotations

import ast
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice, pairwise
from pathlib import Path

from agentv_sandbox.scripts.parsing import parsed

MAX_FILES = 1000
"""Of one set of scripts."""
MAX_BYTES = 1 << 20
"""Of a script; a longer one is not read."""
_MAX_NAMES = 5000
"""Of what one script loads."""
_MAX_IMPORT = 4000
"""Characters of a line of Python that imports: the time that its parser takes grows with the square of a name's."""
_MAX_PARTS = 32
"""Of a module's dotted name."""
# Of each repetition only one way fits, so that the time grows with the text and not with its square.
_JAVASCRIPT = re.compile(
    r"""(?:\bfrom\s*|\bimport\s*(?:\(\s*)?|\brequire\s*\(\s*)(["'`])(\.{1,2}(?:/[^"'`$\n]{0,400})?)\1""",
)
_JS_ENDINGS = ("", ".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs", ".json")
_TYPESCRIPT_OF = {".js": ".ts", ".mjs": ".mts", ".cjs": ".cts", ".jsx": ".tsx"}
_SOURCED = re.compile(
    r"""(?:^|[;&|({]|\bthen\b|\bdo\b)[ \t]*(?:\.|source)[ \t]+"""
    r"""("\$\([^)\n]{1,200}\)[^"\n]{1,400}"|"[^"\n]{1,400}"|'[^'\n]{1,400}'|[^\s;&|)]{1,400})""",
    re.MULTILINE,
)
_VARIABLE_PART = re.compile(r"\A.*[$`)}][^/]*/")
_FIRST_LINE = re.compile(r"\A#!.*?\b(python|bash|sh|dash|zsh|node|bun|deno|tsx)[0-9.]*\b")
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*\Z")


def imported(scripts: Iterable[Path], root: Path, *, top: Path | None = None) -> list[Path]:
    """Files below ``root`` that ``scripts`` load, directly or through one another; sorted, without ``scripts``.
    ``top``: where Python looks for modules; None: in the folder of each script."""
    first = list(scripts)
    known = set(first)
    waiting = [(script, top or script.parent) for script in first]
    while waiting and len(known) < MAX_FILES:
        script, place = waiting.pop()
        for path in _loaded(script, place):
            if path not in known and _inside(path, root):
                known.add(path)
                waiting.append((path, place))
    return sorted(known.difference(first))


def modules(words: Sequence[str], folder: Path) -> list[Path]:
    """Files of modules that ``python -m NAME`` runs in ``folder``."""
    names = [word for before, word in pairwise(words) if before == "-m" and _MODULE.match(word)]
    files = []
    for name in names:
        files += list(_module(folder, name.split(".")))
        files += [path for path in (folder.joinpath(*name.split("."), "__main__.py"),) if _is_file(path)]
    return files


def asks_for_candidates(program: Path) -> bool:
    """Whether a Python file speaks of the SDK and of candidates."""
    try:
        text = program.read_bytes()
    except OSError:
        return False
    return b"candidate" in text and b"agentv_sandbox" in text


def _inside(path: Path, root: Path) -> bool:
    try:
        return path.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError):  # a link to itself
        return False


def _is_file(path: Path) -> bool:
    """Of any name that a script may hold, also of one that no file can have."""
    try:
        return path.is_file()
    except OSError:  # the name is too long
        return False


def _loaded(script: Path, top: Path) -> list[Path]:
    try:
        info = script.stat()
    except OSError:
        return []
    if not stat.S_ISREG(info.st_mode) or info.st_size > MAX_BYTES:
        return []
    return list(_loaded_by(script, top, info.st_mtime_ns))


@lru_cache(maxsize=4096)
def _loaded_by(script: Path, top: Path, _changed: int) -> tuple[Path, ...]:
    try:
        text = script.read_text("utf-8", errors="replace")
    except OSError:
        return ()
    reader = _READERS.get(script.suffix) or _reader_of(text)
    return tuple(dict.fromkeys(reader(text, script, top))) if reader is not None else ()


def _reader_of(text: str) -> _Reader | None:
    match = _FIRST_LINE.match(text[:200])
    if match is None:
        return None
    return _READERS[
        {"python": ".py", "node": ".js", "bun": ".js", "deno": ".js", "tsx": ".js"}.get(match[1], ".sh")
    ]


# -- Python -------------------------------------------------------------------------------------------
def _python(text: str, script: Path, top: Path) -> Iterator[Path]:
    """``top``: the folder of the program, which Python has first on its path."""
    if any(len(line) > _MAX_IMPORT and "import" in line for line in text.replace("\\\n", "").split("\n")):
        return
    tree = parsed(text)
    if tree is None:
        return
    for base, parts in islice(_names(tree, script, top), _MAX_NAMES):
        yield from _module(base, parts)


def _names(tree: ast.AST, script: Path, top: Path) -> Iterator[tuple[Path, list[str]]]:
    """Each module that may be loaded: the folder in which it is looked for, and the parts of its name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield top, alias.name.split(".")
        elif isinstance(node, ast.ImportFrom):
            base = script.parents[node.level - 1] if 0 < node.level <= len(script.parents) else top
            parts = node.module.split(".") if node.module else []
            yield base, parts
            for alias in node.names:
                yield base, [*parts, alias.name]


def _module(base: Path, parts: Sequence[str]) -> Iterator[Path]:
    """Files of a module in ``base``, and of the packages around it."""
    if len(parts) > _MAX_PARTS:
        return
    for depth in range(len(parts) + 1):
        package = base.joinpath(*parts[:depth], "__init__.py")
        if depth and _is_file(package):
            yield package
    if parts:
        file = base.joinpath(*parts).with_suffix(".py")
        if _is_file(file):
            yield file


# -- JavaScript and TypeScript ------------------------------------------------------------------------
def _javascript(text: str, script: Path, _top: Path) -> Iterator[Path]:
    for match in islice(_JAVASCRIPT.finditer(text), _MAX_NAMES):
        path = Path(os.path.normpath(script.parent / match[2]))
        file = next((each for each in _javascript_files(path) if _is_file(each)), None)
        if file is not None:
            yield file


def _javascript_files(path: Path) -> Iterator[Path]:
    for ending in _JS_ENDINGS if path.name else ():
        yield path.with_name(path.name + ending)
    if path.suffix in _TYPESCRIPT_OF:
        yield path.with_suffix(_TYPESCRIPT_OF[path.suffix])
    for ending in _JS_ENDINGS[1:]:
        yield path / f"index{ending}"


# -- shells -------------------------------------------------------------------------------------------
def _shell(text: str, script: Path, top: Path) -> Iterator[Path]:
    """What is sourced; of a path that begins with variables, such as the script's own folder, what follows them."""
    for match in islice(_SOURCED.finditer(text), _MAX_NAMES):
        word = _VARIABLE_PART.sub("", match[1].strip("\"'"))
        if not word or "$" in word or "\0" in word:
            continue
        for base in (script.parent, top):
            path = Path(os.path.normpath(base / word))
            if _is_file(path):
                yield path
                break


_Reader = Callable[[str, Path, Path], Iterator[Path]]
_READERS: Mapping[str, _Reader] = {
    ".py": _python,
    **dict.fromkeys((".sh", ".bash"), _shell),
    **dict.fromkeys((".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts"), _javascript),
}
