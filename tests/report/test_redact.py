from __future__ import annotations

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentv_sandbox.masking import MASK
from agentv_sandbox.rows.redact import Redactor

SECRET = 'sk-"live"/é+1234567890'


@pytest.mark.parametrize(
    "text",
    [
        SECRET,
        json.dumps({"key": SECRET}),
        json.dumps(json.dumps({"key": SECRET})),
        "https://host/?key=" + quote(SECRET, safe=""),
        SECRET.encode().hex(),
        SECRET.encode().hex().upper(),
        base64.b64encode(SECRET.encode()).decode(),
        base64.urlsafe_b64encode(b"user:" + SECRET.encode()).decode(),
    ],
)
def test_every_encoding_is_masked(text: str) -> None:
    redactor = Redactor([SECRET])
    for masked in (redactor.text(text), redactor.data(text.encode()).decode()):
        assert MASK in masked
        assert "1234567890" not in masked and base64.b64encode(b"1234567890").decode()[2:-4] not in masked


@given(st.binary(max_size=20), st.binary(max_size=20))
def test_base64_of_a_longer_text_is_masked_at_every_alignment(before: bytes, after: bytes) -> None:
    encoded = base64.b64encode(before + SECRET.encode() + after)
    assert MASK.encode() in Redactor([SECRET]).data(encoded)


@pytest.mark.parametrize("before", [b"", b"u", b"us", b"user"])
def test_both_alphabets_of_base64_are_masked(before: bytes) -> None:
    secret = "???>>>~~~???>>>"
    standard = base64.b64encode(before + secret.encode())
    assert {b"+", b"/"} & {bytes([byte]) for byte in standard}
    for encoded in (standard, base64.urlsafe_b64encode(before + secret.encode())):
        assert MASK.encode() in Redactor([secret]).data(encoded)


@given(st.text(max_size=60))
def test_text_without_the_secret_is_unchanged(text: str) -> None:
    assert Redactor([SECRET]).text(text) == text


def test_a_secret_inside_a_longer_one_leaves_nothing() -> None:
    assert Redactor(["abcdef", "abcdef-ghij"]).text("x abcdef-ghij y abcdef") == f"x {MASK} y {MASK}"


def test_short_and_empty_values_blank_nothing() -> None:
    assert Redactor(["", "a", "true", "  "]).text("a true") == "a true"


def test_a_secret_that_is_a_number_leaves_valid_json() -> None:
    text = Redactor(["424242", '":"']).dumps(
        {"pin": 424242, "size": 7, "a": "b", "ok": True, "huge": 10**400}
    )
    assert json.loads(text) == {"pin": MASK, "size": 7, "a": "b", "ok": True, "huge": None}


def test_tree_masks_keys_and_json_in_json() -> None:
    redactor = Redactor([SECRET])
    text = redactor.dumps({SECRET: [{"args": json.dumps({"k": SECRET})}]})
    assert "1234567890" not in text and json.loads(text) == {MASK: [{"args": f'{{"k": "{MASK}"}}'}]}
