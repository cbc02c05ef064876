"""What is ours beside a task's own system while something of it runs."""

from __future__ import annotations

from agentv_sandbox.models.container import Mount
from agentv_sandbox.models.paths import PROGRAMS
from agentv_sandbox.steps.suiterun import SuiteRun


def programs_layer(run: SuiteRun) -> Mount:
    """A system of ours with a Python, and with the programs of coding agents where these are asked."""
    layer = run.image.programs
    source = layer.id if layer is not None else run.sandbox.tool_image
    return Mount(source=source, target=PROGRAMS, kind="image")
