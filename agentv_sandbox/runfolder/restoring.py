"""Results from their rows: what an earlier part of a run wrote, for figures, budgets and trials that go on."""

from __future__ import annotations

from typing import Any, cast

from agentv_sandbox.models.case import (
    AgentResponse,
    Assertion,
    CaseFailure,
    CaseResult,
    Claim,
    GraderResult,
    ModelCalls,
    Status,
    TokenUsage,
)
from agentv_sandbox.runfolder.rows import Row

_STATUSES = frozenset(["ok", "quality_failure", "execution_error"])


def result_of(row: Row) -> CaseResult | None:
    """The result that ``row`` was written of, without what the agent left; None when the row is not one of ours."""
    try:
        return _result(row)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None


def _result(row: Row) -> CaseResult:
    if row["execution_status"] not in _STATUSES:
        raise ValueError
    return CaseResult(
        case_id=row["test_id"],
        suite=row["suite"],
        category=row.get("category", ""),
        target=row["target"],
        score=float(row["score"]),
        status=cast(Status, row["execution_status"]),
        threshold=float(row["threshold"]),
        scores=tuple(map(_grader, row.get("scores") or ())),
        response=_response(row),
        failure=_failure(row),
        trial=int(row.get("trial", 0)),
        trial_scores=tuple(row.get("trial_scores") or ()),
        trial_strategy=row.get("trial_strategy", ""),
        trials=tuple(_trial(row, trial) for trial in row.get("trials") or ()),
        duration_ms=float(row["total_duration_ms"]),
        timestamp=row.get("timestamp", ""),
        image_id=row.get("image_id", ""),
        worker=row.get("worker", ""),
        workspace_kept=row.get("workspace_kept"),
        notes=tuple(row.get("notes") or ()),
        input_hashes=dict(row.get("input_hashes") or {}),
        regraded_from=dict(row.get("regraded_from") or {}),
        carried="regraded_from" in row,
    )


def _response(row: Row) -> AgentResponse:
    claimed, calls = row.get("claimed"), row.get("model_calls")
    return AgentResponse(
        token_usage=_usage(row.get("token_usage")),
        cost_usd=row.get("cost_usd"),
        claim=Claim(**{**claimed, "token_usage": _usage(claimed.get("token_usage"))}) if claimed else None,
        model_calls=ModelCalls(**{**calls, "token_usage": _usage(calls.get("token_usage"))})
        if calls
        else None,
        duration_ms=row.get("duration_ms"),
        start_time=row.get("start_time"),
        end_time=row.get("end_time"),
        agent=row.get("agent") or {},
        attempts=int(row.get("attempts", 1)),
        target_used=row.get("target_used"),
    )


def _failure(row: Row) -> CaseFailure | None:
    if row.get("error") is None:
        return None
    return CaseFailure(
        fault=row.get("fault", "not_run"),
        stage=row.get("failure_stage", "agent"),
        code=row.get("failure_reason_code", ""),
        message=row["error"],
    )


def _trial(row: Row, trial: Row) -> CaseResult:
    """What a row says of one of its trials."""
    whole = {
        "test_id": row["test_id"],
        "suite": row["suite"],
        "target": row["target"],
        "threshold": row["threshold"],
    }
    return _result({**whole, "total_duration_ms": trial.get("duration_ms", 0.0), **trial})


def _grader(entry: dict[str, Any]) -> GraderResult:
    return GraderResult(
        name=entry["name"],
        type=entry["type"],
        score=float(entry["score"]),
        verdict=entry["verdict"],
        weight=float(entry.get("weight", 1.0)),
        assertions=tuple(
            Assertion(text=each["text"], passed=each["passed"], evidence=each.get("evidence"))
            for each in entry.get("assertions") or ()
        ),
        error=entry.get("error"),
        reasoning=entry.get("reasoning"),
        input=entry.get("input"),
        target=entry.get("target"),
        scores=tuple(map(_grader, entry.get("scores") or ())),
        details=entry.get("details"),
        agents_word=tuple(entry.get("agents_word") or ()),
        token_usage=_usage(entry.get("token_usage")),
        cost_usd=entry.get("cost_usd"),
        duration_ms=float(entry.get("duration_ms", 0.0)),
        started_at=entry.get("started_at", ""),
        ended_at=entry.get("ended_at", ""),
    )


def _usage(usage: dict[str, int] | None) -> TokenUsage | None:
    return TokenUsage(**usage) if usage else None
