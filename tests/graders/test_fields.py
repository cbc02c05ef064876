"""field-accuracy."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.graders.fakes import FakeTools, grade_one, spec_of

EXPECTED = {"name": "Ann", "total": 10, "when": "2025-01-15", "items": [{"price": 5}], "none": None}


def grade(fields: list[dict[str, Any]], actual: Any, *, expected: Any = EXPECTED, **options: Any) -> Any:
    answer = actual if isinstance(actual, str) else json.dumps(actual)
    messages = ({"role": "assistant", "content": expected},) if expected is not None else ()
    spec = spec_of("field-accuracy", {"fields": fields, **options})
    return grade_one(spec, FakeTools(), answer=answer, expected_output=messages)


FIELDS = [
    # field, actual, score, text
    ({"path": "name"}, {"name": "Ann"}, 1, "name"),
    ({"path": "name"}, {"name": "ann"}, 0, "name (value mismatch)"),
    ({"path": "name"}, {"name": 3}, 0, "name (type mismatch: got number, expected string)"),
    ({"path": "name"}, {}, 0, "name (required, missing)"),
    ({"path": "unknown"}, {}, 1, "unknown: no expected value"),
    ({"path": "items[0].price"}, {"items": [{"price": 5.0}]}, 1, "items[0].price"),
    ({"path": "items.0.price"}, {"items": [{"price": 6}]}, 0, "items.0.price (value mismatch)"),
    ({"path": "items[0].price"}, {"items": []}, 0, "items[0].price (required, missing)"),
    ({"path": "none"}, {"none": None}, 1, "none"),
    ({"path": "total"}, {"total": True}, 0, "total (type mismatch: got boolean, expected number)"),
    (
        {"path": "total", "match": "numeric_tolerance", "tolerance": 0.5},
        {"total": 10.4},
        1,
        "total (within tolerance: diff=0.40)",
    ),
    (
        {"path": "total", "match": "numeric_tolerance", "tolerance": 0.5},
        {"total": 11},
        0,
        "total (outside tolerance: diff=1.00, tolerance=0.5)",
    ),
    (
        {"path": "total", "match": "numeric_tolerance", "tolerance": 0.1, "relative": True},
        {"total": "11 EUR"},
        1,
        "total (within tolerance: diff=1.00)",
    ),
    ({"path": "total", "match": "numeric_tolerance"}, {"total": "EUR 10"}, 0, "total (non-numeric value)"),
    ({"path": "total", "match": "numeric_tolerance"}, {"total": [10]}, 0, "total (non-numeric value)"),
    (
        {"path": "total", "match": "numeric_tolerance"},
        {"total": "Infinity"},
        0,
        "total (invalid numeric value)",
    ),
    (
        {"path": "total", "match": "numeric_tolerance"},
        '{"total": 1' + "0" * 400 + "}",
        0,
        "total (invalid numeric value)",
    ),
    ({"path": "when", "match": "date"}, {"when": "15-JAN-2025"}, 1, "when"),
    ({"path": "when", "match": "date"}, {"when": "January 15, 2025"}, 1, "when"),
    ({"path": "when", "match": "date"}, {"when": "2025-01-15T23:30:00Z"}, 1, "when"),
    ({"path": "when", "match": "date"}, {"when": "01/15/2025"}, 1, "when"),
    ({"path": "when", "match": "date"}, {"when": "15/01/2025"}, 1, "when"),
    ({"path": "when", "match": "date", "formats": ["DD/MM/YYYY"]}, {"when": "15/01/2025"}, 1, "when"),
    (
        {"path": "when", "match": "date", "formats": ["MM/DD/YYYY"]},
        {"when": "15/01/2025"},
        0,
        "when (unparseable candidate date)",
    ),
    (
        {"path": "when", "match": "date"},
        {"when": "2025-01-16"},
        0,
        "when (date mismatch: got 2025-01-16, expected 2025-01-15)",
    ),
    ({"path": "when", "match": "date"}, {"when": "soon"}, 0, "when (unparseable candidate date)"),
    ({"path": "when", "match": "date"}, {"when": "15"}, 0, "when (unparseable candidate date)"),
    ({"path": "when", "match": "date"}, {"when": "9" * 10_000}, 0, "when (unparseable candidate date)"),
]


@pytest.mark.parametrize(("field", "actual", "score", "text"), FIELDS)
def test_fields(field: dict[str, Any], actual: Any, score: int, text: str) -> None:
    graded = grade([field], actual)
    assert [(a.text, a.passed) for a in graded.assertions] == [(text, bool(score))]
    assert graded.score == score


def test_unparseable_expected_date() -> None:
    graded = grade([{"path": "when", "match": "date"}], {"when": "2025-01-15"}, expected={"when": "soon"})
    assert graded.assertions[0].text == "when (unparseable expected date)"


def test_weights_and_optional_fields() -> None:
    fields = [
        {"path": "name", "weight": 3},
        {"path": "total"},
        {"path": "when", "required": False, "weight": 9},
    ]
    graded = grade(fields, {"name": "Ann", "total": 1})
    assert graded.score == 0.75
    assert graded.assertions[2].text == "when: optional field missing"
    assert grade(fields, {"name": "Ann", "total": 1}, aggregation="all_or_nothing").score == 0
    assert grade(fields, {"name": "Ann", "total": 10}, aggregation="all_or_nothing").score == 1
    assert grade([{"path": "when", "required": False}], {}).score == 0


@pytest.mark.parametrize("answer", ["nothing", "{", ""])
def test_answer_without_json(answer: str) -> None:
    graded = grade([{"path": "name"}], answer)
    assert graded.assertions[0].text == "Failed to parse candidate answer as JSON"


def test_json_is_found_in_text() -> None:
    assert grade([{"path": "name"}], 'Here:\n```json\n{"name": "Ann"}\n```\nBye').score == 1


@pytest.mark.parametrize("expected", [None, "plain words", ""])
def test_nothing_expected(expected: Any) -> None:
    graded = grade([{"path": "name"}], {"name": "Ann"}, expected=expected)
    assert (graded.score, graded.assertions[0].text) == (0, "No expected data found in expected_output")


def test_expected_text_may_hold_json() -> None:
    assert grade([{"path": "name"}], {"name": "Ann"}, expected='{"name": "Ann"}').score == 1
