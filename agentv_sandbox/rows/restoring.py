"""Results from their rows: what an earlier part of a run wrote, for figures, budgets and trials that go on."""

from __future__ import annotations

from typing import cast, get_args

from agentv_sandbox.models.case import AgentResponse, CaseFailure, CaseResult, Fault, Stage, Status
from agentv_sandbox.rows.record import Row


def result_of(row: Row, of: Row | None = None) -> CaseResult | None:
    """The result that ``row`` was written of, without what the agent left; None when the row is not one of ours.
    ``of``: the row of the test, where ``row`` is what that says of one of its trials."""
    test = of or row
    took_ms = row.total_duration_ms if of is None else row.duration_ms or 0.0
    trials = [result_of(trial, row) for trial in row.trials]
    if not (row.whole and test.test_id and test.target) or test.threshold is None or took_ms is None:
        return None
    if row.execution_status not in get_args(Status) or None in trials or "score" not in row:
        return None
    return CaseResult(
        case_id=test.test_id,
        suite=test.suite,
        eval_file=test.eval_file,
        category=row.category,
        target=test.target,
        score=float(row.score),
        status=cast(Status, row.execution_status),
        threshold=float(test.threshold),
        scores=row.scores,
        response=_response(row),
        failure=_failure(row),
        trial=row.trial,
        trial_scores=row.trial_scores,
        trial_strategy=row.trial_strategy,
        trials=tuple(trial for trial in trials if trial is not None),
        duration_ms=float(took_ms),
        timestamp=row.timestamp,
        image_id=row.image_id,
        worker=row.worker or "",
        workspace_kept=row.workspace_kept,
        notes=row.notes,
        input_hashes=row.input_hashes,
        regraded_from=row.regraded_from,
        carried=bool(row.regraded_from),
    )


def _response(row: Row) -> AgentResponse:
    return AgentResponse(
        token_usage=row.token_usage,
        cost_usd=row.cost_usd,
        claim=row.claimed,
        model_calls=row.model_calls,
        duration_ms=row.duration_ms,
        start_time=row.start_time,
        end_time=row.end_time,
        agent=row.agent,
        attempts=row.attempts,
        target_used=row.target_used,
    )


def _failure(row: Row) -> CaseFailure | None:
    if row.error is None:
        return None
    return CaseFailure(
        fault=cast(Fault, row.fault or "not_run"),
        stage=cast(Stage, row.failure_stage or "agent"),
        code=row.failure_reason_code,
        message=row.error,
    )
