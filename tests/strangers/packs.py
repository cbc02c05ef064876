"""Packed runs and run folders as a stranger writes them, and the command line in this process over them."""

from __future__ import annotations

import hashlib
import io
import json
import os
import signal
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import zstandard

from agentv_sandbox.rows.layout import FACTS, SUMS, TASKS
from tests.hostile.harness import answering, invoke, run_command, write_project

GRADERS = "\n  - {type: contains, value: done}"
COMMANDS = {"agent": answering({"good": b'{"text": "done"}', "bad": b'{"text": "no"}'})}
SUITE = "hostile.eval.yaml"
_HELD_UP_S = 60
ROW = b'{"test_id":"t","suite":"s","target":"a","score":1,"execution_status":"ok"}\n'


def make_run(project: Path) -> Path:
    """A project with a run of two tests, of which one fails."""
    write_project(project, ["good", "bad"], graders=GRADERS)
    outcome = run_command(project, commands=COMMANDS)
    assert outcome.code == 1, outcome.stderr
    return outcome.folder


def sums_of(files: Mapping[str, bytes]) -> bytes:
    return "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in files.items()).encode()


def write_pack(path: Path, files: Mapping[str, bytes], sums: bytes | None = None) -> Path:
    """A packed run of any files, with sums that are true unless others are given."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, data in {SUMS: sums_of(files) if sums is None else sums, **files}.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    path.write_bytes(zstandard.ZstdCompressor().compress(out.getvalue()))
    return path


def files_of(run: Path) -> dict[str, bytes]:
    """The files of a run folder that a pack of it holds."""
    paths = (path for path in sorted(run.rglob("*")) if path.is_file())
    named = {path.relative_to(run).as_posix(): path.read_bytes() for path in paths}
    return {
        name: data
        for name, data in named.items()
        if name not in (".lock", "report.html", ".unpacked", SUMS) and not name.startswith(f"{TASKS}/")
    }


def with_facts(files: Mapping[str, bytes], change: Callable[[dict[str, Any]], object]) -> dict[str, bytes]:
    """``files`` with another ``run.json``."""
    facts = json.loads(files[FACTS])
    change(facts)
    return {**files, FACTS: json.dumps(facts).encode()}


def command(folder: Path, *words: str | Path) -> tuple[int, str]:
    """Status and all output of the command line in ``folder``. Fails where it is held up or blames itself."""
    with in_time():
        code, stdout, stderr = invoke(folder, *map(str, words), commands=COMMANDS)
    shown = stdout + stderr
    assert "fault of agentv-sandbox" not in shown and "Traceback" not in shown, shown
    return code, " ".join(shown.split())


@contextmanager
def in_time() -> Iterator[None]:
    """Generous: what it stops would never end."""

    def stop(*_: object) -> None:
        raise AssertionError(f"it was held up for {_HELD_UP_S} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(_HELD_UP_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def put_holes(path: Path, size: int) -> None:
    """A file of ``size`` bytes that takes no room."""
    path.unlink(missing_ok=True)
    with path.open("wb") as file:
        file.truncate(size)


def put_pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def put_link(path: Path, to: str) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(to)
