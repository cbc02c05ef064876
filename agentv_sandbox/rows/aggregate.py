"""``benchmark.json`` and ``timing.json`` of a run, from running lists; no result is kept."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, field

from agentv_sandbox.base.dataclass import dataclass
from agentv_sandbox.graders.agreement import Panels
from agentv_sandbox.models.case import CaseResult
from agentv_sandbox.models.figures import TokenUsage
from agentv_sandbox.models.suite import PASS_SCORE
from agentv_sandbox.rows.rows import (
    Wire,
    agent_ms,
    spent,
    timing,
    tool_calls,
)
from agentv_sandbox.rows.trialfigures import TrialFigures, totals, trial_figures


@dataclass(kw_only=True)
class _Target:
    pass_rates: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    tokens: list[float] = field(default_factory=list)
    tool_calls: list[float] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)
    trials: list[TrialFigures | None] = field(default_factory=list)
    """Of each test."""


class Aggregate:
    """Figures of all rows written so far, in AgentV's terms."""

    def __init__(self, *, experiment: str) -> None:
        self._experiment = experiment
        self._timestamp = ""
        self._eval_files: dict[str, None] = {}
        self._test_ids: set[str] = set()
        self._targets: dict[str, _Target] = defaultdict(_Target)
        self._graders: dict[str, list[float]] = defaultdict(list)
        self._usage: list[tuple[TokenUsage | None, float | None]] = []
        self._panels = Panels()
        self._errors = 0
        self._count = 0

    def add(self, result: CaseResult, eval_file: str, *, calls: int | None = None) -> None:
        """``calls``: of tools, where the result no longer has the messages that they stand in."""
        self._count += 1
        self._panels.add(result)
        self._timestamp = self._timestamp or result.timestamp
        self._eval_files[eval_file] = None
        self._test_ids.add(result.case_id)
        usage, cost_usd = spent(result)
        ms = agent_ms(result)
        self._usage.append((usage, ms))
        target = self._targets[result.target]
        if ms is not None:
            target.seconds.append(ms / 1000)
        target.tool_calls.append(sum(tool_calls(result).values()) if calls is None else calls)
        if usage is not None:
            target.tokens.append(usage.input + usage.output)
        if cost_usd is not None:
            target.costs.append(cost_usd)
        if result.status == "execution_error":
            self._errors += 1
            return
        target.trials.append(trial_figures(result.trial_scores, result.threshold, result.trial_strategy))
        judged = [trial for trial in result.trials if trial.status != "execution_error"] or [result]
        target.pass_rates.append(statistics.fmean(map(_share_passed, judged)))
        for trial in judged:
            for grader in trial.scores:
                self._graders[f"{grader.name}:{grader.type}"].append(grader.score)

    def timing(self) -> Wire:
        return timing(self._usage)

    def benchmark(self, planned: int | None) -> Wire:
        notes = []
        if self._errors:
            notes.append(
                f"{self._errors} test(s) had execution errors and are excluded from quality pass_rate"
            )
        if not self._count:
            notes.append("No results to summarize")
        document: Wire = {
            "metadata": {
                "eval_file": ", ".join(self._eval_files),
                "timestamp": self._timestamp,
                "targets": sorted(self._targets),
                "tests_run": sorted(self._test_ids),
                "experiment": self._experiment,
                "planned_test_count": self._count if planned is None else planned,
            },
            "run_summary": {name: _target_summary(t) for name, t in sorted(self._targets.items())},
        }
        if self._graders:
            document["per_grader_summary"] = {key: _stats(scores) for key, scores in self._graders.items()}
        if panels := self._panels.agreements():
            document["panels"] = [asdict(panel) for panel in panels]
        document["notes"] = notes
        return document


def _target_summary(target: _Target) -> Wire:
    summary: Wire = {
        "pass_rate": _stats(target.pass_rates),
        "time_seconds": _stats(target.seconds),
        "tokens": _stats(target.tokens),
    }
    if any(target.tool_calls):
        summary["tool_calls"] = _stats(target.tool_calls)
    if target.costs:
        summary["cost_usd"] = _stats(target.costs)
    if trials := totals(target.trials):
        summary["trials"] = asdict(trials)
    return summary


def _share_passed(result: CaseResult) -> float:
    """Of the graders of one trial; of the score where there are none."""
    scores = [grader.score for grader in result.scores] or [result.score]
    return sum(score >= PASS_SCORE for score in scores) / len(scores)


def _stats(values: Sequence[float]) -> Wire:
    """Mean and population standard deviation, rounded as AgentV does; zeros for no values."""
    if not values:
        return {"mean": 0, "stddev": 0}
    return {"mean": round(statistics.fmean(values), 3), "stddev": round(statistics.pstdev(values), 3)}
