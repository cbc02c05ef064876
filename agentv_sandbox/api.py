"""The Python interface: ``load`` suites, ``build`` their images, ``run`` them. The command line is made of it.

    import agentv_sandbox

    report = agentv_sandbox.run("suites/invoices.eval.yaml", targets=["agent"], threshold=0.9)
    for row in report.rows:
        print(row["test_id"], row["score"], row["execution_status"])

Nothing here prints, installs signal handlers or ends the process. Errors are those of ``agentv_sandbox.errors``.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypedDict

from agentv_sandbox import logs, masking
from agentv_sandbox.engines.table import find_engine
from agentv_sandbox.engines.watchdog import Watchdog
from agentv_sandbox.errors import InputError, Problem, SandboxError, unforeseen
from agentv_sandbox.files import BlobStore
from agentv_sandbox.gateway import Player, Recorder, Tape
from agentv_sandbox.loading import LoadResult, load_suites
from agentv_sandbox.models.case import CaseResult
from agentv_sandbox.models.image import LockMode, ProvedImage
from agentv_sandbox.models.suite import EvalCase, LimitOverrides, Suite
from agentv_sandbox.pipeline import (
    CaseOptions,
    RunOptions,
    build_images,
    jobs_of,
    work_through,
)
from agentv_sandbox.pipeline.checks import planned_tests, run_problems, secret_values
from agentv_sandbox.pipeline.destinations import surprises
from agentv_sandbox.pipeline.images import suite_env, suite_plan_with_refusals
from agentv_sandbox.pipeline.resume import Resumption, take_over
from agentv_sandbox.pipeline.scopes import how_asked, incomplete, is_unset_key, with_stand_in_keys
from agentv_sandbox.plan import refusals
from agentv_sandbox.report import kept_views
from agentv_sandbox.report.summary import exit_code
from agentv_sandbox.runfolder.earlier import earlier_facts, find_earlier
from agentv_sandbox.runfolder.facts import run_facts
from agentv_sandbox.runfolder.folder import RunFolder
from agentv_sandbox.runfolder.pack import require_unaltered
from agentv_sandbox.runfolder.record import Row
from agentv_sandbox.runfolder.redact import Redactor
from agentv_sandbox.runfolder.rowfile import read_all_rows
from agentv_sandbox.sandbox import Sandbox
from agentv_sandbox.settings import Operator, Settings, ceiling_problems, settings_together
from agentv_sandbox.sites import Asked, Site, cluster_module, settings_of, site_of

Paths = str | Path | Sequence[str | Path]
OnEvent = Callable[..., None]
"""Called as ``on_event(name, **keys)``, from several threads: ``note``, ``image.*``, ``run.started``,
``case.started``, ``case.stage``, ``case.finished``."""


def ignore(_event: str, **_keys: Any) -> None:
    """The ``on_event`` of callers who do not listen."""


class FolderOptions(TypedDict):
    """What ``RunFolder`` is told of a run beside its place."""

    redactor: Redactor
    matrix: bool
    engine: str
    private: bool


@dataclass(frozen=True, kw_only=True)
class RunReport:
    """What a run left."""

    folder: Path
    """The run folder."""
    rows: tuple[Row, ...]
    """The lines of ``index.jsonl``, one a test, in the order in which tests ended; see docs/reference/results.md."""
    planned: int
    """Number of tests that were to run."""
    graded: bool = True
    """Whether verdicts were asked for, and not left to ``regrading.grade``."""
    failure: SandboxError | None = None
    """What ended the run early, or went wrong at its end; rows until then are complete."""

    @property
    def exit_code(self) -> int:
        """0 all tests at or above their threshold, 1 one below it, 3 an execution error, else the failure's."""
        return (
            self.failure.exit_code if self.failure is not None else exit_code(self.rows, grading=self.graded)
        )


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
        if settings and not problems:
            settings_together(settings, operator)
    suites = [suite for suite in result.suites if suite.project_root in settings]
    ceilings = {root: each.ceiling.limits() for root, each in settings.items()}
    problems |= dict.fromkeys(ceiling_problems(suites, LimitOverrides(), ceilings))
    for suite in suites:
        with _collected(problems):
            chosen = [suite.targets[name] for name in targets if name in suite.targets]
            plan = suite_plan_with_refusals(suite, chosen, settings[suite.project_root].image)
            problems |= dict.fromkeys(refusals(suite_env(suite), plan))
    return [p for p in problems if p.line is None or (p.path, p.line, p.column) not in known]


@contextmanager
def _collected(problems: dict[Problem, None]) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        problems |= dict.fromkeys(error.problems)


def cache_dir(environ: Mapping[str, str]) -> Path:
    """Where fetched packages and locks are kept: ``$XDG_CACHE_HOME/agentv-sandbox``."""
    base = environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "agentv-sandbox"


def build(
    suites: LoadResult | Paths,
    *,
    targets: Sequence[str] = (),
    lock_mode: LockMode = "default",
    cwd: Path | None = None,
    engine: str | None = None,
    environ: Mapping[str, str] | None = None,
    stop: threading.Event | None = None,
    on_event: OnEvent = ignore,
) -> dict[Path, ProvedImage]:
    """Build (or find) and prove the image of each suite, by the suite's path, without running anything.

    ``lock_mode``: ``default`` uses a lock beside the suite where there is one, ``frozen`` demands it, ``update`` writes
    it anew. ``engine``: kind of engine, over the settings'. ``stop`` ends the build when it is set.
    Raises ImageRequestError with all that cannot be provided or proved, BuildError, EngineError, Cancelled.
    """
    logs.configure_unless_done()
    loaded = (
        suites if isinstance(suites, LoadResult) else load(suites, targets=targets, cwd=cwd, environ=environ)
    )
    variables = os.environ if environ is None else environ
    folder = cwd or Path.cwd()
    settings = settings_of(loaded, folder, Operator(variables), engine=engine)
    options = RunOptions(
        targets=tuple(targets),
        image=settings.image,
        images=settings.images,
        lock_mode=lock_mode,
        cache_dir=cache_dir(variables),
        cwd=folder,
    )
    answering = find_engine(variables, settings.engine)
    with Watchdog(answering.address), Sandbox(answering, runtime=settings.runtime, stop=stop) as sandbox:
        return build_images(loaded.suites, sandbox, options, on_event)


def run(
    suites: LoadResult | Paths,
    *,
    targets: Sequence[str] = (),
    test_ids: Sequence[str] = (),
    workers: int | None = None,
    threshold: float | None = None,
    grader_target: str | None = None,
    max_retries: int | None = None,
    limits: LimitOverrides = LimitOverrides(),  # noqa: B008 - frozen
    keep_failed: bool = False,
    no_grade: bool = False,
    follow: Sequence[str] = (),
    output: Path | None = None,
    resume: bool = False,
    rerun_failed: bool = False,
    retry_errors: Path | None = None,
    experiment: str = "default",
    engine: str | None = None,
    runtime: str | None = None,
    required_tier: str | None = None,
    frozen: bool = False,
    allow_outside: bool = False,
    record: Path | None = None,
    replay: Path | None = None,
    cluster: str | None = None,
    cwd: Path | None = None,
    environ: Mapping[str, str] | None = None,
    stop: threading.Event | None = None,
    on_event: OnEvent = ignore,
) -> RunReport:
    """Run suites in containers, grade what the agents leave, and write the run folder.

    ``test_ids``: globs; ``limits``: of agents, over what suites and targets say; ``output``: a new or empty folder;
    ``resume``: go on with the tests that have no verdict in ``output``, or in the last run of these suites;
    ``rerun_failed``: with those below their threshold, too; ``retry_errors``: as ``resume`` from that run folder, which
    stays as it is. Of earlier rows those stand whose ``input_hashes`` are still the same.
    ``engine``, ``runtime`` and ``required_tier``: as in the settings, over them; ``stop`` interrupts the run when set.
    ``no_grade``: agents run and all is kept; ``agentv_sandbox.regrading.grade`` completes the rows, here or elsewhere.
    ``follow``: globs of ids of tests whose agents' output comes as events ``agent.printed``, line by line and masked.
    ``record``: a new or empty folder for all calls of models; ``replay``: such a folder, in place of models.
    ``cluster``: workers that run the tests in place of this process, as ``--cluster`` names them.
    The process's log and output are redacted from here on for the secrets that the targets name.
    Raises InputError, EngineError or BuildError as long as nothing was run; after that, what ends the run early
    stands in the report, beside the rows until then.
    """
    logs.configure_unless_done()
    variables = os.environ if environ is None else environ
    folder = cwd or Path.cwd()
    if not isinstance(suites, LoadResult):
        suites = load(
            suites,
            targets=targets,
            allow_outside=allow_outside,
            cwd=cwd,
            environ=environ,
            without_keys=replay is not None,
        )
    if replay is not None:
        suites = replace(suites, environments=with_stand_in_keys(suites))
    settings = settings_of(suites, folder, Operator(variables), engine=engine, runtime=runtime)
    options = RunOptions(
        targets=tuple(targets),
        test_ids=tuple(test_ids),
        workers=workers,
        image=settings.image,
        images=settings.images,
        ceilings=settings.ceilings,
        lock_mode="frozen" if frozen else "default",
        cache_dir=cache_dir(variables),
        cwd=folder,
        egress=settings.egress,
        allow_outside=allow_outside,
        run_env=_run_variables(experiment),
        case=CaseOptions(
            threshold=threshold,
            grader_target=grader_target,
            max_retries=max_retries,
            keep_failed=keep_failed,
            no_grade=no_grade,
            limits=limits,
            follow=tuple(follow),
        ),
    )
    if problems := run_problems(suites, options):
        raise InputError(problems)
    planned_tests(suites, options)
    if problems := ceiling_problems(suites.suites, limits, settings.ceilings):
        raise InputError(problems)
    secrets = secret_values(suites)
    redactor = Redactor(secrets)
    masking.know(secrets)
    _note_surprises(suites, options, on_event, asked=replay is None)
    going_on = resume or rerun_failed
    earlier = find_earlier(
        suites.suites, output, folder, experiment, going_on=going_on, retry_errors=retry_errors
    )
    if earlier is not None:
        require_unaltered(earlier.path)
    asked = Asked(
        loaded=suites,
        options=options,
        required_tier=required_tier or settings.require_tier,
        engine=engine,
        runtime=runtime,
        record=record,
        replay=replay,
    )
    if cluster is not None:
        cluster_module("site").check(cluster, asked)
    tape = _tape(record, replay, redactor, goes_on=going_on or retry_errors is not None)
    with site_of(cluster, asked, settings, variables, tape, stop, on_event) as site:
        folder_options: FolderOptions = {
            "redactor": redactor,
            "matrix": _is_matrix(suites.suites, options),
            "engine": site.engine,
            "private": settings.private_results,
        }
        if earlier is not None and going_on:
            results = RunFolder.reopen(earlier.path, experiment, **folder_options)
        else:
            results = RunFolder.create(output, folder, experiment, **folder_options)
        with results:
            plan = None
            if earlier is not None:
                plan = take_over(earlier, results, suites, site.images, options, rerun_failed=rerun_failed)
                for note in plan.notes:
                    on_event("note", message=note)
            facts = run_facts(site.facts, suites.suites, site.images, options.of_grading())
            results.write_run(facts | {"experiment": experiment, **earlier_facts(earlier)})
            planned, failure = _run_all(suites, site, options, results, plan, tape, on_event)
        return replace(report_of(results.path, planned, failure), graded=not no_grade)


def _tape(record: Path | None, replay: Path | None, redactor: Redactor, *, goes_on: bool) -> Tape | None:
    """Where calls of models are recorded, or replayed from. Raises InputError."""
    if record is not None and replay is not None:
        raise InputError([Problem(message="a run either records calls of models or replays them, not both")])
    if goes_on and (record is not None or replay is not None):
        message = "a run that goes on neither records calls of models nor replays them: its rows would be of two kinds"
        raise InputError([Problem(message=message)])
    if record is not None:
        return Recorder(record.absolute(), redactor)
    return Player(replay.absolute(), redactor) if replay is not None else None


def _note_surprises(loaded: LoadResult, options: RunOptions, on_event: OnEvent, *, asked: bool) -> None:
    """Say which keys go elsewhere than the kinds of targets say, before any does. Nothing goes anywhere where no server
    is ``asked``."""
    for sentence in surprises(loaded, options) if asked else ():
        on_event("note", message=sentence)


def _run_variables(experiment: str) -> dict[str, str]:
    """What every container of a run gets."""
    return {
        "AGENTV_RUN_TIMESTAMP": datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S-%fZ"),
        "AGENTV_EXPERIMENT": experiment,
    }


def _is_matrix(suites: Sequence[Suite], options: RunOptions) -> bool:
    return any(len({job.target.name for job in jobs_of(suite, options)}) > 1 for suite in suites)


def _run_all(
    loaded: LoadResult,
    site: Site,
    options: RunOptions,
    results: RunFolder,
    plan: Resumption | None,
    tape: Tape | None,
    on_event: OnEvent,
) -> tuple[int, SandboxError | None]:
    """Run every test that is not done and complete the folder; how many rows there are to be, and what ended the run
    early or went wrong at its end."""
    suites = loaded.suites
    several = results.matrix or len(suites) > 1
    starts, done = (plan.suites, plan.rows) if plan else ({}, [])
    here = sum(len(start.done) for start in starts.values())
    planned = planned_tests(loaded, options) + len(done) - here
    on_event("run.started", total=planned, folder=results.path, several=several, done=done)
    if said := how_asked(tape):
        on_event("note", message=said)

    def on_result(suite: Suite, result: CaseResult, case: EvalCase) -> CaseResult:
        written, row = results.write_result(result, case, suite)
        on_event("case.finished", row=row)
        return written

    def on_trial(suite: Suite, trial: CaseResult, case: EvalCase) -> None:
        results.write_trial(trial, case, suite)

    crew = site.crew(BlobStore(results.artifacts), BlobStore(results.captured), on_trial)
    try:
        failure = failure_of(lambda: work_through(suites, crew, options, on_event, on_result, starts))
    except BaseException:  # such as the end of a program whose output nobody reads any more
        with suppress(Exception):
            results.finish(planned=planned, views=kept_views())
        raise
    unsaid = failure_of(lambda: results.add_facts(site.record()))
    if failure is not None:
        results.note_end(failure.fault)
    later = failure_of(lambda: results.finish(planned=planned, views=kept_views()))
    if failure is not None and later is not None:
        on_event("note", message=f"also: {later.message}")
    return planned, failure or unsaid or later or incomplete(tape)


def report_of(folder: Path, planned: int, failure: SandboxError | None) -> RunReport:
    rows: list[Row] = []
    unread = failure_of(lambda: rows.extend(read_all_rows(folder).rows))
    return RunReport(folder=folder, rows=tuple(rows), planned=planned, failure=failure or unread)


def failure_of(step: Callable[[], object]) -> SandboxError | None:
    try:
        step()
    except SandboxError as error:
        return error
    except Exception as error:
        return unforeseen(error)
    return None
