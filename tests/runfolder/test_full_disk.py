"""Why a run ended is written also where a full disk is why."""

from __future__ import annotations

import errno
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentv_sandbox.base.errors import NoSpaceError, SandboxError, unforeseen
from agentv_sandbox.cli.common import show_error
from agentv_sandbox.runfolder.folder import RunFolder


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", place], check=True)
    yield place
    subprocess.run(["umount", place], check=True)


def fill(disk: Path) -> None:
    with (disk / "filler").open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        while True:
            file.write(b"x" * 4096)


def test_the_end_is_noted_where_there_is_no_room_for_a_byte(
    disk: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with RunFolder.create(disk / "run", disk) as folder:
        folder.write_run({"tool": "x", "long": "y" * 9000})
        fill(disk)
        with pytest.raises(NoSpaceError) as full:
            folder.write_changes({}, [])
        folder.note_end(full.value.fault)
        facts = json.loads((folder.path / "run.json").read_text())
        assert (facts["ended"], facts["long"]) == ("no_space", "y" * 9000)
    assert [path.name for path in folder.path.glob(".*")] == [".lock"]
    show_error(full.value)
    assert capsys.readouterr().err.splitlines()[-1] == "fault: no_space"


def test_a_full_disk_is_that_wherever_it_is_met() -> None:
    for number in (errno.ENOSPC, errno.EDQUOT):
        assert isinstance(unforeseen(OSError(number, os.strerror(number))), NoSpaceError)
    assert unforeseen(OSError(errno.EIO, "x")).fault == SandboxError.fault
