"""The same suites in AgentV and here: same tests, same resolved inputs, same order."""

from __future__ import annotations

import pytest

from agentv_sandbox.load import load_suites

from .agentv_oracle import ENVIRON, SUITES, differences, node_modules


@pytest.mark.skipif(node_modules() is None, reason="AGENTV_NODE_MODULES names no installation of AgentV")
def test_agentv_loads_the_same() -> None:
    modules = node_modules()
    assert modules is not None
    assert differences(modules, SUITES) == []


def test_the_compared_suites_load_without_a_problem() -> None:
    paths = [p for p in sorted(SUITES.glob("[0-9]*")) if p.name != "08-lines.yaml"]
    assert len(paths) >= 10
    result = load_suites(paths, cwd=SUITES, environ={**ENVIRON, "ORACLE_ABSENT": ""})
    assert [str(p) for p in result.problems] == []
