"""Runs AgentV evaluation suites in disposable, locked-down containers.

``load``, ``build`` and ``run`` are the whole of it, and ``open_session`` for a box without a suite. They come from
their modules when they are first used, so that a worker's or a tool's import of one module does not load all of them.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentv_sandbox.api import RunReport, RunRequest, build, load, run
    from agentv_sandbox.session import ExecResult, LimitOverrides, Needs, Session, open_session

__version__ = "0.1.0"
__all__ = [
    "ExecResult",
    "LimitOverrides",
    "Needs",
    "RunReport",
    "RunRequest",
    "Session",
    "__version__",
    "build",
    "load",
    "open_session",
    "run",
]
_OF_SESSIONS = frozenset({"ExecResult", "LimitOverrides", "Needs", "Session", "open_session"})


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'agentv_sandbox' has no attribute {name!r}")
    module = "session" if name in _OF_SESSIONS else "api"
    return getattr(import_module(f"agentv_sandbox.{module}"), name)
