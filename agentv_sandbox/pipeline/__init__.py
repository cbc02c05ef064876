"""The stages in order. The only place that knows it: plan, build, then for each case workspace, hooks, agent,
collection, preprocessing, grading, and a row that is on disk before the next one starts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from contextvars import copy_context
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from agentv_sandbox.egress import WayOut
from agentv_sandbox.files import BlobStore
from agentv_sandbox.gateway import Bounds, Meter, RateLimits, Tape
from agentv_sandbox.invoke import with_overrides
from agentv_sandbox.llm import LlmClient
from agentv_sandbox.models.case import CaseResult
from agentv_sandbox.models.image import ProvedImage
from agentv_sandbox.models.suite import EvalCase, Suite
from agentv_sandbox.pipeline.agent import after_all
from agentv_sandbox.pipeline.capturing import KeptContents
from agentv_sandbox.pipeline.imagebuild import build_images, planned_images
from agentv_sandbox.pipeline.inputhashes import InputHashes
from agentv_sandbox.pipeline.limits import suite_limits
from agentv_sandbox.pipeline.projectvolumes import ProjectVolumes
from agentv_sandbox.pipeline.records import CaseOptions, Job, RunOptions, SuiteStart
from agentv_sandbox.pipeline.regrade import Regrading
from agentv_sandbox.pipeline.repos import Repos
from agentv_sandbox.pipeline.schedule import Schedule
from agentv_sandbox.pipeline.scratch import scratch_folder
from agentv_sandbox.pipeline.shared import SharedWorkspaces
from agentv_sandbox.pipeline.suiterun import OnEvent, SuiteRun
from agentv_sandbox.pipeline.targets import image_targets, jobs_of, select_targets, target_warnings
from agentv_sandbox.pipeline.trials import run_job
from agentv_sandbox.pipeline.workspace import TemplateCache
from agentv_sandbox.preprocess import Preprocessors
from agentv_sandbox.preprocess.runner import LIMITS, ContainerFileRunner
from agentv_sandbox.project import Project
from agentv_sandbox.sandbox import Sandbox

__all__ = [
    "CaseOptions",
    "Regrading",
    "RunOptions",
    "RunTools",
    "build_images",
    "image_targets",
    "jobs_of",
    "planned_images",
    "run_suites",
]

DEFAULT_WORKERS = 3


@dataclass(frozen=True, kw_only=True)
class RunTools:
    """What a run works with."""

    sandbox: Sandbox
    store: BlobStore
    environments: Mapping[Path, Mapping[str, str]]
    """Variables of each suite by its path."""
    kept: BlobStore | None = None
    """Where contents go that are only there to make workspaces again; None: nothing is kept for a later grading."""
    tape: Tape | None = None
    """Where calls of models are recorded, or replayed from."""
    way: WayOut | None = None
    """How containers reach the egress proxy; None: by a shared socket."""
    limits: RateLimits = field(default_factory=RateLimits)
    """Rate limits of servers of models, which agents and graders of all suites meet together."""


OnResult = Callable[[Suite, CaseResult, EvalCase], CaseResult]
"""Takes a result to where it is kept; returns it as it was written."""
OnTrial = Callable[[Suite, CaseResult, EvalCase], None]
"""The same for one of several trials, before all of them are one result."""


def run_suites(
    suites: Sequence[Suite],
    images: Mapping[Path, ProvedImage],
    tools: RunTools,
    options: RunOptions,
    on_event: OnEvent,
    on_result: OnResult,
    on_trial: OnTrial = lambda *_result: None,
    starts: Mapping[Path, SuiteStart] = {},
    regrading: Regrading | None = None,
) -> None:
    """Run every case of every suite; ``on_result`` gets each result as soon as it is there, one at a time, and
    ``on_trial`` each of several trials of a test, from several threads. ``starts``: what is done already, by the
    suite's path. ``regrading``: the run whose agents stand in for those of now.

    Raises Cancelled, EngineLost or EngineUnavailable; results until then have been handed over.
    """
    for suite in suites:
        with ExitStack() as stack:
            start = starts.get(suite.path, SuiteStart())
            run = _suite_run(stack, suite, images[suite.path], tools, options, on_event)
            run = replace(run, start=start, on_trial=partial(on_trial, suite))
            run.meter.spend(start.spent_usd)
            if regrading is not None:
                jobs, work = regrading.jobs(suite, options.test_ids), regrading.run_job
            else:
                jobs, work = jobs_of(suite, options), run_job
                for problem in target_warnings(select_targets(suite, options.targets)):
                    on_event("note", message=str(problem))
            workers, of_targets = _workers(suite, jobs, options)
            schedule = Schedule(
                suite,
                jobs,
                partial(on_result, suite),
                stop=tools.sandbox,
                of_targets=of_targets,
                threshold=options.case.threshold,
                start=start,
            )
            with ThreadPoolExecutor(workers, thread_name_prefix="case") as pool:
                # Each thread with a copy of this one's context, or log events lose what is bound to it.
                schedule.work(lambda job: pool.submit(copy_context().run, work, run, job), workers)  # noqa: B023
            for note in after_all(run, jobs) if regrading is None else ():
                on_event("note", message=note)


def _workers(suite: Suite, jobs: Sequence[Job], options: RunOptions) -> tuple[int, Mapping[str, int]]:
    """How many tests run at once, and how many of a target where neither the command line nor the suite says."""
    if workers := options.workers or suite.execution.workers:
        return workers, {}
    of_targets = {job.target.name: job.target.workers or DEFAULT_WORKERS for job in jobs}
    return max(of_targets.values(), default=DEFAULT_WORKERS), of_targets


def _suite_run(
    stack: ExitStack,
    suite: Suite,
    image: ProvedImage,
    tools: RunTools,
    options: RunOptions,
    on_event: OnEvent,
) -> SuiteRun:
    sandbox = tools.sandbox
    project = Project(suite.project_root, cwd=options.cwd)
    volumes = ProjectVolumes(stack, sandbox, project, on_event)
    environ = tools.environments[suite.path]
    client = LlmClient(environ, cancelled=sandbox.cancelled, tape=tools.tape, limits=tools.limits)
    llm = stack.enter_context(client)
    scratch = stack.enter_context(scratch_folder())
    repos = Repos(
        cache=options.cache_dir / "repos",
        scratch=scratch,
        project_root=suite.project_root,
        allow_outside=options.allow_outside,
        cancelled=sandbox.cancelled,
    )
    runner = ContainerFileRunner(
        sandbox,
        image=image.id,
        project=project,
        store=tools.store,
        project_mount=volumes.whole,
        limits=with_overrides(LIMITS, suite_limits(suite, suite.workspace).commands),
    )
    return SuiteRun(
        suite=suite,
        sandbox=sandbox,
        image=image,
        project=project,
        project_mount=volumes.whole,
        store=tools.store,
        llm=llm,
        preprocessors=Preprocessors(runner, tools.store),
        options=options.case,
        environ=environ,
        on_event=on_event,
        starts=TemplateCache(repos),
        shared=stack.enter_context(SharedWorkspaces()),
        agent_volume=volumes.part,
        meter=Meter(Bounds(cost_usd=suite.execution.budget_usd), subject="suite"),
        contents=KeptContents(tools.store, tools.kept) if tools.kept else None,
        tape=tools.tape,
        limits=tools.limits,
        way=tools.way,
        run_env=options.run_env,
        hashes=InputHashes(suite, image, project, environ, options.case),
        on_trial=lambda *_trial: None,
    )
