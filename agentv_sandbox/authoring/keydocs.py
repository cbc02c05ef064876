"""What each key of an authoring model means: the text below its field in the code, for schemas and the reference."""

from __future__ import annotations

import ast
import inspect
import itertools
import textwrap
from collections.abc import Iterator, Mapping


def key_docs(model: type) -> Mapping[str, str]:
    """The texts below the fields of ``model`` and of what it extends, by field, each as one line.

    They are read from the source when somebody asks, since commands that run nothing but a suite need none of them.
    """
    docs: dict[str, str] = {}
    for base in reversed(model.__mro__):
        docs |= dict(_own_docs(base))
    return docs


def _own_docs(model: type) -> Iterator[tuple[str, str]]:
    try:
        source = textwrap.dedent(inspect.getsource(model))
    except (OSError, TypeError):  # made at run time, or not written in Python
        return
    (definition,) = ast.parse(source).body
    body = definition.body if isinstance(definition, ast.ClassDef) else []
    for field, text in itertools.pairwise(body):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(text, ast.Expr)
            and isinstance(text.value, ast.Constant)
            and isinstance(text.value.value, str)
        ):
            yield field.target.id, " ".join(text.value.value.replace("``", "`").split())
