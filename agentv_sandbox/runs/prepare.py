"""From what is asked to what can be carried out. `run`, `regrade`, `grade`, `build`, `lock`, `export` and a
cluster's workers begin here: suites, settings of each project by itself, what is wrong, secrets; then engine, tier and
images.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from agentv_sandbox import masking
from agentv_sandbox.audit.planning import audited
from agentv_sandbox.base import logs
from agentv_sandbox.base.errors import EngineError, InputError, Problem
from agentv_sandbox.base.scratch import sweep_scratch
from agentv_sandbox.containers.blobs import BlobStore
from agentv_sandbox.containers.sandbox import WITHOUT_SYSTEMS, Sandbox, sweep
from agentv_sandbox.egress import WayOut
from agentv_sandbox.egress import sweep as sweep_egress
from agentv_sandbox.engines.table import find_engine
from agentv_sandbox.engines.tier import require_tier, tier
from agentv_sandbox.engines.watchdog import Watchdog
from agentv_sandbox.images.needs import suite_env, suite_plan_with_refusals
from agentv_sandbox.images.plan import refusals
from agentv_sandbox.loading import LoadResult, load_suites
from agentv_sandbox.modelcalls.recording import Recorder
from agentv_sandbox.modelcalls.replaying import Player, Tape
from agentv_sandbox.models.container import LimitOverrides
from agentv_sandbox.models.identity import eval_file_of
from agentv_sandbox.models.image import ProvedImage
from agentv_sandbox.models.suite import Suite
from agentv_sandbox.request import OnEvent, Paths, RunRequest
from agentv_sandbox.rows.redact import Redactor
from agentv_sandbox.runs.checks import planned_tests, run_problems, secret_values
from agentv_sandbox.runs.execute import (
    MadeImage,
    RunOptions,
    RunTools,
    build_images,
)
from agentv_sandbox.settings import Operator, RunSettings, Settings, ceiling_problems, settings_together
from agentv_sandbox.targets.chosen import selected_cases
from agentv_sandbox.targets.destinations import surprises
from agentv_sandbox.targets.scopes import is_unset_key, with_stand_in_keys
from agentv_sandbox.workspace.projectcopies import sweep_copies

Purpose = Literal["run", "grade", "images"]


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A request with all that is known before an engine is asked."""

    request: RunRequest
    loaded: LoadResult
    settings: RunSettings
    options: RunOptions
    environ: Mapping[str, str] = field(repr=False)
    redactor: Redactor
    """Of the secrets that targets name. The process's log and output are masked for them, too."""
    notes: Sequence[str] = ()
    """What is worth saying before anything runs."""

    @property
    def cwd(self) -> Path:
        return self.options.cwd

    @property
    def required_tiers(self) -> tuple[str | None, ...]:
        """Of the command line, which wins; else the strictest of the projects."""
        return (self.request.required_tier or self.settings.require_tier,)

    @contextmanager
    def sandbox(self, stop: threading.Event | None) -> Iterator[Sandbox]:
        """A sandbox after the removal of what dead runs left, and cleaned up after should this process be killed."""
        answering = find_engine(self.environ, self.settings.engine)
        sweep(answering)
        sweep_copies(answering)
        sweep_egress()
        sweep_scratch()
        with (
            Sandbox(
                answering,
                runtime=self.settings.runtime,
                may_keep=self.request.keep_failed,
                ceiling=self.settings.ceiling,
                stop=stop,
            ) as sandbox,
            Watchdog(answering.address, sandbox.run_id),
        ):
            try:
                yield sandbox
            finally:
                sandbox.close()

    def images(self, sandbox: Sandbox, on_event: OnEvent) -> dict[Path, ProvedImage]:
        """The suites' images, by the suite's path, once the engine is known to keep its word. Raises EngineError,
        ImageRequestError."""
        self.check_engine(sandbox, self.required_tiers)
        self._check_systems(sandbox)
        made = self.made(sandbox, on_event)
        if sandbox.runtime is not None:
            sandbox.check_enforced()  # in a container: one that does not exist ends the run, not each of its tests
        return {path: each.image for path, each in made.items() if path is not None}

    def _check_systems(self, sandbox: Sandbox) -> None:
        """Raises EngineError where a suite wants agents to have whole systems, which the engine cannot bound."""
        spaces = [
            space
            for suite in self.loaded.suites
            for space in (suite.workspace, *(case.workspace for case in suite.cases))
        ]
        wanted = next((space.system for space in spaces if space and space.system), None)
        if wanted is None or sandbox.info.systems:
            return
        place = f"{wanted.position.path}:{wanted.position.line}: " if wanted.position else ""
        raise EngineError(
            f"{place}workspace.system cannot be had with the {sandbox.info.kind} engine: it neither bounds what root "
            "may write nor gives each container a user namespace of its own",
            hint=WITHOUT_SYSTEMS,
        )

    def made(self, sandbox: Sandbox, on_event: OnEvent) -> dict[Path | None, MadeImage]:
        """As ``build_images``, of an engine that nothing is known of."""
        return build_images(self.loaded.suites, sandbox, self.options, on_event)

    @staticmethod
    def check_engine(sandbox: Sandbox, tiers: Iterable[str | None]) -> None:
        """Raises EngineError where the engine does not keep its word, or is of a lower tier than any of ``tiers``."""
        sandbox.check_enforced()
        for required in tiers:
            require_tier(tier(sandbox.info, sandbox.runtime), required)

    def tools(
        self, sandbox: Sandbox, store: BlobStore, kept: BlobStore | None, tape: Tape | None = None
    ) -> RunTools:
        """What the tests of the run work with. Contents go to ``store``, and those that make workspaces again to
        ``kept``."""
        return RunTools(
            sandbox=sandbox,
            store=store,
            kept=kept,
            environments=self.loaded.environments,
            tape=tape,
            way=WayOut(sandbox, self.options.egress),
        )

    def tape(self) -> Tape | None:
        """Where calls of models are recorded, or replayed from. Raises InputError."""
        request = self.request
        if request.record is not None:
            return Recorder(request.record.absolute(), self.redactor)
        return Player(request.replay.absolute(), self.redactor) if request.replay is not None else None


def prepare(
    request: RunRequest,
    purpose: Purpose = "run",
    *,
    operator: Operator | None = None,
    ceilings: Mapping[Path, LimitOverrides] | None = None,
    on_warning: Callable[[Problem], None] = lambda _problem: None,
) -> Prepared:
    """``purpose``: ``run`` checks that agents can run, ``grade`` loads without the keys of agents, ``images`` only
    what an image needs. ``operator``: whose word the settings are, and ``ceilings`` what holds over them, by root; of
    workers, which work for somebody else.

    Raises InputError with everything that is wrong and can be known now."""
    logs.configure_unless_done()
    environ = os.environ if request.environ is None else request.environ
    cwd = request.cwd or Path.cwd()
    loaded = _loaded(request, purpose, cwd, environ, on_warning)
    settings = settings_of(
        loaded, cwd, operator or Operator(environ), engine=request.engine, runtime=request.runtime
    )
    if ceilings is not None:
        settings = settings.under(ceilings)
    options = RunOptions(
        # In an audit, targets are what its agents stand in for; what runs are the suites' own, which are these agents.
        request=replace(request, targets=()) if request.auditors else request,
        image=settings.image,
        images=settings.images,
        ceilings=settings.ceilings,
        cache_dir=cache_dir(environ),
        cwd=cwd,
        egress=settings.egress,
        run_env=_run_variables(request.experiment),
        first=dict(first_tests(loaded, request)),
    )
    if purpose == "run":
        _refuse_what_cannot_run(loaded, options)
        if ceilings is None and (
            problems := ceiling_problems(loaded.suites, request.limits, options.ceilings)
        ):
            raise InputError(problems)
    secrets = secret_values(loaded) if purpose != "images" else []
    masking.know(secrets)
    notes = []
    if purpose != "images" and request.replay is None:
        notes = surprises(loaded, options, agents=purpose == "run")
    return Prepared(
        request=request,
        loaded=loaded,
        settings=settings,
        options=options,
        environ=environ,
        redactor=Redactor(secrets),
        notes=notes,
    )


def _loaded(
    request: RunRequest,
    purpose: Purpose,
    cwd: Path,
    environ: Mapping[str, str],
    on_warning: Callable[[Problem], None],
) -> LoadResult:
    """The suites that are asked for, told apart where they have one name; in an audit, with its agents as targets."""
    loaded = loaded_as_written(request, cwd, environ, on_warning, without_keys=purpose == "grade")
    if request.auditors:
        loaded = audited(loaded, request)
    if request.replay is not None:
        loaded = replace(loaded, environments=with_stand_in_keys(loaded))
    return loaded


def loaded_as_written(
    request: RunRequest,
    cwd: Path,
    environ: Mapping[str, str],
    on_warning: Callable[[Problem], None] = lambda _problem: None,
    *,
    without_keys: bool = False,
) -> LoadResult:
    """The suites that are asked for, as they are written. An audit needs no keys: judges without one are left out.
    Raises InputError."""
    without_keys = without_keys or request.replay is not None or bool(request.auditors)
    loaded = (
        request.suites
        if isinstance(request.suites, LoadResult)
        else load(
            request.suites,
            targets_file=request.targets_file,
            targets=request.targets,
            allow_outside=request.allow_outside,
            cwd=cwd,
            environ=environ,
            without_keys=without_keys,
            on_warning=on_warning,
        )
    )
    return _told_apart(_with_tags(loaded, request))


def _with_tags(loaded: LoadResult, request: RunRequest) -> LoadResult:
    """The suites that have all tags that are asked for, and none that is to be left out. Raises InputError where there
    is none."""
    wanted, unwanted = set(request.tags), set(request.exclude_tags)
    suites = tuple(
        suite for suite in loaded.suites if wanted.issubset(suite.tags) and unwanted.isdisjoint(suite.tags)
    )
    if loaded.suites and not suites:
        known = ", ".join(sorted({tag for suite in loaded.suites for tag in suite.tags})) or "none"
        message = "no eval file is left by --tag and --exclude-tag"
        raise InputError([Problem(message=message, hint=f"Tags of these eval files: {known}.")])
    return replace(loaded, suites=suites)


def _told_apart(loaded: LoadResult) -> LoadResult:
    """Tests of suites that have one name know their eval files."""
    names = Counter(suite.name for suite in loaded.suites)

    def marked(suite: Suite) -> Suite:
        if names[suite.name] == 1:
            return suite
        place = eval_file_of(suite)
        return replace(suite, cases=tuple(replace(case, eval_file=place) for case in suite.cases))

    return replace(loaded, suites=tuple(map(marked, loaded.suites)))


def first_tests(loaded: LoadResult, request: RunRequest) -> Iterator[tuple[Path, int]]:
    """How many tests of each suite are among the first ones that are asked for."""
    left = request.limit
    for suite in loaded.suites if left is not None else ():
        there = min(left or 0, len(selected_cases(suite, request.test_ids)))
        yield suite.path, there
        left = (left or 0) - there


def _refuse_what_cannot_run(loaded: LoadResult, options: RunOptions) -> None:
    if problems := run_problems(loaded, options):
        raise InputError(problems)
    planned_tests(loaded, options)


def load(
    paths: Paths,
    *,
    targets_file: Path | None = None,
    targets: Sequence[str] = (),
    allow_outside: bool = False,
    cwd: Path | None = None,
    environ: Mapping[str, str] | None = None,
    without_keys: bool = False,
    on_warning: Callable[[Problem], None] = lambda _problem: None,
) -> LoadResult:
    """Load eval files, folders and globs with their targets, and check all that can be checked without running.

    ``targets``: names to evaluate, instead of the suites' own; ``targets_file``: instead of looking for targets.yaml.
    ``without_keys``: keys of models need not be set, since a recording answers.
    Raises InputError with every problem of every file, what an image cannot be given included.
    """
    named = [paths] if isinstance(paths, str | Path) else paths
    loaded = load_suites(
        [Path(path) for path in named],
        targets_file=targets_file,
        targets=targets,
        cwd=cwd or Path.cwd(),
        environ=os.environ if environ is None else environ,
        allow_outside=allow_outside,
    )
    if without_keys:
        loaded = replace(loaded, problems=tuple(p for p in loaded.problems if not is_unset_key(p)))
    for problem in loaded.problems:
        if problem.warning:
            on_warning(problem)
    if loaded.errors:
        raise InputError([*loaded.errors, *project_problems(loaded, targets, environ=environ)])
    return loaded


def project_problems(
    result: LoadResult, targets: Sequence[str] = (), *, environ: Mapping[str, str] | None = None
) -> list[Problem]:
    """What the settings of the suites' projects refuse, and what planning their images does, as far as loading has not
    reported the place already."""
    known = {(p.path, p.line, p.column) for p in result.problems}
    problems: dict[Problem, None] = {}
    operator = Operator(os.environ if environ is None else environ)
    settings: dict[Path, Settings] = {}
    for root in dict.fromkeys(suite.project_root for suite in result.suites):
        with _collected(problems):
            settings[root] = operator.settings(root)
    with _collected(problems):
        # Settings that were refused would be refused once more for not going together.
        if settings and not problems:
            settings_together(settings, operator)
    suites = [suite for suite in result.suites if suite.project_root in settings]
    ceilings = {root: each.ceiling.limits() for root, each in settings.items()}
    problems |= dict.fromkeys(ceiling_problems(suites, LimitOverrides(), ceilings))
    for suite in suites:
        with _collected(problems):
            names = targets or suite.execution.targets or (suite.execution.target or "default",)
            chosen = [suite.targets[name] for name in names if name in suite.targets]
            plan = suite_plan_with_refusals(suite, chosen, settings[suite.project_root].image)
            problems |= dict.fromkeys(refusals(suite_env(suite), plan))
    return [p for p in problems if p.line is None or (p.path, p.line, p.column) not in known]


@contextmanager
def _collected(problems: dict[Problem, None]) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        problems |= dict.fromkeys(error.problems)


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


def cache_dir(environ: Mapping[str, str]) -> Path:
    """Where fetched packages and locks are kept: ``$XDG_CACHE_HOME/agentv-sandbox``."""
    base = environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "agentv-sandbox"


def _run_variables(experiment: str) -> dict[str, str]:
    """What every container of a run gets."""
    return {
        "AGENTV_RUN_TIMESTAMP": datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S-%fZ"),
        "AGENTV_EXPERIMENT": experiment,
    }
