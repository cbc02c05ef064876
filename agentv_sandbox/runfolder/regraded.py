"""What another grading of a run changed, test by test and grader by grader, and why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentv_sandbox import masking
from agentv_sandbox.runfolder.naming import numbered
from agentv_sandbox.runfolder.rows import Row

Change = Row
"""``suite``, ``test_id``, ``target``; ``before``, ``after`` (score, status, trials); ``equal``, ``why``, ``graders[]``:
``equal`` are tests whose verdict and whose graders' verdicts are what they were."""
Definitions = Mapping[tuple[str, str, str], tuple[Mapping[str, str], Mapping[str, str]]]
"""By suite, test, target: hashes of the graders' definitions before and now."""


def changes_of(
    before: Mapping[tuple[str, str, str], Row],
    after: Sequence[Row],
    definitions: Definitions,
) -> tuple[Change, ...]:
    """One entry for each of the rows ``after``."""
    changes = []
    for row in after:
        key = (str(row.get("suite")), str(row.get("test_id")), str(row.get("target")))
        if key in before:
            changes.append(_change(before[key], row, *definitions.get(key, ({}, {}))))
    return tuple(changes)


def _change(old: Row, new: Row, defined: Mapping[str, str], defined_now: Mapping[str, str]) -> Change:
    graders = _graders(old, new, defined, defined_now)
    why = [f"{each['name']}: {each['why']}" for each in graders if not each["equal"]]
    before, after = _verdict(old), _verdict(new)
    if before != after and old.get("threshold") != new.get("threshold"):
        why.append(f"the threshold was {old.get('threshold')} and is {new.get('threshold')}")
    if before != after and not why:
        why.append(masking.first(str(new.get("error") or "the rules by which scores become one"), 200))
    return {
        **{name: new.get(name) for name in ("suite", "test_id", "target")},
        "before": before,
        "after": after,
        "equal": before == after and all(each["equal"] for each in graders),
        "why": why,
        "graders": graders,
    }


def _verdict(row: Row) -> Row:
    return {
        "score": row.get("score"),
        "status": row.get("execution_status"),
        "trials": row.get("trial_scores"),
    }


def _graders(
    old: Row, new: Row, defined: Mapping[str, str], defined_now: Mapping[str, str]
) -> list[dict[str, Any]]:
    was, is_now = _by_name(old), _by_name(new)
    entries = []
    for name in dict.fromkeys([*was, *is_now]):
        before, after = was.get(name), is_now.get(name)
        equal = before is not None and after is not None and _same(before, after)
        changed = defined.get(name) != defined_now.get(name)
        scores = {"before": _score(before), "after": _score(after)}
        why = "" if equal else _why(before, after, new, changed=changed)
        entries.append({"name": name, **scores, "equal": equal, "definition_changed": changed, "why": why})
    return entries


def _score(entry: Row | None) -> float | None:
    return None if entry is None else entry.get("score")


def _same(before: Row, after: Row) -> bool:
    keys = ("score", "verdict", "weight", "assertions", "error")
    return all(before.get(key) == after.get(key) for key in keys)


def _why(before: Row | None, after: Row | None, row: Row, *, changed: bool) -> str:
    """Why a grader's verdict is not what it was."""
    if after is None:
        return "it gave no verdict this time" if row.get("error") else "it is no longer there"
    if before is None:
        return "it is new, or gave no verdict before"
    if changed:
        return "its definition or its files changed"
    if any("another image" in str(note) for note in row.get("notes") or ()):
        return "it ran in another image"
    if after.get("input") is not None or after.get("target") is not None:
        return "the judge answered otherwise"
    return "it judged otherwise though nothing changed: it is not deterministic"


def _by_name(row: Row) -> dict[str, Row]:
    """Verdicts by the names of ``named_graders``: in a conversation those below the turns."""
    flat: list[tuple[str, Row]] = []
    for entry in row.get("scores") or ():
        below = entry.get("scores") or ()
        turn = str(entry.get("name", ""))
        if entry.get("type") == "rubrics" and (turn.startswith("turn-") or turn == "conversation"):
            flat += [(f"{turn}.{each.get('name')}", each) for each in below]
        else:
            flat.append((turn, entry))
    return dict(zip(numbered(name for name, _ in flat), (entry for _, entry in flat), strict=True))
