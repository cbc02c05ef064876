"""The command itself, run as a user runs it, against a real engine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agentv_sandbox.engines import LABEL_RUN, ContainerEngine
from agentv_sandbox.engines.table import CHOICE
from tests.forkserver import command, forkable
from tests.started import Started

COMMAND = [sys.executable, "-P", "-m", "agentv_sandbox"]  # as the installed command does: without the project


@dataclass(frozen=True)
class Done:
    code: int
    stdout: str
    stderr: str
    folder: Path

    @property
    def rows(self) -> dict[str, dict[str, Any]]:
        lines = (self.folder / "index.jsonl").read_text().splitlines()
        return {row["test_id"]: row for row in map(json.loads, lines)}


@dataclass(frozen=True)
class Project:
    """A folder with suites, and the command."""

    folder: Path
    engine: str | None = None
    """The kind of engine to be used; None: as the environment chooses."""

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    @property
    def output(self) -> Path:
        return self.folder / "out"

    def argv(self, *args: str) -> list[str]:
        return [*COMMAND, *args]

    def env(self, **more: str) -> dict[str, str]:
        kept = {
            k: v for k, v in os.environ.items() if not k.startswith(("OPENAI_", "AGENTV_")) or k == CHOICE
        }
        return {**kept, **({} if self.engine is None else {CHOICE: self.engine}), **more}

    def run(self, *args: str, env: Mapping[str, str] | None = None) -> Done:
        argv = ("run", *args, "-o", str(self.output))
        environ = self.env(**(env or {}))
        if forkable(environ):
            done = command(*argv, cwd=self.folder, env=environ, timeout=500)
        else:
            done = subprocess.run(
                self.argv(*argv),
                cwd=self.folder,
                env=environ,
                capture_output=True,
                text=True,
                timeout=500,
                check=False,
            )
        return Done(done.returncode, done.stdout, done.stderr, self.output)

    def start(self, *args: str, env: Mapping[str, str] | None = None) -> Started:
        """A run that is going on. What it says and its errors come out of one pipe."""
        return Started(
            self.argv("run", *args, "-o", str(self.output)),
            cwd=self.folder,
            env=self.env(**(env or {})),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )


@pytest.fixture
def project(tmp_path: Path, tool_image: str, request: pytest.FixtureRequest) -> Project:
    return Project(tmp_path, "docker" if request.node.get_closest_marker("docker") else None)


@pytest.fixture
def engine_objects(engine: ContainerEngine) -> Callable[[], Sequence[str]]:
    """Names of all that any run of ours has in the engine."""
    return lambda: sorted(f"{obj.kind} {obj.name}" for obj in engine.owned({LABEL_RUN: None}))
