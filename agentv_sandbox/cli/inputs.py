"""What the commands that work with suites and images share."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from agentv_sandbox import api
from agentv_sandbox.cli.common import show_problems
from agentv_sandbox.loading import LoadResult
from agentv_sandbox.settings import Operator, RunSettings, settings_together


def cache_dir() -> Path:
    """Where fetched packages and locks are kept."""
    return api.cache_dir(os.environ)


def settings_here(engine: str | None = None, runtime: str | None = None) -> RunSettings:
    """The settings of the project of the working directory; options win. Raises InputError."""
    return settings_together([Path.cwd()], Operator(os.environ), engine=engine, runtime=runtime)


def load(
    paths: Sequence[Path],
    targets_file: Path | None,
    targets: Sequence[str] = (),
    *,
    allow_outside: bool,
    without_keys: bool = False,
) -> LoadResult:
    """The suites of ``paths``; warnings are shown. Raises InputError with every problem of every file."""
    return api.load(
        paths,
        targets_file=targets_file,
        targets=targets,
        allow_outside=allow_outside,
        without_keys=without_keys,
        on_warning=lambda problem: show_problems([problem]),
    )
