"""Records to and from JSON by their fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from agentv_sandbox.models.json.wire import (
    ALWAYS,
    NEVER,
    REST,
    Found,
    read,
    read_exactly,
    written,
)


@dataclass(frozen=True, kw_only=True)
class Part:
    name: str
    share: float | None = None


@dataclass(frozen=True, kw_only=True)
class Whole:
    kind: Literal["big", "small"]
    parts: tuple[Part, ...] = ()
    count: int = 0
    words: tuple[str, ...] = field(default=(), metadata=ALWAYS)
    scores: tuple[float | None, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    any: Any = None
    secret: str = field(default="", metadata=NEVER)
    rest: Mapping[str, Any] = field(default_factory=dict, metadata=REST)


def test_a_record_comes_back_as_it_was_written() -> None:
    record = Whole(
        kind="big", parts=(Part(name="a", share=0.5), Part(name="b")), scores=(1.0, None), secret="s"
    )
    value = written(record)
    assert value == {
        "kind": "big",
        "parts": [{"name": "a", "share": 0.5}, {"name": "b"}],
        "count": 0,
        "words": [],
        "scores": [1.0, None],
    }
    again = read_exactly(Whole, {**value, "unknown": [1]})
    assert (again.parts, again.scores, again.secret) == (record.parts, record.scores, "")
    assert again.rest["unknown"] == [1]
    assert read_exactly(Whole, {"kind": "big", "parts": None, "any": None}).parts == ()


@pytest.mark.parametrize(
    ("value", "wrong", "missing"),
    [
        ({"kind": "big", "count": True}, ["count"], []),
        ({"kind": "big", "count": -1}, ["count"], []),
        ({"kind": "big", "count": 1 << 53}, ["count"], []),
        ({"kind": "big", "parts": [{"name": 7}]}, ["parts[].name"], ["parts[].name"]),
        ({"kind": "big", "parts": {"name": "a"}}, ["parts"], []),
        ({"kind": "big", "parts": [1]}, ["parts"], []),
        ({"kind": "big", "words": ["a", None]}, ["words"], []),
        ({"kind": "big", "scores": ["1"]}, ["scores"], []),
        ({"kind": "big", "names": {"a": 1}}, ["names"], []),
        ({"kind": "huge"}, ["kind"], ["kind"]),
        ({}, [], ["kind"]),
    ],
)
def test_what_is_of_another_type_is_named_and_left_out(
    value: Mapping[str, Any], wrong: list[str], missing: list[str]
) -> None:
    record = read(Whole, value, found := Found())
    assert (found.wrong, found.missing) == (wrong, missing)
    assert not set(record.rest) & {key for key in wrong if key in value}
    with pytest.raises(ValueError, match="Whole"):
        read_exactly(Whole, value)
