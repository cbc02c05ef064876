"""Who started a container, and whether that process still lives: only what is certain counts."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from agentv_sandbox.engines import owner as module
from agentv_sandbox.engines.owner import Owner

NEITHER = (False, False)
_NEW_USER, _NEW_PID = 0x10000000, 0x20000000


def fate(owner: Owner) -> tuple[bool, bool]:
    return owner.alive(), owner.dead()


def test_this_process_lives_and_its_label_says_who_it_is() -> None:
    me = Owner.current()
    assert fate(me) == (True, False)
    assert Owner.parse(str(me)) == me
    namespace = Path("/proc/self/ns/pid").stat().st_ino
    assert me.boot.endswith(f"/{namespace}")
    assert me.boot.startswith(Path("/proc/sys/kernel/random/boot_id").read_text().strip())


def test_a_process_of_the_same_number_that_started_later_is_another() -> None:
    me = Owner.current()
    assert fate(replace(me, started=me.started - 1)) == (False, True)


@pytest.mark.parametrize("name", ["plain", "a) S 1 2", "((", "))"])
def test_a_process_lives_until_it_ends_whatever_it_calls_itself(name: str, tmp_path: Path) -> None:
    program = tmp_path / name
    shutil.copy(shutil.which("sleep") or "/bin/sleep", program)
    me = Owner.current()
    with subprocess.Popen([program, "60"]) as child:
        try:
            other = Owner(me.boot, child.pid, module._start_time(child.pid))
            alive = fate(other)
        finally:
            child.kill()
            child.wait()
    assert me.started <= other.started < me.started + 100 * 3600
    assert (alive, fate(other)) == ((True, False), (False, True))


@pytest.mark.parametrize("label", ["", "x", "a:b", "boot:one:2", "boot:1:2:3", "boot:1:two"])
def test_invalid_label_proves_nothing(label: str) -> None:
    assert fate(Owner.parse(label)) == NEITHER


def test_other_machines_and_namespaces_say_nothing() -> None:
    me = Owner.current()
    for boot in ("", "another", me.boot.split("/")[0], f"{me.boot}0"):
        assert fate(replace(me, boot=boot)) == NEITHER
        assert fate(Owner(boot, 2**22 + 1, 1)) == NEITHER


def test_what_was_forked_into_another_namespace_is_on_another_machine() -> None:
    """Numbers of its processes are others, though it knows what this process knew."""
    me, (reads, writes) = Owner.current(), os.pipe()
    if (pid := os.fork()) == 0:
        failed = ctypes.CDLL(None).unshare(_NEW_USER | _NEW_PID)
        if not failed and (inside := os.fork()) == 0:
            os.write(writes, Owner.current().boot.encode())
            os._exit(0)
        os._exit((failed and 1) or os.waitpid(inside, 0)[1])
    os.close(writes)
    assert os.waitpid(pid, 0)[1] == 0
    with os.fdopen(reads) as said:
        assert said.read() not in ("", me.boot)


def test_no_owner_is_dead_without_proc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no /proc, every label lacks its first part."""
    monkeypatch.setattr(module, "_boot_id", lambda: "")
    monkeypatch.setattr(module, "_start_time", lambda _pid: -1)
    for owner in (Owner.current(), Owner("", 2**22 + 1, 1), Owner.parse("")):
        assert fate(owner) == NEITHER
