"""What a shell completes of an option's value: names from the eval files of the command line that is being typed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentv_sandbox.base.lazy import calling

if TYPE_CHECKING:
    from agentv_sandbox.loading import load_suites
    from agentv_sandbox.models.suite import Suite
else:
    load_suites = calling("agentv_sandbox.loading", "load_suites")

_NAMES: dict[str, Callable[[Suite], Iterable[str]]] = {
    "targets": lambda suite: suite.targets,
    "tests": lambda suite: (case.id for case in suite.cases),
    "tags": lambda suite: suite.tags,
}


def completed(values: str) -> Callable[[object, str], list[str]]:
    """A completer of ``targets``, ``tests`` or ``tags``."""

    def complete(ctx: Any, incomplete: str) -> list[str]:
        # Before an option without its value yet, arguments are what is left over.
        named = ctx.params["paths"] or ctx.args if "paths" in ctx.params else []
        paths = [Path(path) for path in named or ["."]]
        try:
            loaded = load_suites(paths, cwd=Path.cwd(), environ=os.environ, running=False)
        except (
            Exception
        ):  # whatever is wrong with the files: a shell that completes is not the place to say it
            return []
        names = dict.fromkeys(name for suite in loaded.suites for name in _NAMES[values](suite))
        return [name for name in names if name.startswith(incomplete)]

    return complete
