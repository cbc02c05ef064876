"""An audit is a run: on workers it finds what it finds here."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests import forkserver
from tests.e2e.conftest import Project

pytestmark = [pytest.mark.slow, pytest.mark.engine, pytest.mark.native, pytest.mark.xdist_group("cluster")]
SUITE = """
name: audited
execution: {target: agent}
tests:
  - {id: sound, criteria: c, input: go, expected_output: Lima, assertions: [{type: equals, value: Lima}]}
  - {id: believes, criteria: c, input: go, assertions: [{type: icontains, value: success}]}
"""


def _audited(project: Project, *args: str) -> dict[str, Any]:
    agents = [word for name in ("silent", "claims", "oracle") for word in ("--agent", name)]
    argv = [*project.argv("audit"), "s.eval.yaml", "--json", *agents, *args]
    done = forkserver.run(argv, cwd=project.folder, env=project.env(), timeout=300)
    assert done.returncode == 1, done.stderr
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def test_an_audit_on_workers_finds_what_it_finds_here(project: Project) -> None:
    project.write({"s.eval.yaml": SUITE})
    here, there = _audited(project), _audited(project, "--cluster", "local:1")
    assert here["line"] == there["line"] == "audited: 2 tests, 1 passed without being solved, 1 of 1 oracle"
    found = [[(each["test"], each["rule"]) for each in report["findings"]] for report in (here, there)]
    assert found[0] == found[1] == [("believes", "claim-believed")]
    (agent,) = there["findings"][0]["agents"]
    assert (project.folder / there["run"] / agent["artifact_dir"]).is_dir()
