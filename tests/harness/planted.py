"""Tests that fail, each in another way. ``test_harness.py`` runs them: every one is named, and nothing is left."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

SLEEP = ("sleep", "600")
"""What outlives its test, unless somebody ends it."""


def test_assert() -> None:
    assert [1] == [2]


@pytest.fixture
def broken() -> None:
    raise RuntimeError("a fixture's fault")


def test_fixture(broken: None) -> None: ...


@pytest.fixture
def breaking_later() -> Iterator[None]:
    yield
    raise RuntimeError("a fixture's fault at its end")


def test_fixture_end(breaking_later: None) -> None: ...


def test_exception_with_a_child() -> None:
    subprocess.Popen(SLEEP)
    raise ValueError("between start and stop")


@pytest.mark.timeout(2)
def test_hang() -> None:
    time.sleep(600)


@pytest.mark.timeout(2)
def test_hang_in_a_child() -> None:
    subprocess.run([sys.executable, "-c", "import time; time.sleep(600)"], check=True)


@pytest.mark.timeout(2)
def test_hang_in_a_thread_that_is_joined() -> None:
    thread = threading.Thread(target=time.sleep, args=(600,), daemon=True)
    thread.start()
    thread.join()


@pytest.mark.timeout(2)
def test_hang_in_an_event_loop() -> None:
    asyncio.run(asyncio.sleep(600))


@pytest.mark.timeout(1)
def test_time_that_is_over_while_its_failure_is_written() -> None:
    class Slow(Exception):
        @property
        def __notes__(self) -> list[str]:
            time.sleep(2)
            return []

    raise Slow


@pytest.mark.timeout(2)
def test_hang_that_swallows_everything() -> None:
    until = time.monotonic() + 4
    while time.monotonic() < until:
        try:
            time.sleep(600)
        except BaseException:
            continue


@pytest.mark.timeout(2)
def test_hang_in_native_code() -> None:
    """Without giving up the interpreter's lock: no handler of a signal runs."""
    ctypes.PyDLL(None).sleep(600)


def test_killed_worker() -> None:
    subprocess.Popen(SLEEP)
    os.kill(os.getpid(), signal.SIGKILL)


def test_exit() -> None:
    os._exit(0)


def test_system_exit() -> None:
    sys.exit(0)


def test_crash_in_native_code() -> None:
    ctypes.string_at(0)


def test_a_child_is_left_behind() -> None:
    subprocess.Popen(SLEEP)


def test_an_orphan_is_left_behind() -> None:
    subprocess.run(["sh", "-c", "setsid sleep 600 >/dev/null 2>&1 &"], check=True)


def test_a_child_that_ignores_being_ended() -> None:
    subprocess.Popen([sys.executable, "-c", "import signal, time; signal.signal(15, 1); time.sleep(600)"])


def test_recursion() -> None:
    def again() -> None:
        again()

    again()


def test_full_disk(tmp_path: Path) -> None:
    """As a full disk: a write that fails half-way."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        (tmp_path / "file").write_bytes(bytes(8192))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_exception_where_nobody_looks() -> None:
    class Broken:
        def __del__(self) -> None:
            raise ValueError("in a destructor")

    Broken()
    gc.collect()


def test_unreadable_folder(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir(mode=0)
    raise AssertionError("what it made cannot be read")
