"""Runs AgentV evaluation suites in disposable, locked-down containers.

``load``, ``build`` and ``run`` are the whole of it, and ``open_session`` for a box without a suite. They come from
their modules when they are first used, so that a worker's or a tool's import of one module does not load all of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentv_sandbox.api import RunReport, RunRequest, build, load, run
    from agentv_sandbox.session import (
        AsyncSession,
        CommandOptions,
        Entry,
        ExecResult,
        LimitOverrides,
        Needs,
        NetworkPolicy,
        Pool,
        Running,
        Session,
        open_async_session,
        open_session,
    )

__version__ = "0.1.0"
__all__ = [
    "AsyncSession",
    "CommandOptions",
    "Entry",
    "ExecResult",
    "LimitOverrides",
    "Needs",
    "NetworkPolicy",
    "Pool",
    "RunReport",
    "RunRequest",
    "Running",
    "Session",
    "__version__",
    "build",
    "load",
    "open_async_session",
    "open_session",
    "run",
]
_OF_API = frozenset({"RunReport", "RunRequest", "build", "load", "run"})


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'agentv_sandbox' has no attribute {name!r}")
    module = "api" if name in _OF_API else "session"
    return getattr(import_module(f"agentv_sandbox.{module}"), name)
