"""Scores, gates and status of a case; trials."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from agentv_sandbox.base.errors import Cancelled
from agentv_sandbox.graders.grade import (
    Graded,
    combine_trials,
    effective_threshold,
    enough_trials,
    lower_bound,
    negated,
)
from agentv_sandbox.models.case import Assertion, GraderResult
from agentv_sandbox.models.suite import EvalCase, Execution, GraderSpec, Suite, Trials
from tests.graders.fakes import PROJECT, FakeTools, grade_all, ran, spec_of


def scored(score: float, **fields: Any) -> tuple[GraderSpec, Any]:
    return spec_of("code-grader", **fields), ran(f'{{"score":{score}}}')


def grade(*pairs: tuple[GraderSpec, Any], **fields: Any) -> Graded:
    return grade_all(FakeTools(results=[did for _, did in pairs]), *(spec for spec, _ in pairs), **fields)


CASES = [
    ("mean", [scored(1), scored(0.5)], 0.8, 0.75, "quality_failure"),
    ("weights", [scored(1, weight=3), scored(0.5)], 0.8, 0.875, "ok"),
    ("no weight at all", [scored(1, weight=0)], 0.8, 0.0, "quality_failure"),
    ("nothing to grade", [], 0.8, 0.0, "quality_failure"),
    ("threshold reached exactly", [scored(0.8)], 0.8, 0.8, "ok"),
    ("own threshold", [scored(0.5)], 0.5, 0.5, "ok"),
    ("required reached", [scored(1), scored(0.8, required=True)], 0.8, 0.9, "ok"),
    ("required missed", [scored(1), scored(0.79, required=True)], 0.8, 0.0, "quality_failure"),
    ("required at the case's threshold", [scored(1), scored(0.5, required=True)], 0.5, 0.75, "ok"),
    ("required as a number", [scored(1), scored(0.6, required=0.6)], 0.8, 0.8, "ok"),
    ("required number missed", [scored(1), scored(0.59, required=0.6)], 0.8, 0.0, "quality_failure"),
    ("min_score is the gate", [scored(1), scored(0.6, required=True, min_score=0.6)], 0.8, 0.8, "ok"),
    ("min_score alone is no gate", [scored(1), scored(0.6, min_score=0.9)], 0.8, 0.8, "ok"),
    ("negate", [scored(0.1, negate=True)], 0.8, 0.9, "ok"),
]


@pytest.mark.parametrize(
    ("pairs", "threshold", "score", "status"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_aggregate(pairs: Any, threshold: float, score: float, status: str) -> None:
    graded = grade(*pairs, threshold=threshold)
    assert graded.score == pytest.approx(score)
    assert graded.status == status
    assert graded.failure is None
    assert [s.weight for s in graded.scores] == [spec.weight for spec, _ in pairs]


def test_skip_makes_the_case_an_execution_error() -> None:
    tools = FakeTools(results=[ran('{"score":1}')], llm_replies=["bad"])
    graded = grade_all(tools, spec_of("code-grader"), spec_of("llm-grader", name="judge"))
    assert (graded.score, graded.status) == (0, "execution_error")
    assert graded.failure is not None
    assert graded.failure.code == "evaluator_error"
    assert "Grader 'judge'" in graded.failure.message
    assert graded.scores[0].score == 1


def test_a_crash_loses_nothing_else() -> None:
    tools = FakeTools(results=[RuntimeError("bug"), ran('{"score":1}')])
    graded = grade_all(tools, spec_of("code-grader", name="a", negate=True), spec_of("code-grader", name="b"))
    assert [s.score for s in graded.scores] == [0, 1]
    assert graded.scores[0].assertions[0].text == "Grader 'a' failed: RuntimeError: bug"
    assert graded.status == "quality_failure"


@pytest.mark.parametrize(
    ("score", "verdict", "error", "opposite"),
    [
        (0.9, "pass", None, (0.1, "fail")),
        (0.6, "fail", None, (0.4, "pass")),
        (0.0, "skip", None, (0.0, "skip")),
        (0.0, "fail", "no key", (0.0, "fail")),
    ],
)
def test_only_a_judgement_has_an_opposite(
    score: float, verdict: Any, error: str | None, opposite: tuple[float, str]
) -> None:
    row = Assertion(text="a", passed=verdict == "pass", evidence="seen")
    made = GraderResult(
        name="g", type="contains", score=score, verdict=verdict, error=error, assertions=(row,)
    )
    other = negated(made)
    assert (pytest.approx(other.score), other.verdict) == opposite
    if other is not made:
        assert other.assertions == (replace(row, passed=not row.passed, evidence="[Negated] seen"),)


def test_a_grader_took_as_long_as_it_took() -> None:
    def slow(_call: Any) -> Any:
        time.sleep(0.05)
        return ran('{"score":1}')

    [score] = grade_all(FakeTools(on_run=slow), spec_of("code-grader", weight=2)).scores
    assert 50 <= score.duration_ms < 5000
    started, ended = (datetime.fromisoformat(text) for text in (score.started_at, score.ended_at))
    assert timedelta(seconds=0.04) < ended - started < timedelta(seconds=5)
    assert score.started_at.endswith("Z") and score.ended_at.endswith("Z")


def test_interrupt_is_not_a_score() -> None:
    with pytest.raises(Cancelled):
        grade_all(FakeTools(results=[Cancelled()]), spec_of("code-grader"))


@pytest.mark.parametrize(
    ("user", "own", "suites", "effective"),
    [
        (0.1, 0.2, 0.3, 0.1),
        (None, 0.2, 0.3, 0.2),
        (None, None, 0.3, 0.3),
        (None, None, None, 0.8),
        (0.0, 0.2, 0.3, 0.0),
    ],
)
def test_threshold_that_counts(user: Any, own: Any, suites: Any, effective: float) -> None:
    suite = Suite(
        path=PROJECT, project_root=PROJECT, search_roots=(), name="s", execution=Execution(threshold=suites)
    )
    case = EvalCase(id="1", suite="s", category="c", threshold=own)
    assert effective_threshold(case, suite, user) == effective


# -- trials -------------------------------------------------------------------------------------------


def trial(score: float, status: str | None = None) -> Graded:
    made: Any = status or ("ok" if score >= 0.8 else "quality_failure")
    return Graded(scores=(), score=score, status=made)


ERROR = trial(0.0, "execution_error")

TRIALS = [
    ("pass_at_k", [trial(0.5), trial(0.9)], 0.9, "ok"),
    ("pass_at_k", [trial(0.5), trial(0.6)], 0.6, "quality_failure"),
    ("pass_at_k", [ERROR, trial(0.6)], 0.6, "quality_failure"),
    ("pass_at_k", [ERROR, ERROR], 0.0, "execution_error"),
    ("pass_all", [trial(1), trial(0.5)], 0.5, "quality_failure"),
    ("pass_all", [trial(1), ERROR], 1, "execution_error"),
    ("pass_all", [trial(0.5), ERROR], 0.5, "execution_error"),
    ("pass_all", [trial(1), trial(0.9)], 0.9, "ok"),
    ("mean", [trial(1), trial(0.5)], 0.75, "quality_failure"),
    ("mean", [trial(1), trial(0.7)], 0.85, "ok"),
    ("mean", [trial(1), ERROR], 1, "ok"),
    ("confidence_interval", [trial(0.9)], 0.9, "ok"),
    ("confidence_interval", [trial(1), trial(1), trial(1)], 1, "ok"),
    ("confidence_interval", [trial(1), trial(0.5)], 0, "quality_failure"),
]


@pytest.mark.parametrize(("strategy", "done", "score", "status"), TRIALS)
def test_trials(strategy: Any, done: Any, score: float, status: str) -> None:
    outcome = combine_trials(Trials(count=3, strategy=strategy), done, 0.8)
    assert outcome.score == pytest.approx(score)
    assert outcome.status == status


def test_lower_bound_of_the_mean() -> None:
    assert lower_bound([0.8, 0.9, 1.0]) == pytest.approx(0.9 - 4.303 * 0.1 / 3**0.5)
    assert lower_bound([0.8, 1.0] * 16) == pytest.approx(0.9 - 1.96 * 0.1016001 / 32**0.5, abs=1e-6)


@pytest.mark.parametrize(
    ("strategy", "done", "cost", "limit", "enough"),
    [
        ("pass_at_k", [trial(0.5)], 0, None, False),
        ("pass_at_k", [trial(0.9)], 0, None, True),
        ("pass_at_k", [trial(0.8)], 0, None, True),
        ("mean", [trial(0.9)], 0, None, False),
        ("mean", [trial(0.9)] * 3, 0, None, True),
        ("mean", [trial(0.9)], 5, 5, True),
        ("mean", [trial(0.9)], 4.9, 5, False),
    ],
)
def test_when_to_stop(strategy: Any, done: Any, cost: float, limit: float | None, enough: bool) -> None:
    assert enough_trials(Trials(count=3, strategy=strategy, cost_limit_usd=limit), done, cost) is enough
