"""``agentv-sandbox selfcheck``."""

from __future__ import annotations

import os
from pathlib import Path

from agentv_sandbox.building import sentence
from agentv_sandbox.cli.common import err, out, with_exit_codes
from agentv_sandbox.cli.inputs import cache_dir, settings_here
from agentv_sandbox.cli.options import Engine, Runtime
from agentv_sandbox.engines.table import find_engine
from agentv_sandbox.pipeline import RunOptions, build_images
from agentv_sandbox.report.progress import Progress
from agentv_sandbox.sandbox import Sandbox
from agentv_sandbox.selfcheck import selfcheck as attack


@with_exit_codes
def selfcheck(
    engine: Engine = None,
    runtime: Runtime = None,
) -> int:
    """Attack this machine's engine with what the project defends against, and print the outcome.

    Exit status 0 only when every attack was contained. Takes about half a minute.
    """
    settings = settings_here(engine, runtime)
    options = RunOptions(image=settings.image, cache_dir=cache_dir(), cwd=Path.cwd())
    answering = find_engine(os.environ, settings.engine)
    with Sandbox(answering, runtime=settings.runtime) as sandbox:
        with Progress(out, sentence=sentence) as progress:
            build_images((), sandbox, options, progress.on_event)
        report = attack(
            sandbox, image=sandbox.tool_image, progress=lambda part: err.print(f"  {part}", markup=False)
        )
    for line in report.lines():
        out.print(line, markup=False)
    return 0 if report.ok else 3
