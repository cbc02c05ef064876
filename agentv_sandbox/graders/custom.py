"""Assertion types of the user's own: an executable in ``.agentv/assertions`` or ``.agentv/graders``."""

from __future__ import annotations

import os
from pathlib import Path

from agentv_sandbox.graders import code
from agentv_sandbox.graders.base import GradeContext, options_of
from agentv_sandbox.graders.payload import code_payload
from agentv_sandbox.models.case import Candidate, GraderResult
from agentv_sandbox.models.graders import CustomOptions
from agentv_sandbox.models.suite import GraderSpec

_RUNNERS = {
    ".py": ("python3",),
    ".sh": ("bash",),
    **dict.fromkeys((".ts", ".js", ".mts", ".mjs"), ("bun", "run")),
}
"""How a script is started that is not executable itself."""


def grade(spec: GraderSpec, context: GradeContext) -> GraderResult:
    options = options_of(spec, CustomOptions)
    config = {"type": options.written_type, **options.config}
    payload = code_payload(context, answer=context.output.answer, config=config)
    ran = context.tools.run(
        command_of(options.script),
        cwd=context.suite.path.parent,
        stdin=payload.stdin,
        files=payload.files,
    )
    return code.graded(spec, ran, Candidate(text=context.output.answer))


def command_of(script: Path) -> tuple[str, ...]:
    """argv that starts ``script`` inside a container."""
    runner = _RUNNERS.get(script.suffix)
    if runner is None or (os.access(script, os.X_OK) and script.suffix in (".py", ".sh")):
        return (str(script),)
    return (*runner, str(script))
