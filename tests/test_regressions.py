"""The table of faults that must not come back is complete, and what it names exists."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FAULTS: dict[str, dict[str, str]] = tomllib.loads((TESTS / "regressions.toml").read_text())


def test_every_number_is_listed() -> None:
    assert list(FAULTS) == [f"F{n}" for n in range(1, 32)]


@pytest.mark.parametrize("number", FAULTS)
def test_named_tests_exist(number: str) -> None:
    for sentence, where in FAULTS[number].items():
        area, name = where.split("::")
        files = (TESTS / area).rglob("*.py")
        assert any(f"def {name}(" in path.read_text() for path in files), f"{sentence}: {where}"
