"""Numbers and JSON as JavaScript writes them."""

from __future__ import annotations

import json

import pytest

from agentv_sandbox.models.json.javascript import dumps, number
from agentv_sandbox.models.json.pieces import json_pieces

NUMBERS = {
    0.0: "0",
    1.0: "1",
    -2.5: "-2.5",
    1e-6: "0.000001",
    1.5e-7: "1.5e-7",
    1e20: "100000000000000000000",
    1e21: "1e+21",
    1.5e21: "1.5e+21",
    2**53: "9007199254740992",
    2**63: "9223372036854776000",
    123456789.125: "123456789.125",
    0.1: "0.1",
    5e-324: "5e-324",
    float("inf"): "Infinity",
    10**400: "Infinity",
}
"""As ``String(value)`` of Node.js and bun says."""


@pytest.mark.parametrize("value", NUMBERS, ids=str)
def test_numbers(value: float) -> None:
    assert number(value) == NUMBERS[value]


def test_texts_stay_as_they_are() -> None:
    value = {"a": 1.0, "b": ["1.0", '"2.0"', "é"], "c": [1e-7, True, None, float("nan")]}
    assert dumps(value) == '{"a":1,"b":["1.0","\\"2.0\\"","é"],"c":[1e-7,true,null,null]}'
    assert dumps({"a": 1.0}, indent=2) == '{\n  "a": 1\n}'


def test_pieces_write_numbers_as_they_are_told() -> None:
    assert "".join(json_pieces({"a": [1.0, 2]}, number=number)) == '{\n  "a": [\n    1,\n    2\n  ]\n}'
    assert "".join(json_pieces({"a": [1.0, 2]})) == json.dumps({"a": [1.0, 2]}, indent=2)
