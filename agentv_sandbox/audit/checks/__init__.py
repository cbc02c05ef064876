"""What can be read off the files of a suite, one file a matter. Each check is a function from a test to findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module

from agentv_sandbox.audit.checks.base import Examined
from agentv_sandbox.audit.findings import Finding

Check = Callable[[Examined], Iterable[Finding]]
_FILES = (
    "workspace",
    "imports",
    "answers",
    "wording",
    "gates",
    "contradictions",
    "judges",
    "chance",
    "order",
)
CHECKS: Sequence[Check] = tuple(
    check for name in _FILES for check in import_module(f"{__name__}.{name}").CHECKS
)
"""Every check, in the order of their files."""

__all__ = ["CHECKS", "Check", "Examined"]
