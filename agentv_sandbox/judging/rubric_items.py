"""Rubric items: what a suite may write, and what it amounts to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from agentv_sandbox.authoring.docs import Doc, read
from agentv_sandbox.authoring.fields import Gate, Text, Unit, Weight
from agentv_sandbox.authoring.tree import Map, Problems
from agentv_sandbox.judging.kind import Options


class ScoreRange(Options):
    low: Annotated[int, Field(ge=0, le=10)]
    high: Annotated[int, Field(ge=0, le=10)]
    outcome: str


class Rubric(Options):
    """One rubric item. Items with ``score_ranges`` are scored 0..10, others are satisfied or not."""

    id: str
    outcome: str
    weight: Weight = 1.0
    required: bool = True
    """Default filled in by the loader: False where the item has ranges."""
    operator: Literal["correctness", "contradiction"] | None = None
    min_score: Unit | None = None
    """Gate of a scored item, 0..1 (``required_min_score / 10`` where that was written)."""
    score_ranges: tuple[ScoreRange, ...] = ()


class ScoreRangeDoc(Doc):
    score_range: Annotated[list[int], Field(min_length=2, max_length=2)]
    """Lowest and highest score."""
    outcome: Text
    """What an answer with such a score is like."""


class RubricDoc(Doc):
    ALIASES: ClassVar = {"criteria": "outcome", "description": "outcome", "expected_outcome": "outcome"}

    id: Text | None = None
    """Its name in results."""
    outcome: Text | None = None
    """What the answer has to show."""
    weight: Weight = 1.0
    """How much it counts beside the others."""
    required: bool | None = None
    """If it is not met, the verdict is `fail`, whatever the score."""
    operator: Literal["correctness", "contradiction"] | None = None
    """`contradiction`: the item is met if the answer does not contradict it."""
    min_score: Gate | None = None
    """With a lower score of the item, the verdict is `fail`."""
    required_min_score: Annotated[int, Field(ge=0, le=10)] | None = None
    """The same, on a scale from 0 to 10."""
    score_ranges: list[ScoreRangeDoc] | dict[str, Text] | None = None
    """What an answer of each score from 0 to 10 is like."""


RubricList = Annotated[list[Text | RubricDoc], Field(min_length=1)]


def read_rubrics(_node: Map, _key: str, value: Any, problems: Problems) -> tuple[Rubric, ...]:
    """``value`` (an entry of a test or an assertion, validated or raw) as rubric items with ids of their own."""
    entries = [value] if isinstance(value, str) else list(value)
    docs = [_doc(entry, problems) for entry in entries]
    rubrics = [_rubric(n, doc, problems) for n, doc in enumerate(docs, 1) if doc is not None]
    seen: set[str] = set()
    for doc in docs:
        name = doc.id if isinstance(doc, RubricDoc) else None
        if isinstance(doc, RubricDoc) and name in seen:
            hint = "give each item an id of its own, or leave the ids out"
            problems.error(doc.src, "id", f"two items have the id '{name}'", hint=hint)
        seen |= {name} if name is not None else set()
    return tuple(rubric for rubric in rubrics if rubric is not None)


def _doc(entry: Any, problems: Problems) -> RubricDoc | str | None:
    return read(RubricDoc, entry, problems) if isinstance(entry, Map) else entry


def _rubric(number: int, doc: RubricDoc | str, problems: Problems) -> Rubric | None:
    if isinstance(doc, str):
        return Rubric(id=f"rubric-{number}", outcome=doc.strip())
    ranges = _ranges(doc, problems)
    if doc.outcome is None and not ranges:
        if problems.is_misspelt(doc.src, "outcome") or problems.is_wrong_in(doc.src):
            return None
        problems.error(doc.src, "outcome", "is required: what the answer must show")
        return None
    gate = doc.min_score
    if gate is None and doc.required_min_score is not None:
        gate = doc.required_min_score / 10
    return Rubric(
        id=doc.id or f"rubric-{number}",
        outcome=doc.outcome or "",
        weight=float(doc.weight),
        required=doc.required if doc.required is not None else not ranges,
        operator=doc.operator,
        min_score=gate,
        score_ranges=ranges,
    )


def _ranges(doc: RubricDoc, problems: Problems) -> tuple[ScoreRange, ...]:
    """Score ranges as intervals that cover 0..10 once."""
    if not doc.score_ranges:
        return ()
    if isinstance(doc.score_ranges, Mapping):
        spans = _from_map(doc, problems)
    else:
        spans = [_span(item) for item in doc.score_ranges]
    covered: list[int] = []
    for low, high, _ in spans:
        covered.extend(range(max(low, 0), min(high, 10) + 1))
        if low > high:
            problems.error(
                doc.src,
                "score_ranges",
                f"the range {low} to {high} ends before it begins",
                hint="the lower score first",
            )
        elif low < 0 or high > 10:
            hint = "scores of ranges are whole numbers from 0 to 10"
            message = f"the range {low} to {high} does not lie in 0 to 10"
            problems.error(doc.src, "score_ranges", message, hint=hint)
    twice = sorted({score for score in covered if covered.count(score) > 1})
    missing = [score for score in range(11) if score not in covered]
    sound = all(0 <= low <= high <= 10 for low, high, _ in spans)
    if twice or (missing and sound):
        what = [f"{_scores(twice)} more than once"] if twice else []
        what += [f"{_scores(missing)} not at all"] if missing and sound else []
        message = "must cover every score from 0 to 10 exactly once"
        problems.error(doc.src, "score_ranges", message, hint=f"now they cover {' and '.join(what)}")
    if twice or missing or not sound:
        return ()
    return tuple(ScoreRange(low=low, high=high, outcome=text) for low, high, text in spans)


def _scores(scores: list[int]) -> str:
    return ", ".join(map(str, scores))


def _span(item: ScoreRangeDoc) -> tuple[int, int, str]:
    return item.score_range[0], item.score_range[1], item.outcome


def _from_map(doc: RubricDoc, problems: Problems) -> list[tuple[int, int, str]]:
    """``{0: …, 4: …, 8: …}``: each key opens a range that ends before the next."""
    assert isinstance(doc.score_ranges, Mapping)
    try:
        entries = sorted((int(key), text) for key, text in doc.score_ranges.items())
    except ValueError:
        problems.error(doc.src, "score_ranges", "has keys that are not whole numbers; each opens a range")
        return []
    ends = [low - 1 for low, _ in entries[1:]] + [10]
    return [(low, high, text) for (low, text), high in zip(entries, ends, strict=True)]
