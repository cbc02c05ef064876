"""Volumes whose content many runs need, kept in the engine from one run to the next.

All that is known of them stands in labels, so that every process that uses the engine knows the same. A volume is
complete when its marker exists, a second and empty volume that is made after the content: labels cannot be changed.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from agentv_sandbox.base.errors import EngineError
from agentv_sandbox.containers.sandbox import Sandbox
from agentv_sandbox.containers.volumes import StagedFile
from agentv_sandbox.engines import LABEL_OWNER, LABEL_PREFIX, ContainerEngine
from agentv_sandbox.engines.owner import Owner
from agentv_sandbox.models.container import OwnedObject, VolumeSpec

LABEL_COPY = f"{LABEL_PREFIX}copy"
"""The token of one copy, on its content and its marker."""
LABEL_COPY_OF = f"{LABEL_PREFIX}copy-of"
"""What was copied; on markers."""
LABEL_TIME = f"{LABEL_PREFIX}time"
"""Seconds since 1970 when the copy was complete; on markers."""
MAX_COPIES = 3
"""In one engine; the newest stay."""


@contextmanager
def kept_volume(
    sandbox: Sandbox,
    signature: str,
    pack: Callable[[], Iterable[StagedFile]],
    signature_now: Callable[[], str | None],
) -> Iterator[str]:
    """Name of a volume, to be mounted read-only, with the files that ``signature`` stands for.

    One that an earlier run filled is used again. Else ``pack`` gives its files, and it is kept unless
    ``signature_now`` says that they changed meanwhile.
    """
    with ExitStack() as stack:
        yield _complete_copy(sandbox, signature, stack) or _new_copy(
            sandbox, signature, pack, signature_now, stack
        )


def _complete_copy(sandbox: Sandbox, signature: str, stack: ExitStack) -> str | None:
    engine = sandbox.engine
    for marker in engine.owned({LABEL_COPY_OF: signature}):
        token = marker.labels.get(LABEL_COPY, "")
        name = _name(token)
        with suppress(EngineError), ExitStack() as hold:
            # Held first, so that nobody removes it from here on. Where it was removed before, the engine makes an
            # empty one of that name without our labels.
            hold.enter_context(sandbox.holding(name))
            if any(obj.name == name for obj in engine.owned({LABEL_COPY: token})):
                stack.push(hold.pop_all())
                return name
        _remove(engine, token)
    return None


def _new_copy(
    sandbox: Sandbox,
    signature: str,
    pack: Callable[[], Iterable[StagedFile]],
    signature_now: Callable[[], str | None],
    stack: ExitStack,
) -> str:
    engine, token = sandbox.engine, secrets.token_hex(8)
    name = _name(token)
    engine.create_volume(
        name, VolumeSpec(disk=True), labels={LABEL_COPY: token, LABEL_OWNER: str(Owner.current())}
    )
    incomplete = stack.enter_context(ExitStack())
    incomplete.callback(_remove, engine, token)
    stack.enter_context(sandbox.holding(name))
    sandbox.fill(name, pack())
    if signature_now() == signature:
        labels = {LABEL_COPY: token, LABEL_COPY_OF: signature, LABEL_TIME: f"{time.time():.6f}"}
        engine.create_volume(_marker(token), VolumeSpec(disk=True), labels=labels)
        incomplete.pop_all()
        remove_copies(engine, keep=MAX_COPIES)
    return name


def remove_copies(engine: ContainerEngine, *, keep: int = 0, before: float | None = None) -> int:
    """Remove complete copies but the ``keep`` newest, where ``before`` is given only those made before it (seconds
    since 1970); returns how many. What a run uses stays until it is swept."""
    markers = sorted(engine.owned({LABEL_COPY_OF: None}), key=_time, reverse=True)[keep:]
    old = [marker for marker in markers if before is None or _time(marker) < before]
    for marker in old:
        _remove(engine, marker.labels.get(LABEL_COPY, ""))
    return len(old)


def sweep_copies(engine: ContainerEngine) -> int:
    """Remove copies that processes of this machine began and did not complete; returns how many."""
    copies = engine.owned({LABEL_COPY: None})
    complete = {obj.labels.get(LABEL_COPY) for obj in copies if LABEL_COPY_OF in obj.labels}
    begun = [obj for obj in copies if obj.labels.get(LABEL_COPY) not in complete]
    dead = [obj for obj in begun if Owner.parse(obj.labels.get(LABEL_OWNER, "")).dead()]
    for obj in dead:
        _remove(engine, obj.labels.get(LABEL_COPY, ""))
    return len(dead)


def _remove(engine: ContainerEngine, token: str) -> None:
    """The marker first: what is left of a copy then counts as incomplete."""
    for volume in (_marker(token), _name(token)):
        with suppress(EngineError):  # in use: swept when it no longer is
            engine.remove_volume(volume)


def _name(token: str) -> str:
    return f"agentv-copy-{token}"


def _marker(token: str) -> str:
    return f"{_name(token)}-complete"


def _time(marker: OwnedObject) -> float:
    try:
        return float(marker.labels.get(LABEL_TIME, ""))
    except ValueError:
        return 0.0
