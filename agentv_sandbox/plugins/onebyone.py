"""A run whose tests somebody else asks for, one by one, such as pytest: engine, images and run folder are there once,
hooks of a suite run around those of its tests that are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from agentv_sandbox.containers.blobs import stores_in
from agentv_sandbox.models.case import CaseResult
from agentv_sandbox.models.spending import cost_of
from agentv_sandbox.models.suite import EvalCase, Suite
from agentv_sandbox.report import kept_views
from agentv_sandbox.report.summary import reasons
from agentv_sandbox.request.asked import as_json
from agentv_sandbox.request.jobs import Job, SuiteStart
from agentv_sandbox.rows.record import Row
from agentv_sandbox.runfolder.facts import run_facts
from agentv_sandbox.runfolder.folder import RunFolder
from agentv_sandbox.runs.api import folder_options
from agentv_sandbox.runs.execute import Crew, Members
from agentv_sandbox.runs.executors import site_of
from agentv_sandbox.runs.prepare import Prepared
from agentv_sandbox.runs.schedule import Schedule
from agentv_sandbox.targets.chosen import jobs_of


@contextmanager
def one_by_one(prepared: Prepared) -> Iterator[OpenRun]:
    """Make the images of all suites and open a run folder. Raises what ``api.run`` raises before anything runs, and at
    the end SandboxError where the folder cannot be completed."""
    request, loaded = prepared.request, prepared.loaded
    with site_of(prepared, prepared.tape(), request.stop, request.on_event) as site:
        options = folder_options(prepared, site)
        with RunFolder.create(request.output, prepared.cwd, request.experiment, **options) as results:
            facts = run_facts(site.facts, loaded.suites, site.images, as_json(request))
            results.write_run({**facts, "experiment": request.experiment})

            def on_trial(suite: Suite, trial: CaseResult, case: EvalCase) -> None:
                results.write_trial(trial, case, suite)

            crew = site.crew(stores_in(results.path), on_trial)
            run = OpenRun(prepared, crew, results)
            try:
                yield run
            finally:
                results.add_facts(site.record())
                results.finish(planned=run.tests, views=kept_views())


class OpenRun:
    """What ``one_by_one`` opens."""

    def __init__(self, prepared: Prepared, crew: Crew, results: RunFolder) -> None:
        self.prepared = prepared
        self.crew = crew
        self.results = results
        self.tests = 0
        """Number of tests that were asked for."""

    @property
    def folder(self) -> Path:
        return self.results.path

    def reasons(self, row: Row) -> list[str]:
        """Why ``row`` is not a pass, most important first; safe to print."""
        return reasons(row, self.results.redactor)

    @contextmanager
    def suite(self, path: Path) -> Iterator[OpenSuite]:
        """The suite of an eval file, of which one test runs at a time. At the end its hooks run that follow the last
        test, and what its tests share is removed."""
        (suite,) = (each for each in self.prepared.loaded.suites if each.path == path)
        with ExitStack() as stack:
            members = stack.enter_context(self.crew.members(suite, SuiteStart(), 1))
            opened = OpenSuite(suite, members, self)
            yield opened
            for note in members.after_all(opened.jobs):
                self.prepared.request.on_event("note", message=note)


class OpenSuite:
    """A suite of an ``OpenRun``."""

    def __init__(self, suite: Suite, members: Members, run: OpenRun) -> None:
        self._suite = suite
        self._members = members
        self._run = run
        self._done: dict[tuple[str, str], CaseResult] = {}
        """By target and test: what a later one may depend on."""
        self._spent_usd = 0.0
        self.jobs: list[Job] = []
        """What was asked for."""

    def run(self, test: str, target: str) -> Row:
        """Run one test on one target, with all its trials, and write its row. Raises Cancelled, EngineLost,
        SandboxError."""
        job = self._job(test, target)
        self.jobs.append(job)
        self._run.tests += 1
        rows: list[Row] = []

        def deliver(result: CaseResult, case: EvalCase) -> CaseResult:
            written, row = self._run.results.write_result(result, case, self._suite)
            rows.append(row)
            self._done[target, test] = written
            self._spent_usd += cost_of(written)
            return written

        self._done.pop((target, test), None)
        schedule = Schedule(
            self._suite,
            [job],
            deliver,
            stop=self._run.crew,
            threshold=self._run.prepared.request.threshold,
            start=SuiteStart(done=dict(self._done), spent_usd=self._spent_usd),
        )
        try:
            schedule.work(self._members.submit, self._members.capacity)
        except KeyboardInterrupt:
            self._run.crew.cancel()
            raise
        return rows[0]

    def _job(self, test: str, target: str) -> Job:
        asked = replace(self._run.prepared.options, first={})
        return next(
            job for job in jobs_of(self._suite, asked) if (job.case.id, job.target.name) == (test, target)
        )
