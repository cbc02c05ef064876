"""Which type the value of each key of a row has, for rows that another program may have written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


_CHECKS: Mapping[str, Callable[[object], bool]] = {
    **dict.fromkeys(_RECORDS, _is_list_of(dict)),
    "notes": _is_list_of(str),
    "tags": _is_list_of(str),
    "trial_scores": _is_list_of(int, float, NoneType),
    **dict.fromkeys(_TEXTS, _is_text),
    **dict.fromkeys(("token_usage", "agent", "model_calls", "claimed", "trial_statistics"), _is_record),
    **dict.fromkeys(("input_hashes", "regraded_from"), _has_texts),
    **dict.fromkeys(_NUMBERS, _is_number),
}
