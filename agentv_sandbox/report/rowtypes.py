"""Which type the value of each key of a row has, for rows that another program may have written."""

from __future__ import annotations

from types import NoneType
from typing import Any

_TEXTS = frozenset(
    [
        "test_id",
        "suite",
        "target",
        "target_used",
        "category",
        "conversation_id",
        "experiment",
        "timestamp",
        "execution_status",
        "error",
        "failure_stage",
        "failure_reason_code",
        "fault",
        "workspace_kept",
        "trial_strategy",
        "image_id",
        "engine",
        "artifact_dir",
        "prompts_dir",
        "name",
        "type",
        "verdict",
        "text",
        "evidence",
        "reasoning",
    ]
)
_NUMBERS = frozenset(
    [
        "score",
        "threshold",
        "weight",
        "trial",
        "attempts",
        "cost_usd",
        "spent_usd",
        "duration_ms",
        "total_duration_ms",
    ]
)
_USAGE = frozenset({"input", "output", "cached", "reasoning"})
_RECORDS = frozenset({"scores", "graders", "assertions", "trials"})
_LISTS: dict[str, type | tuple[type, ...]] = {"notes": str, "trial_scores": (int, float, NoneType)}


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
    if key in _RECORDS:
        return isinstance(value, list) and all(isinstance(item, dict) for item in value)
    if key in _LISTS:
        return isinstance(value, list) and all(isinstance(item, _LISTS[key]) for item in value)
    if key in _TEXTS or key.endswith("_path"):
        return isinstance(value, str)
    if key in ("token_usage", "agent", "model_calls", "claimed", "trial_statistics"):
        return isinstance(value, dict)
    if key in ("input_hashes", "regraded_from"):
        return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())
    return key not in _NUMBERS or _is_number(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
