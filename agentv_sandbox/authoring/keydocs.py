"""What each key of an authoring model means: the text below its field in the code, for schemas and the reference."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise

from agentv_sandbox.scripts.parsing import parsed


def key_docs(model: type) -> Mapping[str, str]:
    """The texts below the fields of ``model`` and of what it extends, by field, each as one line.

    They are read from the source when somebody asks, since commands that run nothing but a suite need none of them.
    """
    docs: dict[str, str] = {}
    for base in reversed(model.__mro__):
        docs |= _docs_of_module(base.__module__).get(base.__name__, {})
    return docs


@cache
def _docs_of_module(name: str) -> Mapping[str, Mapping[str, str]]:
    """By class and field; of modules of ours alone."""
    if not name.startswith(f"{__name__.partition('.')[0]}."):
        return {}
    tree = parsed(inspect.getsource(sys.modules[name]))
    assert tree is not None
    return {node.name: dict(_own_docs(node)) for node in tree.body if isinstance(node, ast.ClassDef)}


def _own_docs(definition: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, text in pairwise(definition.body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
            and isinstance(text.value.value, str)
        ):
            yield field.target.id, " ".join(text.value.value.replace("``", "`").split())
