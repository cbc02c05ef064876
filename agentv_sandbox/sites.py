"""Where the tests of a run take place: this process with an engine, or the workers of a cluster."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from agentv_sandbox.egress import WayOut
from agentv_sandbox.egress import sweep as sweep_egress
from agentv_sandbox.engines.table import find_engine
from agentv_sandbox.engines.tier import require_tier, tier
from agentv_sandbox.engines.watchdog import Watchdog
from agentv_sandbox.errors import InputError, Problem
from agentv_sandbox.files import BlobStore
from agentv_sandbox.keptvolumes import sweep_copies
from agentv_sandbox.loading import LoadResult
from agentv_sandbox.models.image import ProvedImage
from agentv_sandbox.models.suite import Json
from agentv_sandbox.models_api import Tape
from agentv_sandbox.pipeline import Crew, OnTrial, RunOptions, RunTools, Threads, build_images
from agentv_sandbox.pipeline.scratch import sweep_scratch
from agentv_sandbox.pipeline.suiterun import OnEvent
from agentv_sandbox.runfolder.facts import engine_facts
from agentv_sandbox.sandbox import Sandbox, sweep
from agentv_sandbox.settings import Operator, RunSettings, settings_together

SandboxContext = AbstractContextManager[Sandbox]


class Site(Protocol):
    """Where the tests of a run take place, once its images are ready."""

    @property
    def engine(self) -> str:
        """Engine and runtime in a few words."""
        ...

    @property
    def images(self) -> Mapping[Path, ProvedImage]: ...

    @property
    def facts(self) -> Mapping[str, Json]:
        """The engine, for ``run.json``."""
        ...

    def record(self) -> Mapping[str, Json]:
        """What is known of the site when the run ends, for ``run.json``."""
        ...

    def crew(self, store: BlobStore, kept: BlobStore, on_trial: OnTrial) -> Crew:
        """Who runs the tests. Contents go to ``store``, and those that make workspaces again to ``kept``."""
        ...


@dataclass(frozen=True)
class Here:
    """This process."""

    sandbox: Sandbox
    images: Mapping[Path, ProvedImage]
    loaded: LoadResult
    options: RunOptions
    tape: Tape | None
    on_event: OnEvent

    @property
    def engine(self) -> str:
        return tier(self.sandbox.info, self.sandbox.runtime).summary

    @property
    def facts(self) -> Mapping[str, Json]:
        return engine_facts(self.sandbox.info, self.sandbox.runtime)

    def record(self) -> Mapping[str, Json]:
        return {}

    def crew(self, store: BlobStore, kept: BlobStore, on_trial: OnTrial) -> Crew:
        tools = RunTools(
            sandbox=self.sandbox,
            store=store,
            kept=kept,
            environments=self.loaded.environments,
            tape=self.tape,
            way=WayOut(self.sandbox, self.options.egress),
        )
        return Threads(self.images, tools, self.options, self.on_event, on_trial)


@dataclass(frozen=True)
class Asked:
    """What a site is to do."""

    loaded: LoadResult
    options: RunOptions
    required_tier: str | None
    engine: str | None
    runtime: str | None
    record: Path | None
    replay: Path | None


@contextmanager
def site_of(
    cluster: str | None,
    asked: Asked,
    settings: RunSettings,
    environ: Mapping[str, str],
    tape: Tape | None,
    stop: threading.Event | None,
    on_event: OnEvent,
) -> Iterator[Site]:
    """The workers that ``cluster`` names, or this process. Raises InputError, EngineError, BuildError, Cancelled."""
    if cluster is not None:
        with cluster_module("site").gathered(cluster, asked, stop, on_event) as site:
            yield site
        return
    options = asked.options
    with run_sandbox(settings, environ, may_keep=options.case.keep_failed, stop=stop) as sandbox:
        images = ready_images(sandbox, asked.loaded, options, asked.required_tier, on_event)
        yield Here(sandbox, images, asked.loaded, options, tape, on_event)


def cluster_module(name: str) -> Any:
    """A module of the package of clusters, which takes a second to import. Raises InputError where what it needs is
    not installed."""
    try:
        return import_module(f"agentv_sandbox.cluster.{name}")
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("agentv_sandbox"):
            raise
        message = f"a cluster needs {error.name}, which is not installed"
        hint = 'Install it on every machine: pip install "agentv-sandbox[dask]"'
        raise InputError([Problem(message=message, field="--cluster", hint=hint)]) from None


def ready_images(
    sandbox: Sandbox,
    loaded: LoadResult,
    options: RunOptions,
    required_tier: str | None,
    on_event: OnEvent,
) -> dict[Path, ProvedImage]:
    """The suites' images, once the engine is known to keep its word. Raises EngineError, ImageRequestError."""
    sandbox.check_enforced()
    require_tier(tier(sandbox.info, sandbox.runtime), required_tier)
    images = build_images(loaded.suites, sandbox, options, on_event)
    if sandbox.runtime is not None:
        sandbox.check_enforced()  # in a container: one that does not exist ends the run, not each of its tests
    return images


def settings_of(
    loaded: LoadResult,
    cwd: Path,
    operator: Operator,
    *,
    engine: str | None = None,
    runtime: str | None = None,
) -> RunSettings:
    """The settings of the projects of all suites, of the one of ``cwd`` where there is none. Raises InputError."""
    roots = [suite.project_root for suite in loaded.suites] or [cwd]
    return settings_together(roots, operator, engine=engine, runtime=runtime)


@contextmanager
def run_sandbox(
    settings: RunSettings,
    environ: Mapping[str, str],
    *,
    may_keep: bool,
    stop: threading.Event | None,
) -> Iterator[Sandbox]:
    """A sandbox after the removal of what dead runs left, and cleaned up after should this process be killed."""
    answering = find_engine(environ, settings.engine)
    sweep(answering)
    sweep_copies(answering)
    sweep_egress()
    sweep_scratch()
    with (
        Sandbox(
            answering,
            runtime=settings.runtime,
            may_keep=may_keep,
            ceiling=settings.ceiling,
            stop=stop,
        ) as sandbox,
        Watchdog(answering.address, sandbox.run_id),
    ):
        try:
            yield sandbox
        finally:
            sandbox.close()
