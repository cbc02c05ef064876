"""Whatever fails at the end of a run: the folder is completed and masked, the exit status is 3, one message."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import time
from pathlib import Path
from unittest.mock import patch

import pytest

from agentv_sandbox.base.deadline import Deadline, cancelled_by
from agentv_sandbox.base.errors import SandboxError
from agentv_sandbox.report import kept_views, page
from agentv_sandbox.rows.redact import Redactor
from agentv_sandbox.runfolder.folder import RunFolder
from tests.fake_engine import finished
from tests.hostile.harness import (
    COMPLETE,
    SECRET,
    TRACEBACK,
    Outcome,
    answering,
    leaks,
    run_command,
    write_project,
)
from tests.pagedata import details_of, index_of, page_text
from tests.report.pages import write_page

ANSWERS = {"a": b'{"text": "done"}', "b": b'{"text": "also done"}'}
GRADERS = "\n  - {type: contains, value: done}"
FILES = {"key.txt": b"the key is " + SECRET.encode() + b"\n"}
PARTS = {
    "benchmark.json": "rows.aggregate.Aggregate.benchmark",
    "timing.json": "rows.aggregate.Aggregate.timing",
    "report.html": "report.page.render",
    "junit.xml": "report.views.junit.junit",
}


def run(folder: Path, *args: str) -> Outcome:
    write_project(folder, list(ANSWERS), graders=GRADERS)
    commands = {"agent": answering(ANSWERS, FILES), "grader": lambda _run: finished()}
    return run_command(folder, *args, commands=commands)


@pytest.mark.parametrize("missing", PARTS)
def test_a_failing_part_costs_no_other_part(tmp_path: Path, missing: str) -> None:
    def fail(*_args: object, **_keys: object) -> None:
        raise OverflowError(f"too large: {SECRET}")

    with patch(f"agentv_sandbox.{PARTS[missing]}", fail):
        outcome = run(tmp_path)
    assert outcome.code == 3
    assert [name for name in COMPLETE if not (outcome.folder / name).is_file()] == [missing]
    assert outcome.stderr.count("error ") == 1, outcome.stderr
    assert f"{missing}: OverflowError: too large: [redacted]" in outcome.stderr
    assert "RESULT: PASS" in outcome.stdout
    assert not TRACEBACK.search(outcome.stdout + outcome.stderr)
    assert leaks(outcome.folder) == []


def test_a_failing_summary_is_one_message(tmp_path: Path) -> None:
    with patch("agentv_sandbox.cli.run.summary", side_effect=ValueError(SECRET)):
        outcome = run(tmp_path)
    assert outcome.code == 3
    assert all((outcome.folder / name).is_file() for name in COMPLETE)
    assert "ValueError: [redacted]" in outcome.stderr and not TRACEBACK.search(outcome.stderr)
    assert leaks(outcome.folder) == []


def test_a_result_that_cannot_be_written_costs_no_other(tmp_path: Path) -> None:
    from agentv_sandbox.runfolder import casefiles

    write = casefiles.write

    def fail_once(directory: Path, result: object, *args: object, **keys: object) -> object:
        if result.case_id == "a" and result.output is not None:  # type: ignore[attr-defined]
            raise RecursionError(SECRET)
        return write(directory, result, *args, **keys)  # type: ignore[arg-type]

    with patch("agentv_sandbox.runfolder.casefiles.write", fail_once):
        outcome = run(tmp_path)
    assert outcome.code == 3
    outcome.check(2)
    assert outcome.rows["a"]["execution_status"] == "execution_error"
    assert outcome.rows["a"]["failure_reason_code"] == "report_error"
    assert outcome.rows["b"]["execution_status"] == "ok"
    assert json.loads((outcome.folder / "benchmark.json").read_text())["metadata"]["tests_run"] == ["a", "b"]


def test_a_progress_display_that_fails_ends_the_run_with_a_complete_folder(tmp_path: Path) -> None:
    with patch("agentv_sandbox.report.progress.Progress._case_finished", side_effect=ValueError(SECRET)):
        outcome = run(tmp_path, "--workers", "1")
    assert outcome.code == 3
    assert [name for name in COMPLETE if not (outcome.folder / name).is_file()] == []
    assert "ended early" in outcome.stdout
    assert outcome.stderr.count("ValueError") == 1 and not TRACEBACK.search(outcome.stderr)
    assert leaks(outcome.folder) == []


def test_a_file_that_cannot_be_masked_costs_no_other(tmp_path: Path) -> None:
    masked = Redactor.data_file

    def fail_once(self: Redactor, path: Path, budget: Deadline) -> bool:
        if b"locked" in path.read_bytes():
            raise PermissionError(13, "Permission denied")
        return masked(self, path, budget)

    write_project(tmp_path, list(ANSWERS), graders=GRADERS)
    files = FILES | {f"f{n}": f"{n} {SECRET}".encode() for n in range(5)} | {"locked": b"locked"}
    commands = {"agent": answering(ANSWERS, files)}
    with patch.object(Redactor, "data_file", fail_once):
        outcome = run_command(tmp_path, commands=commands)
    assert outcome.code == 3
    assert "may still hold a secret (Permission denied)" in outcome.stderr
    outcome.check(2)


@pytest.mark.slow
def test_a_full_disk_does_not_keep_secrets(tmp_path: Path) -> None:
    """The masked copy has no room: a file of 40 MiB on a disk with 8 MiB left."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=48m", "tmpfs", disk], check=True)
    try:
        path = disk / "blob"
        path.write_bytes(os.urandom(20 << 20) + SECRET.encode() + os.urandom(20 << 20))
        size = path.stat().st_size
        assert Redactor([SECRET]).data_file(path)
        assert SECRET.encode() not in path.read_bytes()
        assert path.stat().st_size == size
        assert sorted(entry.name for entry in disk.iterdir()) == ["blob"]
    finally:
        subprocess.run(["umount", disk], check=True)


def test_masking_keeps_a_files_mode_and_masks_what_is_between_secrets(tmp_path: Path) -> None:
    path = tmp_path / "blob"
    path.write_bytes(b"a" * (3 << 20) + SECRET.encode() * 2 + b"b" + SECRET.encode())
    path.chmod(0o750)
    assert Redactor([SECRET]).data_file(path)
    assert path.read_bytes() == b"a" * (3 << 20) + b"[redacted]"
    assert stat.S_IMODE(path.stat().st_mode) == 0o750
    assert not Redactor([SECRET]).data_file(path)


@pytest.mark.slow
def test_the_end_of_an_interrupted_run_takes_seconds_and_leaves_no_secret(tmp_path: Path) -> None:
    """Looking for forty secrets in half a gigabyte takes a minute."""
    secrets = [f"secret-{n:02}-{'x' * n}" for n in range(40)]
    before = cancelled_by(lambda: True)
    try:
        with RunFolder.create(tmp_path / "run", tmp_path, redactor=Redactor(secrets)) as folder:
            text = f"the key is {secrets[7]}\n".encode()
            small = folder.artifacts / "sha256" / "0"
            small.write_bytes(text)
            for number in range(1, 9):
                (folder.artifacts / "sha256" / str(number)).write_bytes((b"secret- x" * 1000 + text) * 7000)
            started = time.process_time()
            with pytest.raises(SandboxError, match=r"[78] of them were removed: the run was interrupted"):
                folder.finish(views=kept_views())
            assert time.process_time() - started < 20
    finally:
        cancelled_by(before)
    assert all((folder.path / name).is_file() for name in ("benchmark.json", "report.html", "junit.xml"))
    assert small.read_bytes() == b"the key is [redacted]\n"
    for path in (folder.artifacts / "sha256").iterdir():
        assert secrets[7].encode() not in path.read_bytes()


def test_tests_without_time_stand_in_the_page_without_their_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = run(tmp_path)
    monkeypatch.setattr(page, "PAGE_S", -1.0)
    shown = write_page(outcome.folder)
    assert [test["note"].startswith("Not read, since time ran out") for test in details_of(shown)] == [
        True
    ] * len(ANSWERS)
    assert "also done" not in page_text(shown)
    assert [row["verdict"] for row in index_of(shown)["rows"]].count("pass") == len(ANSWERS)
