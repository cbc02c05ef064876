"""Which suite a row is of. AgentV knows a suite by its name; two eval files of one run may have the same."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentv_sandbox.models.suite import EvalCase, Suite

Key = tuple[str, str, str]
"""Suite, by ``suite_key``, test and target."""
_BETWEEN = "\0"


def suite_key(name: str, eval_file: str = "") -> str:
    """``eval_file``: of the project's root, where the name alone does not tell."""
    return f"{name}{_BETWEEN}{eval_file}" if eval_file else name


def name_of(key: str) -> str:
    """The name of the suite with that key."""
    return key.partition(_BETWEEN)[0]


def shown(key: str) -> str:
    """For people: the name, with the eval file where that is part of the key."""
    name, _, eval_file = key.partition(_BETWEEN)
    return f"{name} ({eval_file})" if eval_file else name


def suite_keys(suite: Suite) -> tuple[str, str]:
    """How rows may name ``suite``: with its eval file, where another of their run had the same name, or without."""
    return suite_key(suite.name, eval_file_of(suite)), suite.name


def eval_file_of(suite: Suite) -> str:
    return Path(os.path.relpath(suite.path, suite.project_root)).as_posix()


def event_words(case: EvalCase, target: str, trial: int) -> dict[str, object]:
    """How events of a run say which test they are about."""
    own = {"eval_file": case.eval_file} if case.eval_file else {}
    return {"suite": case.suite, **own, "case_id": case.id, "target": target, "trial": trial}


def event_key(words: Mapping[str, Any]) -> tuple[str, str, str, int]:
    """Suite, by ``suite_key``, test, target and trial of an event."""
    suite, eval_file, test, target = (
        str(words.get(key, "")) for key in ("suite", "eval_file", "case_id", "target")
    )
    return suite_key(suite, eval_file), test, target, int(words.get("trial") or 0)


def known_key(suite: Suite, test: str, target: str, known: Collection[Key]) -> Key | None:
    """That of ``known`` which is of a test of ``suite``."""
    keys = ((each, test, target) for each in suite_keys(suite))
    return next((key for key in keys if key in known), None)
