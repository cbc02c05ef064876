"""A box for one's own program, on every engine: commands, files in and out, and a certain end."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import agentv_sandbox
from agentv_sandbox import LimitOverrides, Needs, Session
from agentv_sandbox.base.errors import (
    Cancelled,
    ImageRequestError,
    InputError,
    SandboxError,
)
from agentv_sandbox.engines import LABEL_OWNER, ContainerEngine


@pytest.fixture(scope="module")
def session(engine: ContainerEngine, tool_image: str) -> Iterator[Session]:
    assert tool_image
    limits = LimitOverrides(memory_bytes=128 << 20, workspace_bytes=4 << 20)
    with agentv_sandbox.open_session(
        engine=engine.info().kind, files={"in/data.txt": b"three"}, limits=limits
    ) as opened:
        yield opened


@pytest.mark.engine
@pytest.mark.every_engine
def test_commands_share_a_workspace_that_files_are_put_into_and_read_from(
    session: Session, tmp_path: Path
) -> None:
    program = tmp_path / "program.sh"
    program.write_text("#!/bin/sh\ncat; cat in/data.txt; echo $WORD > out.txt; pwd")
    program.chmod(0o755)
    session.put({"program.sh": program})
    done = session.exec(["./program.sh"], stdin=b"one two ", env={"WORD": "four"})
    assert (done.ok, done.stdout) == (True, b"one two three/workspace\n"), done.stderr
    assert session.get("out.txt") == session.get("/workspace/out.txt") == b"four\n"
    failed = session.exec("echo no >&2; exit 3")
    assert (failed.outcome, failed.exit_code, failed.stderr) == ("exited", 3, b"no\n")


@pytest.mark.engine
@pytest.mark.every_engine
def test_many_run_at_a_time_each_with_limits_of_its_own_and_nothing_goes_on(session: Session) -> None:
    short = LimitOverrides(timeout_s=1.5)
    commands = {
        "(setsid sleep 600 &); sleep 600": short,
        "yes": LimitOverrides(timeout_s=1.5, output_bytes=1000),
        "echo done; (setsid sh -c 'sleep 1; echo late > /workspace/late' &)": LimitOverrides(),
        "python3 -c 'b\"x\" * (300 << 20)'": LimitOverrides(timeout_s=60),
    }
    with ThreadPoolExecutor(4) as pool:
        slow, chatty, background, large = pool.map(
            lambda each: session.exec(each[0], limits=each[1]), commands.items()
        )
    assert slow.outcome == "timeout"
    assert chatty.outcome in ("timeout", "flood") and len(chatty.stdout) <= 1000
    assert (background.outcome, background.stdout) == ("exited", b"done\n")
    assert large.outcome == "oom"
    time.sleep(1.2)
    with pytest.raises(SandboxError, match=r"late cannot be read: No such file"):
        session.get("late")


@pytest.mark.engine
@pytest.mark.every_engine
def test_what_a_command_left_in_a_files_place_leads_nowhere(session: Session) -> None:
    session.exec(
        "ln -s /etc/passwd link; mkfifo pipe; ln -s /etc etc; mkdir folder; truncate -s 200M holes; mkfifo put; "
        "ln -s /proc/self/environ put2; echo private > closed; chmod 0 closed"
    )
    assert session.get("closed") == b"private\n"
    for path, reason in {
        "link": "symbolic link",
        "pipe": "not a regular file",
        "etc/passwd": "Not a directory",
        "folder": "not a regular file",
        "holes": "larger than 67108864 bytes",
        "missing/x": "No such file",
    }.items():
        with pytest.raises(SandboxError, match=reason):
            session.get(path)
    session.put({"put": b"1", "put2": b"2", "new/deep/file": b"3"})
    assert session.exec("cat put put2 new/deep/file; stat -c %U put; id -un").stdout[:3] == b"123"
    with pytest.raises(SandboxError, match="No space left"):
        session.put({"big": b"x" * (5 << 20)})
    with pytest.raises(SandboxError, match="cannot be put"):
        session.put({"folder": b"x"})


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "", ".", "a/../../x", "a\0b", "/workspace"])
def test_a_path_that_leads_out_of_the_workspace_is_refused(path: str) -> None:
    with pytest.raises(InputError, match="not a file of the workspace"):
        agentv_sandbox.open_session(files={path: b""}, environ={})


def test_what_cannot_be_provided_is_refused_before_an_engine_is_asked() -> None:
    with pytest.raises(ImageRequestError, match="no-such-command-anywhere"):
        agentv_sandbox.open_session(
            needs=Needs(required_commands=("no-such-command-anywhere",)),
            environ={"DOCKER_HOST": "unix:///nowhere"},
        )


@pytest.mark.engine
@pytest.mark.every_engine
def test_the_end_is_certain(engine: ContainerEngine, tool_image: str) -> None:
    assert tool_image
    opened = agentv_sandbox.open_session(engine=engine.info().kind)
    begun, ended = threading.Event(), threading.Event()

    def run() -> None:
        with pytest.raises(Cancelled):
            opened.exec("echo begun; sleep 600", on_output=lambda _chunk: begun.set())
        ended.set()

    thread = threading.Thread(target=run)
    thread.start()
    assert begun.wait(60)
    opened.close()
    opened.close()
    thread.join(60)
    assert ended.is_set()
    for ask in (lambda: opened.exec("true"), lambda: opened.get("x"), lambda: opened.put({"x": b""})):
        with pytest.raises(SandboxError, match="the session is closed"):
            ask()


_ENDLESS = """
import os, sys, agentv_sandbox
session = agentv_sandbox.open_session(engine="native")
session.exec("echo begun; sleep 600", on_output=lambda chunk: print("begun", flush=True))
"""


@pytest.mark.engine
@pytest.mark.native
def test_nothing_outlives_a_killed_process(engine: ContainerEngine, tool_image: str) -> None:
    assert tool_image
    with subprocess.Popen([sys.executable, "-c", _ENDLESS], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "begun\n"
        mark = f":{process.pid}:"
        assert any(mark in obj.labels.get(LABEL_OWNER, "") for obj in engine.owned({LABEL_OWNER: None}))
        os.kill(process.pid, signal.SIGKILL)
    limit = time.monotonic() + 30
    while any(mark in obj.labels.get(LABEL_OWNER, "") for obj in engine.owned({LABEL_OWNER: None})):
        assert time.monotonic() < limit
        time.sleep(0.1)


@pytest.mark.engine
@pytest.mark.every_engine
def test_the_page_does_what_it_says(
    engine: ContainerEngine, tool_image: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert tool_image and os.environ["AGENTV_SANDBOX_ENGINE"] == engine.info().kind
    page = (Path(__file__).parents[2] / "docs/how-to/sessions.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    exec(code, {})
    assert capsys.readouterr().out.split("\n")[0] == "exited 0 7"
