"""``pack``, ``unpack`` and ``verify`` with the folder of a real run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import forkserver
from tests.e2e.conftest import Done, Project

pytestmark = pytest.mark.engine

SUITE = """\
execution: {target: agent}
tests:
  - {id: t, criteria: c, input: go, assert: [{type: contains, value: yes}]}
"""
TARGETS = "targets: [{name: agent, provider: cli, command: 'sh agent.sh {OUTPUT_FILE}'}]\n"


def command(project: Project, *args: str, cwd: Path) -> Done:
    argv = project.argv(*args)
    done = forkserver.run(argv, cwd=cwd, env=project.env(), timeout=60)
    return Done(done.returncode, done.stdout, done.stderr, cwd)


def test_a_run_is_packed_checked_and_unpacked_elsewhere(project: Project, tmp_path: Path) -> None:
    agent = "echo left > left.txt; echo yes > $1\n"
    project.write({"s.eval.yaml": SUITE, ".agentv/targets.yaml": TARGETS, "agent.sh": agent})
    assert project.run("s.eval.yaml").code == 0
    done = command(project, "pack", "out", cwd=project.folder)
    assert done.code == 0, done.stderr
    digest = done.stdout.split()[-1]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (project.folder / "out.run.tar.zst").rename(elsewhere / "out.run.tar.zst")

    assert command(project, "verify", "out.run.tar.zst", "--digest", digest, cwd=elsewhere).code == 0
    done = command(project, "unpack", "out.run.tar.zst", cwd=elsewhere)
    assert done.code == 0 and done.stdout.split()[-1] == digest
    done = command(project, "compare", str(project.output), "out", cwd=elsewhere)
    assert done.code == 0 and "1 test: 1 did not change" in done.stdout

    index = elsewhere / "out" / "index.jsonl"
    index.write_text(index.read_text().replace('"score":1', '"score":0'))
    done = command(project, "verify", "out", cwd=elsewhere)
    assert done.code == 1 and "altered: index.jsonl: was altered" in done.stderr

    command(project, "pack", "out", cwd=elsewhere)  # refused: there is such a file
    (elsewhere / "out.run.tar.zst").unlink()
    command(project, "pack", "out", cwd=elsewhere)  # with sums of its own
    assert command(project, "verify", "out.run.tar.zst", cwd=elsewhere).code == 0
    done = command(project, "verify", "out.run.tar.zst", "--digest", digest, cwd=elsewhere)
    assert done.code == 1 and "SHA256SUMS: is not the one that --digest names" in done.stderr
