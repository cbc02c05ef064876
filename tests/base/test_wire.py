"""Records to and from JSON by their fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from agentv_sandbox.models.json.records import JsonRecord, under_key
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


class Call(JsonRecord, camel=True):
    tool_name: str
    call_id: str | None = under_key("callID")
    exit_code: float | None
    is_error: bool
    words: str | tuple[Part, ...]
    given: Any


class Line(JsonRecord):
    call: Call
    calls: tuple[Call, ...]
    tokens: Mapping[str, int]
    of_model: int | None = under_key("tokens/model")
    raw: Mapping[str, Any] = field(metadata=REST)


def test_a_record_of_others_is_read_by_its_keys() -> None:
    value = {
        "call": {"toolName": "Bash", "callID": "c1", "exitCode": -1, "isError": True, "given": [1]},
        "calls": [{"words": "said"}, {"words": [{"name": "a"}]}],
        "tokens": {"model": 3},
        "more": 1,
    }
    line = Line.of(value)
    assert (line.call.tool_name, line.call.call_id, line.call.exit_code) == ("Bash", "c1", -1)
    assert (line.call.is_error, line.call.given) == (True, [1])
    assert [call.words for call in line.calls] == ["said", (Part(name="a"),)]
    assert (line.tokens, line.of_model, line.raw) == ({"model": 3}, 3, value)


@pytest.mark.parametrize("value", [None, 7, [], "text", {}, {"call": [], "calls": {}, "tokens": 1}])
def test_what_a_record_of_others_lacks_is_empty(value: Any) -> None:
    line = Line.of(value)
    assert line.call == Call(tool_name="", call_id=None, exit_code=None, is_error=False, words=(), given=None)
    assert (line.calls, line.tokens, line.of_model) == ((), {}, None)


def test_items_of_another_type_are_left_out() -> None:
    line = Line.of(
        {"calls": [1, {"toolName": 7, "isError": "yes"}, None], "tokens": {"a": -1, "b": True, "c": 2}}
    )
    assert [call.tool_name for call in line.calls] == [""]
    assert (line.calls[0].is_error, line.tokens) == (False, {"c": 2})
    assert Call.all_of([1, {"toolName": "Read"}, []]) == [Call.of({"toolName": "Read"})]
    assert Call.all_of({"toolName": "Read"}) == []
