"""One row of the results: a case once, or several trials of it as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

from agentv_sandbox.case.attempt import run_case
from agentv_sandbox.graders.grade import (
    Graded,
    combine_trials,
    effective_trials,
    enough_trials,
)
from agentv_sandbox.models.case import CaseResult
from agentv_sandbox.models.spending import cost_of
from agentv_sandbox.models.suite import Trials
from agentv_sandbox.request.jobs import Job
from agentv_sandbox.rows.rows import spent
from agentv_sandbox.steps.suiterun import SuiteRun


def run_job(run: SuiteRun, job: Job) -> CaseResult:
    """One row: the case, or several trials of it as one."""
    trials = effective_trials(job.case, run.suite)
    hashes = run.hashes.of(job)
    if trials.count <= 1:
        return replace(run_case(run, job), input_hashes=hashes)
    results = list(run.start.trials.get((job.target.name, job.case.id), ()))
    run.meter.spend(sum(map(cost_of, results)))
    while not enough_trials(trials, [_graded(r) for r in results], sum(map(cost_of, results))):
        # Of a run that goes on some may be missing between others.
        number = next(n for n in count(1) if n not in {result.trial for result in results})
        result = replace(run_case(run, replace(job, trial=number)), input_hashes=hashes)
        results.append(result)
        run.on_trial(result, job.case)
    results.sort(key=lambda result: result.trial)
    # Also where the trial that is shown stands from before, by hashes of another scheme.
    return replace(combined(trials, results), input_hashes=hashes)


def combined(trials: Trials, results: Sequence[CaseResult]) -> CaseResult:
    """Several trials of a test as one row."""
    outcome = combine_trials(trials, [_graded(r) for r in results], results[0].threshold)
    waiting = next((index for index, result in enumerate(results) if result.ungraded), None)
    if waiting is not None:  # whatever became of the others, there is more to come
        outcome = replace(outcome, status="execution_error", shown=waiting)
    shown = results[outcome.shown]
    scores = tuple(None if r.status == "execution_error" else r.score for r in results)
    notes = shown.notes
    if outcome.status != "ok" or len({r.status for r in results}) > 1:
        texts = ("error" if score is None else f"{score:.3f}" for score in scores)
        count = "1 trial" if len(scores) == 1 else f"{len(scores)} trials"
        notes = (
            *notes,
            f"{count} ({trials.strategy}): {', '.join(texts)}; shown is trial {outcome.shown + 1}",
        )
    costs = [spent(result)[1] for result in results]
    if None in costs and any(cost is not None for cost in costs):
        known = len(costs) - costs.count(None)
        notes = (*notes, f"the cost is that of {known} of {len(costs)} trials; of the others it is unknown")
    return replace(
        shown,
        trial=0,
        capture=None,
        shown_trial=outcome.shown + 1,
        score=outcome.score,
        status=outcome.status,
        failure=shown.failure if outcome.status == "execution_error" else None,
        duration_ms=sum(r.duration_ms for r in results),
        trial_scores=scores,
        trial_strategy=trials.strategy,
        trials=tuple(results),
        notes=notes,
    )


def _graded(result: CaseResult) -> Graded:
    return Graded(scores=result.scores, score=result.score, status=result.status, failure=result.failure)
