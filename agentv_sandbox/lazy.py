"""Modules that are imported when they are first used. Some libraries take a tenth of a second of a processor to load,
which most commands never need: a suite without models speaks no HTTP, an image that is there resolves nothing."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class _Lazy:
    """Stands for the module; safe between threads, as imports are."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        value = getattr(import_module(self._name), attribute)
        self.__dict__[attribute] = value
        return value


def lazily(name: str) -> Any:
    """The module ``name``. For type checkers, import it below ``TYPE_CHECKING`` and use this elsewhere."""
    return _Lazy(name)
