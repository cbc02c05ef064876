"""The stages in order. The only place that knows it: plan, build, then for each case workspace, hooks, agent,
collection, preprocessing, grading, and a row that is on disk before the next one starts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path

from agentv_sandbox.build import LOCK_NAME, ensure_image
from agentv_sandbox.errors import ImageRequestError, InputError, Problem
from agentv_sandbox.files import BlobStore
from agentv_sandbox.llm import LlmClient
from agentv_sandbox.models.case import CaseResult
from agentv_sandbox.models.container import Mount
from agentv_sandbox.models.image import Image, ImageConfig, ImagePlan, LockMode
from agentv_sandbox.models.suite import EvalCase, Suite, Target
from agentv_sandbox.pipeline.case import Case, CaseOptions, OnEvent, SuiteRun
from agentv_sandbox.pipeline.images import suite_plan, tool_plan
from agentv_sandbox.pipeline.schedule import Schedule
from agentv_sandbox.pipeline.workspace import Templates
from agentv_sandbox.preprocess import Preprocessors
from agentv_sandbox.preprocess.runner import ContainerFileRunner
from agentv_sandbox.project import SUITE, Project, staged_copy
from agentv_sandbox.providers import PROVIDERS
from agentv_sandbox.sandbox import Sandbox

__all__ = [
    "CaseOptions",
    "RunOptions",
    "RunTools",
    "build_images",
    "jobs_of",
    "planned_images",
    "run_suites",
    "select_targets",
]

DEFAULT_WORKERS = 3


@dataclass(frozen=True, kw_only=True)
class RunTools:
    """What a run works with."""

    sandbox: Sandbox
    store: BlobStore
    environments: Mapping[Path, Mapping[str, str]]
    """Variables of each suite by its path."""


OnResult = Callable[[CaseResult, EvalCase, Suite], None]


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What the command line decides for the whole run."""

    targets: tuple[str, ...] = ()
    """Names; empty: what each suite says, else ``default``."""
    test_ids: tuple[str, ...] = ()
    """Globs; empty: all."""
    workers: int | None = None
    case: CaseOptions = CaseOptions()
    image: ImageConfig = ImageConfig()
    lock_mode: LockMode = "default"
    cache_dir: Path = Path()
    cwd: Path = Path()
    run_env: Mapping[str, str] = field(default_factory=dict)


def select_targets(suite: Suite, wanted: Sequence[str]) -> list[Target]:
    """The targets that ``suite`` is run against. Raises InputError for unknown names and kinds."""
    execution = suite.execution
    names = tuple(wanted) or execution.targets or ((execution.target,) if execution.target else ("default",))
    problems = []
    for name in names:
        target = suite.targets.get(name)
        if target is None:
            known = ", ".join(sorted(suite.targets)) or "none"
            where = suite.targets_path or "no targets.yaml was found"
            problems.append(
                Problem(path=suite.path, message=f"target {name!r} does not exist; known targets: {known}",
                        hint=f"Targets come from {where}.")
            )  # fmt: skip
        elif target.provider not in PROVIDERS:
            at = target.position
            problems.append(
                Problem(
                    path=at.path if at else suite.path, line=at.line if at else None,
                    message=f"target {name!r} has provider {target.provider!r}, which cannot be evaluated here; "
                    f"these can: {', '.join(PROVIDERS)}",
                    hint="LLM targets serve as grader_target. Wrap an agent in a cli target to evaluate it.",
                )
            )  # fmt: skip
    if problems:
        raise InputError(problems)
    return [suite.targets[name] for name in names]


def build_images(
    suites: Sequence[Suite], sandbox: Sandbox, options: RunOptions, on_event: OnEvent
) -> dict[Path, Image]:
    """The tool image, then one image a suite, each proved inside; all refusals of all suites at once."""
    _tool, *made = planned_images(suites, sandbox, options, on_event)
    return {suite.path: image for suite, (_plan, image) in zip(suites, made, strict=True)}


def planned_images(
    suites: Sequence[Suite], sandbox: Sandbox, options: RunOptions, on_event: OnEvent
) -> list[tuple[ImagePlan, Image]]:
    """As ``build_images``: the tool image's plan and image first, then those of each suite."""
    plans: list[tuple[ImagePlan, Path | None]] = [(tool_plan(options.image), None)]
    problems: dict[Problem, None] = {}
    for suite in suites:
        try:
            plan = suite_plan(suite, select_targets(suite, options.targets), options.image)
            plans.append((plan, suite.path.parent / LOCK_NAME))
        except ImageRequestError as error:
            problems |= dict.fromkeys(error.problems)
    if problems:
        raise ImageRequestError(list(problems))
    build = _Builder(sandbox, options, on_event)
    made = [(plan, build.image(plan, lock_path)) for plan, lock_path in plans]
    sandbox.tool_image = made[0][1].id
    return made


class _Builder:
    """Each distinct plan once for each lock file that wants it."""

    def __init__(self, sandbox: Sandbox, options: RunOptions, on_event: OnEvent) -> None:
        self._sandbox = sandbox
        self._options = options
        self._on_event = on_event
        self._done: dict[tuple[str, Path | None], Image] = {}

    def image(self, plan: ImagePlan, lock_path: Path | None) -> Image:
        key = (plan.key, lock_path)
        if key not in self._done:
            self._done[key] = ensure_image(
                self._sandbox.engine,
                plan,
                cache_dir=self._options.cache_dir,
                on_event=lambda event, keys: self._on_event(event, **keys),
                cancelled=self._sandbox.cancelled,
                lock_path=lock_path,
                mode=self._options.lock_mode if lock_path is not None else "default",
            )
        return self._done[key]


def run_suites(
    suites: Sequence[Suite],
    images: Mapping[Path, Image],
    tools: RunTools,
    options: RunOptions,
    on_event: OnEvent,
    on_result: OnResult,
) -> None:
    """Run every case of every suite; ``on_result`` gets each result as soon as it is there, one at a time.

    Raises Cancelled, EngineLost or EngineUnavailable; results until then have been handed over.
    """
    for suite in suites:
        with ExitStack() as stack:
            run = _suite_run(stack, suite, images[suite.path], tools, options, on_event)
            jobs = jobs_of(suite, options)
            workers = options.workers or suite.execution.workers or DEFAULT_WORKERS
            Schedule(run, jobs, partial(_deliver, suite, on_event, on_result)).work(workers)


def _deliver(
    suite: Suite, on_event: OnEvent, on_result: OnResult, result: CaseResult, case: EvalCase
) -> None:
    on_result(result, case, suite)
    on_event("case.finished", result=result)


def _suite_run(
    stack: ExitStack, suite: Suite, image: Image, tools: RunTools, options: RunOptions, on_event: OnEvent
) -> SuiteRun:
    sandbox = tools.sandbox
    project = Project(suite.project_root, cwd=options.cwd)
    volume = stack.enter_context(sandbox.plain_volume(project.files()))
    runner = ContainerFileRunner(sandbox, image=image.id, project=project, store=tools.store,
                                 mounts=[Mount(source=volume, target=SUITE)])  # fmt: skip
    environ = tools.environments[suite.path]
    llm = stack.enter_context(LlmClient(environ, cancelled=sandbox.cancelled))
    return SuiteRun(
        suite=suite, sandbox=sandbox, image=image, project=project, project_volume=volume, store=tools.store,
        llm=llm, preprocessors=Preprocessors(runner, tools.store), options=options.case,
        environ=environ, on_event=on_event, templates=Templates(),
        agent_volume=_AgentVolumes(stack, sandbox, project).name, run_env=options.run_env,
    )  # fmt: skip


class _AgentVolumes:
    """The part of the project that an agent's command names, packed once for each set of files."""

    def __init__(self, stack: ExitStack, sandbox: Sandbox, project: Project) -> None:
        self._stack = stack
        self._sandbox = sandbox
        self._project = project
        self._names: dict[frozenset[Path], str] = {}
        self._lock = threading.Lock()

    def name(self, paths: Sequence[Path]) -> str:
        key = frozenset(paths)
        with self._lock:
            if key not in self._names:
                staged = staged_copy(paths, self._project.root)
                self._names[key] = self._stack.enter_context(self._sandbox.plain_volume(staged))
            return self._names[key]


def jobs_of(suite: Suite, options: RunOptions) -> list[Case]:
    """Every (case, target) pair that was asked for, in the suite's order."""
    cases = [c for c in suite.cases if _selected(c.id, options.test_ids)]
    return [
        Case(case=case, target=target)
        for target in select_targets(suite, options.targets)
        for case in cases
        if not case.targets or target.name in case.targets
    ]


def _selected(case_id: str, globs: Sequence[str]) -> bool:
    return not globs or any(fnmatchcase(case_id, glob) for glob in globs)
