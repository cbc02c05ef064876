"""Whose limit an agent met, from what its volumes and its last words say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agentv_sandbox.models.case import FileEntry
from agentv_sandbox.models.container import ExecResult, Limits, Outcome
from agentv_sandbox.steps.limits_met import limits_met
from agentv_sandbox.workspace.collect import Collected, Space

MB = 1 << 20


def ended(said: bytes = b"", code: int = 1, outcome: Outcome = "exited") -> ExecResult:
    return ExecResult(outcome=outcome, exit_code=code, stdout=b"", stderr=said)


def left(*, free: int = MB, free_inodes: int = 5, root: str = "/workspace", size: int = 0) -> Collected:
    entry = FileEntry(path=b"big\n.bin", kind="file", size=size)
    space = Space(size_bytes=512 * MB, free_bytes=free, inodes=50_000, free_inodes=free_inodes)
    return Collected(roots={root: {entry.path: entry}}, skipped=(), space={root: space})


def test_processes_that_the_kernel_refused_are_reported_whatever_the_agent_says() -> None:
    result = replace(ended(code=0), refused_processes=3)
    (met,) = limits_met(result, left(), Limits(pids=64), on_disk=False)
    assert met == (
        "the agent may have 64 processes at once, and wanted more; limits.pids or --pids allows more"
    )


def test_no_limit_is_reported_without_evidence() -> None:
    assert limits_met(ended(b"KeyError: 28", 1), left(), Limits(), on_disk=False) == ()
    assert (
        limits_met(ended(b"No space left on device, said the test", 0), left(), Limits(), on_disk=False) == ()
    )


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (left(free=0), ("/workspace is full, with 512 MiB", "limits.workspace_size", "--workspace-size")),
        (left(free_inodes=0), ("/workspace is full, with 50000 files", "limits.workspace_files")),
        (left(free=0, root="/output"), ("/output is full", "belong in /workspace")),
        (left(size=256 * MB), ("big\\x0a.bin ended at 256 MiB",)),
    ],
)
def test_full_volume_is_named_whatever_the_agent_printed(found: Collected, words: tuple[str, ...]) -> None:
    for result in (ended(code=0), ended(b"oops"), ended(outcome="timeout", code=-1)):
        (met,) = limits_met(result, found, Limits(), on_disk=False)
        assert all(word in met for word in words), met


@pytest.mark.parametrize(
    "said", [b"OSError: [Errno 28] x", b"Error: ENOSPC: no", b"cp: No space left on device", b"(os error 28)"]
)
def test_room_that_is_there_again_was_perhaps_in_tmp(said: bytes) -> None:
    (met,) = limits_met(ended(said), left(), Limits(), on_disk=False)
    assert "/tmp, which holds 128 MiB" in met and "limits.workspace_size" in met


@pytest.mark.parametrize(
    "result", [ended(b"[Errno 27] File too large"), ended(b"EFBIG: x"), ended(b"", 128 + 25)]
)
def test_a_file_that_was_too_large_and_is_gone(result: ExecResult) -> None:
    (met,) = limits_met(result, left(), Limits(), on_disk=False)
    assert "at most 256 MiB each" in met


def test_a_workspace_on_disk_has_no_limit_to_raise() -> None:
    (met,) = limits_met(ended(b"x"), left(free=0), Limits(), on_disk=True)
    assert "disk" in met and "limits." not in met
    (met,) = limits_met(ended(b"ENOSPC"), left(), Limits(), on_disk=True)
    assert "limits.workspace" not in met
