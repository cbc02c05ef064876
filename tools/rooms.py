"""Count the structure of a package: rooms, floors, arrows, and what tends to grow unseen.

    python tools/rooms.py [FOLDER OF A CHECKOUT ...] [--rooms]

A room is a folder directly below the package, or a module there. A floor is a step of the longest chain of imports
inside a room. An arrow is a room that imports another, counted once. With several checkouts their figures stand side by
side; ``--rooms`` lists each room of the last with its files, floors and lines.
"""

from __future__ import annotations

import argparse
import ast
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

PACKAGE = "agentv_sandbox"
ENTRIES = {"__init__", "__main__", "sdk"}
MANY_LINES, MANY_PARAMETERS, MANY_BRANCHES, MANY_FILES = 400, 10, 12, 15
BRANCHES = (
    ast.If,
    ast.IfExp,
    ast.For,
    ast.While,
    ast.ExceptHandler,
    ast.match_case,
    ast.BoolOp,
    ast.comprehension,
)


@dataclass
class Module:
    name: str
    """Without the package: ``engines.native.process``."""
    text: str
    tree: ast.Module = field(repr=False)

    @property
    def room(self) -> str:
        return self.name.partition(".")[0]

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    @cached_property
    def functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        return [node for node in ast.walk(self.tree) if isinstance(node, kinds)]


def modules_of(checkout: Path) -> dict[str, Module]:
    found = {}
    for path in sorted((checkout / PACKAGE).rglob("*.py")):
        parts = path.relative_to(checkout / PACKAGE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)
        text = path.read_text()
        found[name] = Module(name, text, ast.parse(text))
    return found


def imports_of(module: Module, modules: Mapping[str, Module]) -> Iterator[str]:
    """Modules of the package that it imports when it is imported; not what only types need."""
    for node in _at_runtime(module.tree):
        if isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{each.name}" for each in node.names]
        else:
            continue
        for name in names:
            if name.partition(".")[0] == PACKAGE:
                inner = name.partition(".")[2]
                while inner and inner not in modules:
                    inner = inner.rpartition(".")[0]
                if inner and inner != module.name:
                    yield inner


def _at_runtime(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        yield node
        yield from _at_runtime(node)


def floors(names: set[str], imports: Mapping[str, set[str]]) -> int:
    """Modules on the longest chain of imports among ``names``."""
    inside = {name: imports[name] & names for name in names}
    height: dict[str, int] = {}
    try:
        order = list(TopologicalSorter(inside).static_order())
    except CycleError as error:
        raise SystemExit(f"a circle of imports: {' > '.join(error.args[1])}") from None
    for name in order:
        height[name] = 1 + max((height[each] for each in inside[name]), default=0)
    return max(height.values(), default=0)


def figures(checkout: Path) -> tuple[dict[str, int], dict[str, tuple[int, int, int]]]:
    """Figures of the whole, and of each room its files, floors and lines."""
    modules = modules_of(checkout)
    # What a folder's __init__ passes on is not a step of its own.
    imports = {name: set(imports_of(module, modules)) for name, module in modules.items()}
    rooms: dict[str, set[str]] = defaultdict(set)
    for name, module in modules.items():
        rooms[module.room].add(name)
    arrows = {(modules[a].room, modules[b].room) for a, seen in imports.items() for b in seen}
    every = list(modules.values())
    functions = [node for module in every for node in module.functions]
    whole = {
        "lines": sum(module.lines for module in every),
        "files": len(every),
        "rooms": len(set(rooms) - ENTRIES),
        "modules at the top level": sum("." not in name for name in modules if not _is_folder(name, modules)),
        "floors of all": floors(set(modules), imports),
        "rooms on more than six floors": sum(floors(each, imports) > 6 for each in rooms.values()),
        "folders of more than 15 files": sum(
            count > MANY_FILES for count in Counter(name.rpartition(".")[0] for name in modules).values()
        ),
        "arrows": sum(a != b for a, b in arrows),
        "raw look-ups": sum(_is_raw(node) for module in every for node in ast.walk(module.tree)),
        "Any and Json": sum(_is_untyped(node) for module in every for node in ast.walk(module.tree)),
        "files of more than 400 lines": sum(module.lines > MANY_LINES for module in every),
        "functions of more than ten parameters": sum(
            _parameters(node) > MANY_PARAMETERS for node in functions
        ),
        "functions of more than 60 lines": sum(_length(node) > 60 for node in functions),
        "functions of more than 12 branches": sum(_branches(node) > MANY_BRANCHES for node in functions),
        "class names with two homes": sum(count > 1 for count in _classes(every).values()),
    }
    each_room = {
        room: (len(names), floors(names, imports), sum(modules[name].lines for name in names))
        for room, names in sorted(rooms.items())
    }
    return whole, each_room


def _is_folder(name: str, modules: Mapping[str, Module]) -> bool:
    return any(other.startswith(f"{name}.") for other in modules)


def _is_raw(node: ast.AST) -> bool:
    """``x["key"]``, ``x.get("key")`` and ``"key" in x``."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("get", "pop")
    ):
        return (
            bool(node.args) and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str)
        )
    return False


def _is_untyped(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id in ("Any", "Json")


def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
    return len([each for each in arguments if each.arg not in ("self", "cls")])


def _length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or 0) - node.lineno + 1


def _branches(node: ast.AST) -> int:
    return sum(isinstance(each, BRANCHES) for each in ast.walk(node))


def _classes(modules: list[Module]) -> Counter[str]:
    return Counter(
        node.name
        for module in modules
        for node in module.tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkouts", nargs="*", type=Path, default=[Path(__file__).parents[1]])
    parser.add_argument("--rooms", action="store_true")
    asked = parser.parse_args()
    columns = [figures(each) for each in asked.checkouts]
    for name in columns[0][0]:
        print(f"{name:40}", *(f"{whole[name]:>8,}" for whole, _ in columns))
    if asked.rooms:
        print(f"\n{'room':20} {'files':>6} {'floors':>6} {'lines':>7}")
        for room, (files, high, lines) in columns[-1][1].items():
            print(f"{room:20} {files:6} {high:6} {lines:7,}")


if __name__ == "__main__":
    main()
