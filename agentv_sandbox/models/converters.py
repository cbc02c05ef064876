"""Shipped preprocessors: what ``command: [builtin:NAME]`` stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

PREFIX = "builtin:"


@dataclass(frozen=True, kw_only=True)
class Builtin:
    """One converter script and what it needs."""

    script: str
    """File in ``data/converters``; Python, reads the preprocessor protocol."""
    modules: tuple[str, ...] = ()
    """pip distributions that the image must have."""
    imports: tuple[str, ...] = ()
    """Modules that these provide, as a script imports them."""
    media_types: tuple[str, ...] = ()
    """Media types or short names that it is made for."""


BUILTINS: Mapping[str, Builtin] = MappingProxyType(
    {
        "html-plain": Builtin(script="html_plain.py", media_types=("html", "xhtml")),
        "xlsx-plain": Builtin(script="xlsx_plain.py", media_types=("xlsx",)),
    }
)


def builtin_of(command: Sequence[str]) -> str | None:
    """NAME when ``command`` is ``[builtin:NAME]``; NAME need not exist."""
    if len(command) == 1 and command[0].startswith(PREFIX):
        return command[0].removeprefix(PREFIX)
    return None
