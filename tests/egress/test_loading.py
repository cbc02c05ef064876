"""What the proxy would refuse is said before anything runs, with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentv_sandbox.load import load_suites

SUITE = """\
tests:
  - id: one
    criteria: good
    input: hello
execution:
  target: agent
"""
TARGETS = """\
targets:
  - name: agent
    provider: cli
    command: ./agent.sh {PROMPT}
"""

WRONG = [
    ("    network:\n      allow: ['example.com:https']\n", "no port number"),
    ("    network:\n      allow: ['*.example.com:443']\n", "no host name"),
    ("    secrets:\n      MODEL_KEY: {header: X-Key}\n", "secrets.MODEL_KEY.host: Field required"),
    (
        "    secrets:\n      MODEL_KEY: {host: api.example.com, heder: X}\n",
        "secrets.MODEL_KEY.heder: Extra inputs",
    ),
]


@pytest.mark.parametrize(("lines", "message"), WRONG)
def test_an_entry_that_is_none(lines: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "targets.yaml").write_text(TARGETS + lines)
    suite = tmp_path / "suite.eval.yaml"
    suite.write_text(SUITE)
    result = load_suites([suite], environ={}, cwd=tmp_path)
    problem = next(p for p in result.problems if not p.warning)
    assert message in problem.message
    assert (problem.path, problem.line) == (tmp_path / "targets.yaml", 6)


def test_an_entry_of_the_suite(tmp_path: Path) -> None:
    (tmp_path / "targets.yaml").write_text(TARGETS)
    suite = tmp_path / "suite.eval.yaml"
    suite.write_text(SUITE + "network:\n  allow:\n    - 127.1:80\n")
    result = load_suites([suite], environ={}, cwd=tmp_path)
    assert [p.line for p in result.problems if not p.warning and "unusual spelling" in p.message] == [9]
