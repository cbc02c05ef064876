"""Which case runs when: workers, dependencies, trials, budget, and what ends a run early."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Protocol

from agentv_sandbox.base.errors import Cancelled
from agentv_sandbox.graders.grade import effective_threshold
from agentv_sandbox.models.case import CaseFailure, CaseResult
from agentv_sandbox.models.spending import cost_of
from agentv_sandbox.models.suite import EvalCase, Suite
from agentv_sandbox.request.jobs import Job, SuiteStart, unfinished

Deliver = Callable[[CaseResult, EvalCase], CaseResult]
Submit = Callable[[Job], Future[CaseResult]]
"""Has a job run somewhere. A job and its result can be pickled, so that any ``concurrent.futures.Executor`` will do;
what a worker needs beside the job (engine, store, LLM client) is its own."""
_POLL_S = 0.5


class Stop(Protocol):
    """Ends what is running."""

    def cancel(self) -> None: ...

    def cancelled(self) -> bool: ...


class Schedule:
    """The jobs of one suite. Results are delivered in the order in which they come."""

    def __init__(
        self,
        suite: Suite,
        jobs: Sequence[Job],
        deliver: Deliver,
        *,
        stop: Stop,
        of_targets: Mapping[str, int] = {},
        threshold: float | None = None,
        start: SuiteStart = SuiteStart(),  # noqa: B008 - frozen
    ) -> None:
        """``threshold``: the command line's, for rows of tests that were not run. ``start``: what an earlier part of
        the run has done of ``jobs``."""
        self._suite = suite
        self._stop = stop
        self._threshold = threshold
        self._waiting = [job for job in jobs if (job.target.name, job.case.id) not in start.done]
        self._deliver = deliver
        self._of_targets = of_targets
        """How many jobs of a target may run at a time; any number of one that is not in it."""
        self._running: Counter[str] = Counter()
        """Jobs by target."""
        self._done: set[tuple[str, str]] = set(start.done)
        self._broken = {key for key, result in start.done.items() if _is_broken(result)}
        """Of what is done: tests on which others cannot build."""
        self._sharing: set[str] = set()
        """Targets of which a test is running in a shared workspace."""
        self._planned = {(job.target.name, job.case.id) for job in jobs}
        self._cost_usd = start.spent_usd
        self._errors = 0

    def work(self, submit: Submit, places: Callable[[], int]) -> None:
        """Run everything with at most ``places`` jobs submitted at a time, a number that may change. Raises what must
        end the run, after all that was going on has ended."""
        running: dict[Future[CaseResult], Job] = {}
        failure: Exception | None = None
        while running or (self._waiting and failure is None):
            if failure is None:
                for job in self._ready(places() - len(running)):
                    running[submit(job)] = job
            # A short wait, so that a signal is handled by the main thread in time.
            wait(running, timeout=_POLL_S, return_when=FIRST_COMPLETED)
            error = self._finish_done(running)
            failure = failure or error
            if failure is None and self._stop.cancelled():
                failure = Cancelled()
        if failure is not None:
            raise failure

    def _finish_done(self, running: dict[Future[CaseResult], Job]) -> Exception | None:
        """Deliver what is done, and hold none of it any longer; the first error, which must end the run."""
        failure: Exception | None = None
        for future in [future for future in running if future.done()]:
            job = running.pop(future)
            self._running[job.target.name] -= 1
            if _shares(job):
                self._sharing.discard(job.target.name)
            try:
                self._finish(job, future.result())
            except Exception as error:
                # Also what nobody foresaw: the others must not go on for results that are lost.
                # What comes first says most; later ones are its echo.
                failure = failure or error
                self._stop.cancel()
        return failure

    def _ready(self, places: int) -> list[Job]:
        """Up to ``places`` jobs whose dependencies are done; those that must not run are delivered at once."""
        ready: list[Job] = []
        for job in list(self._waiting):
            if len(ready) >= places:
                break
            depends = [(job.target.name, name) for name in job.case.depends_on]
            if any(key in self._planned and key not in self._done for key in depends):
                continue
            if _shares(job) and job.target.name in self._sharing:
                continue
            if self._running[job.target.name] >= self._of_targets.get(job.target.name, math.inf):
                continue
            self._waiting.remove(job)
            failure = self._refusal(job, depends)
            if failure is None:
                ready.append(job)
                self._running[job.target.name] += 1
                if _shares(job):
                    self._sharing.add(job.target.name)
            else:
                threshold = effective_threshold(job.case, self._suite, self._threshold)
                self._finish(job, unfinished(job, threshold, failure))
        return ready

    def _refusal(self, job: Job, depends: Sequence[tuple[str, str]]) -> CaseFailure | None:
        execution = self._suite.execution
        broken = [name for target, name in depends if (target, name) in self._broken]
        if broken and job.case.on_dependency_failure != "run":
            return CaseFailure(
                stage="setup",
                code="dependency_failed",
                fault="not_run",
                message=f"depends on {', '.join(broken)}",
            )
        if execution.budget_usd is not None and self._cost_usd >= execution.budget_usd:
            message = f"the suite's budget of ${execution.budget_usd:g} is spent (${self._cost_usd:.4f})"
            return CaseFailure(
                stage="setup", code="budget_exceeded", message=message, fault="budget_exceeded"
            )
        if execution.fail_on_error is True and self._errors:
            return CaseFailure(
                stage="setup",
                code="error_threshold_exceeded",
                fault="not_run",
                message="an earlier test had an execution error",
            )
        return None

    def _finish(self, job: Job, result: CaseResult) -> None:
        result = self._deliver(result, job.case)
        key = (job.target.name, job.case.id)
        self._done.add(key)
        if _is_broken(result):
            self._broken.add(key)
            self._errors += 1
        self._cost_usd += cost_of(result)


def _is_broken(result: CaseResult) -> bool:
    return result.status == "execution_error" and not result.ungraded


def _shares(job: Job) -> bool:
    """Whether the job works in a workspace that others use too: those run one after the other."""
    return job.workspace.isolation == "shared"
