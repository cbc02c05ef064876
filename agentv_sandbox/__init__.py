"""Runs AgentV evaluation suites in disposable, locked-down containers.

``load``, ``build`` and ``run`` are the whole of it; they come from ``agentv_sandbox.api`` when they are first used, so
that a worker's or a tool's import of one module does not load all of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentv_sandbox.api import RunReport, RunRequest, build, load, run

__version__ = "0.1.0"
__all__ = ["RunReport", "RunRequest", "__version__", "build", "load", "run"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'agentv_sandbox' has no attribute {name!r}")
    return getattr(import_module("agentv_sandbox.api"), name)
