"""The same suites in AgentV and here: same tests, same resolved inputs, same order."""

from __future__ import annotations

import pytest

from agentv_sandbox.loading import load_suites
from tests.agentv import agentv_modules

from .agentv_oracle import ENVIRON, SUITES, differences


@pytest.mark.slow
def test_agentv_loads_the_same() -> None:
    assert differences(agentv_modules(), SUITES) == []


def test_the_compared_suites_load_without_a_problem() -> None:
    paths = [p for p in sorted(SUITES.glob("[0-9]*")) if p.name != "08-lines.yaml"]
    assert len(paths) >= 10
    result = load_suites(paths, cwd=SUITES, environ={**ENVIRON, "ORACLE_ABSENT": ""})
    assert result.errors == ()
    compared, temperature, unknown, unfilled = result.problems
    assert unfilled.warning and "{{ n }} is not filled in here" in unfilled.message
    assert unknown.warning and "{{ unknown }} is not a variable of this test" in unknown.message
    assert compared.warning and "field-accuracy compares with expected_output" in compared.message
    # AgentV takes it without a word, and it has no effect there either.
    assert temperature.field == "tests[0].assertions[17].temperature"
