"""Two runs at once, readers beside a run, and a disk that fills up: real processes, engine and file system."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from agentv_sandbox.rows.record import Row
from agentv_sandbox.rows.rows import is_as_written
from tests import forkserver
from tests.agentv import agentv_command
from tests.e2e.conftest import Project
from tests.started import Started

pytestmark = pytest.mark.engine

TARGETS = """
targets:
  - {name: agent, provider: cli, command: 'sh agent.sh {EVAL_ID} {OUTPUT_FILE}', timeout_seconds: 60}
"""
AGENT = """
case $1 in
  slow) sleep 20 ;;
  big*) head -c 12000000 /dev/urandom > big.bin ;;
esac
echo done > $2
"""
TEST = "  - {id: %s, criteria: c, input: go, assert: [{type: contains, value: done}]}\n"


def write(project: Project, *names: str, head: str = "") -> None:
    text = f"name: s\nexecution: {{target: agent, workers: 1}}\n{head}tests:\n"
    text += "".join(TEST % name for name in names)
    project.write({".agentv/targets.yaml": TARGETS, "agent.sh": AGENT, "s.eval.yaml": text})


def call(
    project: Project, *words: str, argv: Sequence[str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Our command, or that of ``argv``."""
    if argv is None:
        return forkserver.run(project.argv(*words), cwd=project.folder, env=project.env(), timeout=200)
    return subprocess.run(
        argv,
        cwd=project.folder,
        env=project.env(),
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )


def rows(folder: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (folder / "index.jsonl").read_text().splitlines()]


def test_a_second_run_and_readers_beside_a_run(project: Project) -> None:
    write(project, "first", "slow")
    with project.start("s.eval.yaml") as process:
        limit = time.monotonic() + 90
        while not (project.output / "index.jsonl").exists() or not rows(project.output):
            assert process.poll() is None and time.monotonic() < limit
            time.sleep(0.1)
        other = project.argv("run", "s.eval.yaml", "-o", "other", "--test-id", "first")
        elsewhere = Started(other, cwd=project.folder, env=project.env())
        for more in ((), ("--resume",)):
            refused = call(project, "run", "s.eval.yaml", "-o", "out", *more)
            assert process.poll() is None
            said = " ".join(refused.stderr.split())
            assert (refused.returncode, "is in use: another run" in said) == (2, True), refused.stderr
        shutil.copytree(project.output, project.folder / "before", ignore=shutil.ignore_patterns(".lock"))
        compared = call(project, "compare", "before", "out")
        assert (compared.returncode, "1 test: 1 did not change" in compared.stdout) == (0, True)
        before = len(rows(project.output))
        read = call(project, argv=[*agentv_command(), "results", "summary", "out"])
        # A busy machine may have ended the other test by now.
        assert before <= json.loads(read.stdout)["total"] <= len(rows(project.output)), read.stderr
        assert process.poll() is None
        assert elsewhere.wait(120) == 0
        text, _ = process.communicate(timeout=120)
    assert process.returncode == 0, text
    assert [row["test_id"] for row in rows(project.output)] == ["first", "slow"]
    assert [row["test_id"] for row in rows(project.folder / "other")] == ["first"]
    assert all(is_as_written(Row.of(row)[0]) for row in rows(project.output))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", place], check=True)
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_run_whose_disk_is_full_goes_on_when_there_is_space(project: Project, disk: Path) -> None:
    write(project, "first", "big1", "big2", "last")
    output = str(disk / "run")
    ended = call(project, "run", "s.eval.yaml", "-o", output)
    assert ended.returncode == 3, ended.stdout + ended.stderr
    assert "No space left on device" in ended.stderr
    assert ended.stderr.splitlines()[-1] == "fault: no_space"
    assert json.loads((disk / "run" / "run.json").read_text())["ended"] == "no_space"
    before = (disk / "run" / "index.jsonl").read_bytes()
    kept = rows(disk / "run")
    assert (
        before.endswith(b"\n")
        and kept[0]["test_id"] == "first"
        and all(is_as_written(Row.of(row)[0]) for row in kept)
    )
    assert len(kept) < 4 and {row["execution_status"] for row in kept} == {
        "ok"
    }  # what has a row was finished
    subprocess.run(["mount", "-o", "remount,size=80m", disk], check=True)
    done = call(project, "run", "s.eval.yaml", "-o", output, "--resume")
    assert done.returncode == 0, done.stdout + done.stderr
    after = rows(disk / "run")
    assert sorted(str(row["test_id"]) for row in after) == ["big1", "big2", "first", "last"]
    assert after[: len(kept)] == kept
    assert "ended" not in json.loads((disk / "run" / "run.json").read_text())
    assert not [path for path in (disk / "run").rglob(".*") if path.name != ".lock"]


def test_rows_and_trials_that_were_edited_are_run_again(project: Project) -> None:
    hooks = "workspace: {isolation: shared, hooks: {after_all: {command: [sh, -c, 'true']}}}\n"
    write(project, "a", "b")
    project.write({"t.eval.yaml": f"name: t\nexecution: {{target: agent}}\n{hooks}tests:\n{TEST % 'c'}"})
    both = ("run", "s.eval.yaml", "t.eval.yaml", "-o", "out")
    assert call(project, *both).returncode == 0
    index = project.output / "index.jsonl"
    first, second, third = index.read_text().splitlines()
    edited = json.dumps({**json.loads(second), "score": 0.9})
    index.write_text(f"{first}\n{edited}\n{third}\n")
    done = call(project, *both, "--resume")
    assert "run again, their rows or files are no longer as they were written: b" in done.stdout, done.stderr
    assert "after_all was not run by this part of the run" in done.stdout
    assert index.read_text().splitlines()[:2] == [first, third]
    assert [(row["test_id"], row["score"]) for row in rows(project.output)] == [
        ("a", 1.0),
        ("c", 1.0),
        ("b", 1.0),
    ]
