"""Which image everything is built on: a local one, a pulled one, or one of our own making."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from agentv_sandbox.build.bootstrap import base_packages, make_base
from agentv_sandbox.build.containers import Builder
from agentv_sandbox.build.credentials import without_credentials
from agentv_sandbox.build.events import OnEvent
from agentv_sandbox.build.fetch import Cache
from agentv_sandbox.build.mirror import DEFAULT_MIRROR, Index
from agentv_sandbox.engines import LABEL_ENV_KEY
from agentv_sandbox.errors import BuildError, EngineError, EngineLost, EngineUnavailable
from agentv_sandbox.models.container import ImageInfo
from agentv_sandbox.models.image import Artefact, ImagePlan, content_key

RECIPE = 2
"""Raised whenever the way in which images are made changes their content."""

_PULL_TIMEOUT_S = 600.0
_REGISTRY_PATIENCE_S = 5.0


@dataclass(frozen=True, kw_only=True)
class Base:
    """An image in the engine to build on, and how it was chosen."""

    ref: str
    """What builder containers are started from."""
    facts: Mapping[str, str]
    """For the lock file and for people: ``kind``, ``ref``, ``id``, ``digest``, ``suite``, ``why``."""
    debs: tuple[Artefact, ...] = ()
    """What a bootstrapped base is made of."""


def local_base(builder: Builder, plan: ImagePlan, *, on_event: OnEvent) -> Base | None:
    """The wanted base if the engine has it or a registry gives it; None when it has to be made."""
    wanted = plan.base or f"debian:{plan.suite}-slim"
    info = builder.engine.image(wanted)
    if info is not None:
        on_event("base.local", {"ref": wanted})
        return _described(wanted, info, "found in the engine")
    if plan.config.pull:
        on_event("base.pull", {"ref": wanted})
        try:
            info = builder.engine.pull(
                wanted, timeout_s=_PULL_TIMEOUT_S if plan.base else _REGISTRY_PATIENCE_S
            )
        except (EngineLost, EngineUnavailable):
            raise
        except EngineError as error:
            reason = error.message.splitlines()[0][:200]
        else:
            on_event("base.pulled", {"ref": wanted, "digest": info.digests[0] if info.digests else info.id})
            return _described(wanted, info, "pulled")
    else:
        reason = "pulling is switched off"
    if plan.base:
        raise BuildError(
            f"the base image {wanted} is not in the engine and cannot be pulled: {reason}",
            hint="Is the name right? Images that you built yourself must be in this engine.",
        )
    mirror = without_credentials(plan.config.mirror or DEFAULT_MIRROR)
    on_event("base.no_registry", {"ref": wanted, "reason": reason, "mirror": mirror})
    return None


def _described(wanted: str, info: ImageInfo, why: str) -> Base:
    facts = {"kind": "image", "ref": wanted, "id": info.id, "why": why}
    if info.digests:
        facts["digest"] = info.digests[0]
    return Base(ref=info.id, facts=facts)


def bootstrapped_base(
    builder: Builder, cache: Cache, plan: ImagePlan, index: Index, *, debs: tuple[Artefact, ...] = (),
    on_event: OnEvent,
) -> Base:  # fmt: skip
    """A Debian base of our own: reused by its content key, else made. ``debs``: those of a lock file."""
    started = time.monotonic()
    if not debs:
        debs = tuple(package.artefact() for package in base_packages(index, suite=plan.suite))
    key = content_key({"recipe": RECIPE, "suite": plan.suite, "debs": [a.sha256 for a in debs]})
    tag = f"agentv-base:{plan.suite}-{key[:16]}"
    facts = {"kind": "bootstrap", "suite": plan.suite, "ref": tag, "epoch": str(index.epoch)}
    info = builder.engine.image(tag)
    if info is not None and info.labels.get(LABEL_ENV_KEY) == key:
        return Base(ref=tag, facts={**facts, "id": info.id}, debs=debs)
    mirror = without_credentials(index.sources[0].url)
    on_event("base.bootstrap", {"suite": plan.suite, "mirror": mirror, "packages": len(debs)})
    cache.ensure(debs, what="the base image")
    image_id = make_base(
        builder, cache, debs, epoch=index.epoch, tag=tag, labels={LABEL_ENV_KEY: key},
        architecture=builder.architecture,
    )  # fmt: skip
    on_event("base.ready", {"tag": tag, "seconds": round(time.monotonic() - started, 1)})
    return Base(ref=tag, facts={**facts, "id": image_id}, debs=debs)
