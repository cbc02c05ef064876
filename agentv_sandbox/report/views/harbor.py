"""A run as a job folder of Harbor, which its viewer and its commands read: a trial for each test or trial of one.

A run folder may be another program's, so every value is taken for what it is or left out."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from agentv_sandbox.models.case import GraderResult
from agentv_sandbox.models.json.untrusted import amount
from agentv_sandbox.models.suite import Json
from agentv_sandbox.models.task import ENDED_EARLY
from agentv_sandbox.report.view import View
from agentv_sandbox.report.views.interchange import atif, later, make_empty, time_of, transcript_lines
from agentv_sandbox.rows.files import sync_all, write_file
from agentv_sandbox.rows.naming import UniqueNames, slug
from agentv_sandbox.rows.reader import Run
from agentv_sandbox.rows.record import Row
from agentv_sandbox.rows.rows import Wire

_EXCEPTIONS: Mapping[str, str] = {
    "timeout": "AgentTimeoutError",
    "agent_exit": "NonZeroAgentExitCodeError",
    "grader_failed": "VerifierOutputParseError",
}
"""Harbor's names of what went wrong, by fault; others get a name of that form."""
_MOST = 1e9
_NAMESPACE = uuid.UUID("6f1d3d0e-5f0c-4a55-9a0e-8f4c2f6f3f0a")


@dataclass(frozen=True, kw_only=True)
class _Trial:
    row: Row
    """Of the trial."""
    name: str
    folder: Path


def write_job(runs: Sequence[Run], folder: Path) -> str:
    """Write the job of a run to ``folder``, which must be new or empty. Raises InputError, OSError."""
    run = runs[0]
    make_empty(folder)
    folder = folder.absolute()
    results, written = [], []
    for trial in _trials(run, folder):
        result = _result(run, trial)
        results.append(result)
        files = {
            "config.json": result["config"],
            "result.json": result,
            "verifier/reward.json": (result["verifier_result"] or {}).get("rewards"),
            "agent/trajectory.json": _trajectory(run, trial.row),
        }
        for name, value in files.items():
            if value is not None:
                written.append(_write(trial.folder / name, value))
        if said := _said(trial.row):
            written.append(_write(trial.folder / "verifier/test-stdout.txt", said.encode("utf-8", "replace")))
    config = _job_config(folder, results)
    written += [_write(folder / "config.json", config), _write(folder / "result.json", _job(run, results))]
    sync_all(written)
    return f"{len(results)} trials; `harbor view` shows the folder that holds it"


def _write(path: Path, value: Json | bytes) -> Path:
    """Write text as it is, and anything else as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = value if isinstance(value, bytes) else json.dumps(value, indent=1).encode()
    write_file(path, data, sync=False)
    return path


def _trials(run: Run, folder: Path) -> Iterator[_Trial]:
    names = UniqueNames()
    for row in run.rows:
        whole = [replace(row, trials=())] if not row.trials else [_of_trial(row, each) for each in row.trials]
        for each in whole:
            name = names.take(slug(f"{row.test_id}__{row.target}", fallback="trial"))
            yield _Trial(row=each, name=name, folder=folder / name)


def _of_trial(row: Row, trial: Row) -> Row:
    """A trial as a row of its own: what it does not say is the test's."""
    return replace(
        trial,
        timestamp=row.timestamp,
        test_id=row.test_id,
        suite=row.suite,
        category=row.category,
        target=row.target,
        agent=row.agent,
        input_hashes=row.input_hashes,
    )


def _result(run: Run, trial: _Trial) -> Wire:
    row = trial.row
    begun = time_of(row.timestamp)
    ms = amount(row.total_duration_ms, 1e12) or amount(row.duration_ms, 1e12) or 0.0
    # Harbor's models refuse a missing field, so each has a value where a row has none.
    task = {"path": row.test_id or "test"}
    usage = row.token_usage
    model = row.agent.get("model")
    config = {
        "task": {**task, "source": row.category or None},
        "trial_name": trial.name,
        "trials_dir": str(trial.folder.parent),
        "agent": {"name": row.target or "agent"},
        "job_id": _id(run.path.name),
    }
    steps = list(_steps(row))
    return {
        "id": _id(run.path.name, trial.name),
        "task_name": row.test_id or "test",
        "trial_name": trial.name,
        "trial_uri": trial.folder.as_uri(),
        "task_id": task,
        "source": row.category or None,
        "task_checksum": hashlib.sha256(
            json.dumps(dict(row.input_hashes), sort_keys=True).encode()
        ).hexdigest(),
        "config": config,
        "agent_info": {
            "name": row.target or "agent",
            "version": str(row.agent.get("version") or "unknown"),
            "model_info": {"name": str(model)} if model else None,
        },
        "agent_result": {
            "n_input_tokens": usage.input if usage else None,
            "n_cache_tokens": usage.cached if usage else None,
            "n_output_tokens": usage.output if usage else None,
            "cost_usd": amount(row.cost_usd, _MOST),
        },
        "verifier_result": _verdict(row),
        "exception_info": _exception(row),
        "started_at": begun.isoformat() if begun else None,
        "finished_at": later(begun, ms / 1000).isoformat() if begun else None,
        "step_results": steps or None,
    }


def _verdict(row: Row) -> Wire | None:
    """Named rewards of a task, the score of any other test; None where there is no verdict."""
    if row.execution_status not in ("ok", "quality_failure"):
        return None
    named = _rewards(row.scores[0]) if len(row.scores) == 1 else {}
    return {"rewards": named or {"reward": row.score}}


def _rewards(grader: GraderResult) -> dict[str, float]:
    said = (grader.details or {}).get("rewards")
    named = said.items() if isinstance(said, Mapping) else ()
    return {
        str(name): float(value)
        for name, value in named
        if isinstance(value, int | float) and -_MOST <= value <= _MOST
    }


def _steps(row: Row) -> Iterator[Wire]:
    for whole in row.scores:
        for step in whole.scores if whole.type == "task-verifier" else ():
            rewards = _rewards(step)
            yield {
                "step_name": step.name,
                "verifier_result": {"rewards": rewards} if rewards else None,
                "exception_info": _info("VerifierOutputParseError", step.error, row) if step.error else None,
            }


def _exception(row: Row) -> Wire | None:
    if row.error:
        words = "".join(part.capitalize() for part in (row.fault or "execution").split("_"))
        return _info(_EXCEPTIONS.get(row.fault, f"{words}Error"), row.error, row)
    early = next((note for note in row.notes if note.startswith(ENDED_EARLY)), None)
    return _info("AgentTimeoutError" if "(timeout)" in early else "AgentError", early, row) if early else None


def _info(kind: str, message: str, row: Row) -> Wire:
    at = time_of(row.timestamp)
    return {
        "exception_type": kind,
        "exception_message": message,
        "exception_traceback": "",
        "occurred_at": at.isoformat() if at else "1970-01-01T00:00:00+00:00",
    }


def _said(row: Row) -> str:
    """What verifiers printed, as far as rows keep it."""
    graders = [each for whole in row.scores for each in (whole.scores or (whole,))]
    outputs = ((each.details or {}).get("output") for each in graders)
    return "\n".join(text for text in outputs if isinstance(text, str))


def _trajectory(run: Run, row: Row) -> Wire | None:
    messages = list(transcript_lines(run, row))
    return atif(row, messages) if messages else None


def _job_config(folder: Path, results: Sequence[Wire]) -> Wire:
    agents = dict.fromkeys(result["agent_info"]["name"] for result in results)
    tasks = dict.fromkeys(result["task_name"] for result in results)
    return {
        "job_name": folder.name,
        "jobs_dir": str(folder.parent),
        "agents": [{"name": name} for name in agents],
        "tasks": [{"path": name} for name in tasks],
    }


def _job(run: Run, results: Sequence[Wire]) -> Wire:
    begun = sorted(result["started_at"] for result in results if result["started_at"])
    ended = sorted(result["finished_at"] for result in results if result["finished_at"])
    first, last = (begun or ["1970-01-01T00:00:00+00:00"])[0], (ended or [None])[-1]
    evals: dict[str, Wire] = {}
    for result in results:
        model = (result["agent_info"]["model_info"] or {}).get("name")
        parts = [result["agent_info"]["name"], *([model] if model else []), result["source"] or "adhoc"]
        stats = evals.setdefault(
            "__".join(parts), {"n_trials": 0, "n_errors": 0, "reward_stats": {}, "exception_stats": {}}
        )
        _count(stats, result)
    return {
        "id": _id(run.path.name),
        "started_at": first,
        "updated_at": last,
        "finished_at": last,
        "n_total_trials": len(results),
        "stats": {
            "n_completed_trials": len(results),
            "n_errored_trials": sum(result["exception_info"] is not None for result in results),
            "evals": evals,
        },
    }


def _count(stats: Wire, result: Wire) -> None:
    name = result["trial_name"]
    if result["verifier_result"] is not None:
        stats["n_trials"] += 1
        for reward, value in result["verifier_result"]["rewards"].items():
            stats["reward_stats"].setdefault(reward, {}).setdefault(repr(float(value)), []).append(name)
    if result["exception_info"] is not None:
        stats["n_errors"] += 1
        kind = result["exception_info"]["exception_type"]
        stats["exception_stats"].setdefault(kind, []).append(name)


def _id(*parts: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, "/".join(parts)))


VIEWS = (
    View(
        name="harbor",
        summary="A job folder of Harbor, which its viewer and its commands read.",
        write=write_job,
        suffix=".harbor",
    ),
)
