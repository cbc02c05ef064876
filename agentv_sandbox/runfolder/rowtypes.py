"""Which type the value of each key of a row has, for rows that another program may have written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any

ROW: Mapping[str, tuple[str, str]] = {
    "timestamp": ("text", "Of the test, in UTC."),
    "test_id": ("text", "The test's `id`."),
    "suite": ("text", "The suite's name."),
    "category": ("text", "Of the suite."),
    "conversation_id": ("text", "Of the test."),
    "experiment": ("text", "What the run was called by `--experiment`."),
    "score": ("number", "0 to 1."),
    "target": ("text", "The target that was asked."),
    "target_used": ("text", "The one of its `fallback_targets` that answered."),
    "token_usage": (
        "record",
        "Of the agent: `input`, `output`, `cached`, and `reasoning`, the part of `output` that nobody sees.",
    ),
    "cost_usd": ("number", "Of the agent."),
    "model_calls": ("record", "Here only: what the model gateway counted."),
    "claimed": (
        "record",
        "Here only: what the agent says of its `token_usage`, `cost_usd`, `duration_ms` and `turns`, where others "
        "counted.",
    ),
    "duration_ms": (
        "number",
        "Of the agent, by this machine's clock; `scores[].agents_word` names exceptions.",
    ),
    "start_time": ("any", "Of the agent, as it says."),
    "end_time": ("any", "Of the agent, as it says."),
    "scores": ("records", "What each grader said."),
    "execution_status": ("text", "`ok` (at or above the threshold), `quality_failure` or `execution_error`."),
    "error": ("text", "Why there is no verdict."),
    "failure_stage": ("text", "Of an error: `setup`, `repo_setup`, `agent`, `evaluator` or `teardown`."),
    "failure_reason_code": ("text", "Of an error: AgentV's code, such as `provider_error`."),
    "fault": ("text", "Here only: what went wrong, of a fixed list."),
    "workspace_kept": (
        "text",
        "How to look into a kept workspace (`--keep-failed`); `clean RUN/TEST` removes it.",
    ),
    "artifact_dir": ("text", "The test's folder; like all paths relative to the run folder."),
    "prompts_dir": ("text", "Here only: folder of what LLM graders asked and got."),
    "metadata": ("any", "Of the test."),
    "tags": ("texts", "Here only: of the suite."),
    "threshold": ("number", "Here only: score from which this test passes."),
    "trial": ("number", "Here only: in the row of one trial, its number."),
    "trial_scores": ("scores", "Here only: of all trials, in their order; `null` for an execution error."),
    "trial_strategy": ("text", "Here only: how the scores of trials became one."),
    "trial_statistics": ("record", "Here only: what the trials say beside the strategy."),
    "trials": ("records", "Here only: each trial as a row in short, with its own `artifact_dir`."),
    "attempts": ("number", "Here only: when the agent needed more than one."),
    "total_duration_ms": ("number", "Here only: of the whole test: workspace, agent, collection, graders."),
    "spent_usd": (
        "number",
        "Here only: what agents and graders of all trials cost: what counts for `budget_usd`.",
    ),
    "input_hashes": ("texts by name", "Here only: of all that the row is made of, by part."),
    "regraded_from": (
        "texts by name",
        "Here only: of a row that was graded again: `run`, the folder's name, and `sha256` of its `index.jsonl` "
        "(of `SHA256SUMS` where it was packed).",
    ),
    "files_sha256": (
        "any",
        "Here only: of the test's files that the row and its `prompts_dir` name, by which a change is noticed.",
    ),
    "image_id": ("text", "Here only: the image that it ran in."),
    "agent": (
        "record",
        "Here only: of a coding agent `program`, `version`, `model`, `stop_reason`; of a model `model` and "
        "`stop_reason`, as its server says them.",
    ),
    "engine": ("text", "Here only: the engine that it ran in."),
    "worker": ("any", "Here only: name of the worker that ran it, under `--cluster`."),
    "notes": ("texts", "Here only: what happened beside the verdict."),
    "row_sha256": ("any", "Here only: of the rest of the row, by which an edit by hand is noticed."),
}
"""The keys of a row: the type of each and what it says. Any `*_path` is a text, too."""
SCORE: Mapping[str, tuple[str, str]] = {
    "name": ("text", "Of the grader."),
    "type": ("text", "Its kind of assertion."),
    "score": ("number", "0 to 1."),
    "weight": ("number", "Its share in the test's score."),
    "verdict": ("text", "`pass`, `fail` or `skip`."),
    "assertions": ("records", "Its reasons: `text`, `passed`, `evidence`."),
    "error": ("text", "Here only: why it failed."),
    "reasoning": ("text", "Here only: what it said."),
    "input": ("any", "The request of an LLM grader, unless it is longer than 64 KiB."),
    "target": ("text", "Who was asked."),
    "scores": ("records", "Members of a composite, in the same form."),
    "details": ("any", "What else it reported."),
    "agents_word": (
        "texts",
        "Here only: what it judged by that rests on the agent's own word alone: `tool_calls`, `duration_ms`, "
        "`token_usage`, `cost_usd`.",
    ),
    "token_usage": ("record", "Of its requests."),
    "cost_usd": ("number", "Here only: of its requests."),
    "duration_ms": ("number", "How long it took."),
    "started_at": ("any", "When it began, in UTC."),
    "ended_at": ("any", "When it ended, in UTC."),
}
"""The keys of an entry of ``scores``, in the same way."""
_ASSERTION = {"text": "text", "evidence": "text"}
_OLDER = {"graders": "records"}
"""Of rows of other programs."""
_USAGE = frozenset({"input", "output", "cached", "reasoning"})


def drop_wrong_types(row: dict[str, Any]) -> list[str]:
    """Take every value that no reader could use out of ``row``, in place; the keys, without those inside of others."""
    wrong = [key for key, value in row.items() if value is not None and not _fits(key, value)]
    for key in wrong:
        del row[key]
    for key in _RECORDS & row.keys():
        for record in row[key] or ():
            wrong += [f"{key}[].{inner}" for inner in drop_wrong_types(record)]
    for key in _USAGE & (row.get("token_usage") or {}).keys():
        if not _is_number(row["token_usage"][key]):
            del row["token_usage"][key]
            wrong.append(f"token_usage.{key}")
    return wrong


def _fits(key: str, value: object) -> bool:
    check = _CHECKS.get(key)
    if check is None:
        return not key.endswith("_path") or isinstance(value, str)
    return check(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_record(value: object) -> bool:
    return isinstance(value, dict)


def _is_list_of(*kinds: type) -> Callable[[object], bool]:
    return lambda value: isinstance(value, list) and all(isinstance(item, kinds) for item in value)


def _has_texts(value: object) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


_KINDS: Mapping[str, Callable[[object], bool]] = {
    "text": _is_text,
    "number": _is_number,
    "record": _is_record,
    "records": _is_list_of(dict),
    "texts": _is_list_of(str),
    "texts by name": _has_texts,
    "scores": _is_list_of(int, float, NoneType),
}
_KIND_OF: Mapping[str, str] = {
    **_OLDER,
    **_ASSERTION,
    **{key: kind for table in (SCORE, ROW) for key, (kind, _) in table.items()},
}
_CHECKS = {key: _KINDS[kind] for key, kind in _KIND_OF.items() if kind in _KINDS}
_RECORDS = frozenset(key for key, kind in _KIND_OF.items() if kind == "records")
