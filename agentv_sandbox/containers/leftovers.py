"""What runs that ended left in an engine, and what they kept there on purpose."""

from __future__ import annotations

import functools
from contextlib import suppress

from agentv_sandbox.base.errors import EngineError, SandboxError
from agentv_sandbox.engines import LABEL_KEEP, LABEL_OWNER, LABEL_RUN, LABEL_SET, ContainerEngine
from agentv_sandbox.engines.owner import Owner


def sweep(engine: ContainerEngine) -> int:
    """Remove what runs of dead processes of this machine left; returns how many objects. Objects of live runs,
    of other machines that share the engine, and what a user asked to keep are not touched."""
    removed = 0
    dead = functools.cache(lambda label: Owner.parse(label).dead())  # a run's objects have the same one
    for obj in engine.owned({LABEL_RUN: None}):
        if LABEL_KEEP not in obj.labels and dead(obj.labels.get(LABEL_OWNER, "")):
            with suppress(EngineError):
                engine.destroy(obj)
                removed += 1
    return removed


def remove_kept(engine: ContainerEngine, volume: str) -> int:
    """Remove the kept workspace whose volume has this name, with what belongs to it; returns how many objects. Raises
    EngineError, and SandboxError while the run that kept it goes on."""
    kept = engine.owned({LABEL_KEEP: None, LABEL_SET: volume.removesuffix("-workspace")})
    if any(Owner.parse(obj.labels.get(LABEL_OWNER, "")).alive() for obj in kept):
        raise SandboxError("the process that kept this workspace is still running")
    for obj in sorted(kept, key=lambda obj: obj.kind != "container"):  # who holds volumes first
        engine.destroy(obj)
    return len(kept)
