"""Images that the user brings: a Dockerfile is built, what an image declares of its own is taken off.

VOLUME, ENTRYPOINT, HEALTHCHECK, ONBUILD and variables of an image act on every container made from it. Builds
and runs state all of that themselves, so the base is given a clean configuration; its files stay as they are.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO

from agentv_sandbox.base.errors import BuildError, InputError, Problem
from agentv_sandbox.base.logs import safe_text
from agentv_sandbox.building import dockerfiles
from agentv_sandbox.building.archive import reconfigured
from agentv_sandbox.building.context import Context, write_context
from agentv_sandbox.building.labels import image_with_key
from agentv_sandbox.engines import (
    LABEL_ENV_KEY,
    LABEL_KEEP,
    LABEL_OWNER,
    LABEL_PREFIX,
    LABEL_ROLE,
    LABEL_RUN,
    ContainerEngine,
    StepImages,
    builder_of,
)
from agentv_sandbox.engines.stated import LOADING_ENV
from agentv_sandbox.fetching.events import CancelCheck, OnEvent
from agentv_sandbox.models.container import Build, ImageInfo
from agentv_sandbox.models.image import content_key

_CLAIMS = (LABEL_RUN, LABEL_ROLE, LABEL_OWNER, LABEL_KEEP)
"""Containers inherit these; the sweep of dead runs goes by them."""


def build_dockerfile(
    engine: ContainerEngine,
    dockerfile: Path,
    *,
    on_event: OnEvent,
    cancelled: CancelCheck,
    around: Callable[[StepImages], AbstractContextManager[dockerfiles.Surroundings]] | None = None,
) -> ImageInfo:
    """The image of a user's Dockerfile; rebuilt when a file of its folder changes, and, on an engine with ``steps``,
    when another base takes the place of one. ``around``: what a build by ``steps`` needs."""
    if not dockerfile.is_file():
        raise InputError(
            [Problem(message="there is no such Dockerfile", path=dockerfile, field="workspace.docker")]
        )
    with tempfile.TemporaryFile() as file:
        context = write_context(dockerfile, file)
        key = context.key
        if engine.steps is not None and around is not None:
            with around(engine.steps) as surroundings:
                return _build_by_steps(surroundings, dockerfile, context, file)
        tag = f"agentv-own:{key[:16]}"
        info = image_with_key(engine, tag, key)
        if info is not None:
            return info
        on_event("own.build", {"path": str(dockerfile), "bytes": context.size})
        for sentence in context.skipped:
            on_event("own.log", {"line": f"left out of the context: {sentence}"})

        def show(chunk: bytes) -> None:
            for line in chunk.decode("utf-8", "replace").splitlines():
                if line.strip():
                    on_event("own.log", {"line": safe_text(line, limit=300)})

        builder_of(engine, f"build {dockerfile.name}").build(
            file,
            Build(
                dockerfile=dockerfile.name,
                tag=tag,
                labels={LABEL_ENV_KEY: context.key},
                on_output=show,
                cancelled=cancelled,
            ),
        )
        info = engine.image(tag)
    if info is None:
        raise BuildError(f"the engine built {dockerfile.name} and does not have its image")
    return info


def _build_by_steps(
    around: dockerfiles.Surroundings, dockerfile: Path, context: Context, file: IO[bytes]
) -> ImageInfo:
    key = content_key([context.key, sorted(around.config.bases.items()), dockerfiles.RECIPE])
    tag = f"agentv-own:{key[:16]}"
    info = None if around.anew else image_with_key(around.engine, tag, key)
    if info is not None:
        return info
    around.on_event("own.build", {"path": str(dockerfile), "bytes": context.size})
    for sentence in context.skipped:
        around.on_event("own.log", {"line": f"left out of the context: {sentence}"})
    return dockerfiles.build(around, dockerfile, file, tag=tag, key=key)


def findings(info: ImageInfo) -> list[str]:
    """What the image's configuration would do to containers, for people; each is neutralised."""
    remarks = [f"VOLUME {path}: would be a fresh volume in every container" for path in info.volumes]
    if info.entrypoint:
        remarks.append(f"ENTRYPOINT {list(info.entrypoint)}: would run before every command")
    if info.healthcheck:
        remarks.append("HEALTHCHECK: would run beside every command")
    remarks += [f"ONBUILD {step}: would run in images built on it" for step in info.onbuild]
    if info.workdir not in ("", "/"):
        remarks.append(f"WORKDIR {info.workdir}: commands run in /workspace")
    if info.user not in ("", "0", "root", "0:0"):
        remarks.append(f"USER {info.user}: every role has a user of its own")
    for name, _, value in (entry.partition("=") for entry in info.env):
        if name in LOADING_ENV and value:
            remarks.append(f"ENV {name}: would change what programs load")
    remarks += [
        f"LABEL {name}: would claim containers for a run" for name in _CLAIMS if info.labels.get(name)
    ]
    return remarks


def neutralised(engine: ContainerEngine, info: ImageInfo, *, on_event: OnEvent) -> ImageInfo:
    """``info``, or a twin with the same layers and a clean configuration when its own would act."""
    remarks = findings(info)
    for finding in remarks:
        on_event("own.finding", {"finding": safe_text(finding, limit=300)})
    if not (
        info.volumes or info.onbuild or any(finding.startswith(("ENV ", "LABEL ")) for finding in remarks)
    ):
        return info  # what is left is stated anew for every container
    key = info.id.removeprefix("sha256:")
    tag = f"agentv-own:clean-{key[:16]}"
    clean = image_with_key(engine, tag, key)
    if clean is None:
        with tempfile.TemporaryFile() as saved, tempfile.TemporaryFile() as changed:
            for chunk in engine.save_image(info.id):
                saved.write(chunk)
            saved.seek(0)
            labels = {name: value for name, value in info.labels.items() if not name.startswith(LABEL_PREFIX)}
            labels[LABEL_ENV_KEY] = key  # so that it is listed and cleaned as ours
            reconfigured(saved, changed, tag=tag, drop_env=frozenset(LOADING_ENV), labels=labels)
            changed.seek(0)
            engine.load_image(changed)
        clean = engine.image(tag)
    if clean is None:
        raise BuildError("the engine did not take the cleaned base image")
    return clean


__all__ = ["build_dockerfile", "findings", "neutralised"]
