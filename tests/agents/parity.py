"""One suite on both sides: AgentV drives programs on the machine, we in containers; one scripted model answers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.agentv import agentv_command

from .harness import ENV, KEY
from .model_server import ModelServer, Seen
from .scripts import SKILL, scripts

Row = Mapping[str, Any]
Messages = list[dict[str, Any]]
Change = Callable[[Sequence[Row]], Messages]


def as_is(messages: Sequence[Row]) -> Messages:
    return [dict(message) for message in messages]


def each_call(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Change:
    def changed(messages: Sequence[Row]) -> Messages:
        return [
            {**m, "tool_calls": [change(call) for call in m["tool_calls"]]} if "tool_calls" in m else dict(m)
            for m in messages
        ]

    return changed


def in_order(messages: Sequence[Row]) -> Messages:
    """Calls of one message in one order: programs make them at the same time and number them as they come."""
    ordered: Messages = []
    for message in map(dict, messages):
        if calls := message.get("tool_calls"):
            ids = sorted(call["id"] for call in calls)
            by_input = sorted(calls, key=lambda call: json.dumps(call["input"], sort_keys=True))
            message["tool_calls"] = [{**call, "id": id_} for call, id_ in zip(by_input, ids, strict=True)]
        ordered.append(message)
    return ordered


def texts(messages: Sequence[Row]) -> Messages:
    """Content without its files."""
    lists = [m["content"] if isinstance(m["content"], list) else [{"text": m["content"]}] for m in messages]
    plain = ["".join(block.get("text", "") for block in blocks) for blocks in lists]
    return [{**message, "content": text} for message, text in zip(messages, plain, strict=True)]


@dataclass
class Rows:
    """One side: rows and messages by (test, target)."""

    rows: dict[tuple[str, str], Row] = field(default_factory=dict)
    messages: dict[tuple[str, str], Messages] = field(default_factory=dict)
    calls: dict[tuple[str, str], Messages] = field(default_factory=dict)
    seen: list[Seen] = field(default_factory=list)
    said: str = ""

    def read(self, folder: Path) -> None:
        for row in map(json.loads, (folder / "index.jsonl").read_text().splitlines()):
            key = row["test_id"], row["target"]
            self.rows[key] = row
            path = folder / row.get("transcript_path", "none")
            lines = list(map(json.loads, path.read_text().splitlines())) if path.is_file() else []
            self.messages[key] = [timeless(line) for line in lines if line["role"] == "assistant"]
            self.calls[key] = [call for line in lines for call in line.get("tool_calls", ())]


def timeless(line: Row) -> dict[str, Any]:
    """A message with its calls, without times; paths as in the container."""
    message: dict[str, Any] = {"content": line.get("content", "")}
    if calls := line.get("tool_calls"):
        keys = ("tool", "input", "output", "id", "status")
        message["tool_calls"] = [{key: call[key] for key in keys if key in call} for call in calls]
    text: dict[str, Any] = json.loads(_WORKSPACE.sub("/workspace", json.dumps(message)))
    return text


_WORKSPACE = re.compile(r"/[^\s\"']*/\.agentv/workspaces/[^\s/\"']+/[^\s/\"'\\]+")


@dataclass(frozen=True)
class Both:
    ours: Rows
    theirs: Rows

    @property
    def keys(self) -> list[tuple[str, str]]:
        return sorted(self.ours.rows)


def answer_tests(answers: Mapping[str, str]) -> str:
    """A test for each script, with words of its answer."""
    return "".join(
        f'\n  - id: {name}\n    input: "Please do script:{name}"\n'
        f'    assertions: [{{type: contains, value: "{answer}"}}]'
        for name, answer in answers.items()
    )


def write_project(folder: Path, kinds: Sequence[str], targets: str, tests: str) -> None:
    for skills in (".claude/skills", ".agents/skills"):
        (folder / "template" / skills / "greet").mkdir(parents=True)
        (folder / "template" / skills / "greet/SKILL.md").write_text(SKILL)
    (folder / "template/notes.txt").write_text("draft\n")
    (folder / "s.eval.yaml").write_text(
        f"execution: {{targets: [{', '.join(kinds)}], workers: 4}}\n"
        f"workspace:\n  template: template\n  isolation: per_test\n  env:{ENV}tests:{tests}"
    )
    (folder / "targets.yaml").write_text(targets)
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)


def _stand_in(commands: Path) -> None:
    """AgentV wants every program of the image on the machine; those that no target uses must not run."""
    listed = re.search(r"required_commands: \[(.*)\]", ENV)
    assert listed is not None
    for name in listed[1].split(", "):
        if not (commands / name).exists():
            (commands / name).write_text("#!/bin/sh\nexit 1\n")
            (commands / name).chmod(0o755)


@contextmanager
def copied(image: str) -> Iterator[Callable[[str, Path], None]]:
    """What copies a path of ``image`` to the machine."""
    argv = ["docker", "create", "--network", "none", "--entrypoint", "", image, "true"]
    container = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()

    def copy(source: str, place: Path) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        argv = ["docker", "cp", "-q", f"{container}:{source}", str(place)]
        subprocess.run(argv, capture_output=True, check=True)

    try:
        yield copy
    finally:
        subprocess.run(["docker", "rm", container], capture_output=True, check=True)


@dataclass(frozen=True)
class Machine:
    """Where AgentV runs programs."""

    image: str
    """That has the very programs."""
    project: Path
    home: Path
    programs: Path
    """A folder for them, not yet made."""
    models: str
    """Address of the models' server."""

    @property
    def commands(self) -> Path:
        """The first folder in which commands are looked for."""
        return self.programs / "bin"


def run_both(
    folder: Path,
    kinds: Sequence[str],
    targets: str,
    tests: str,
    *,
    variables: Mapping[str, str],
    prepare: Callable[[Machine], Mapping[str, str]],
) -> Both:
    """Run the suite on both sides. ``variables`` are of both, as is the address of the models' server in MODELS;
    ``prepare`` puts programs and their settings on the machine and returns more variables of AgentV's."""
    project, home = folder / "project", folder / "home"
    write_project(project, kinds, targets, tests)
    home.mkdir()
    ours, theirs = Rows(), Rows()
    with ModelServer(scripts(skills="/workspace/.agents/skills"), key=KEY, folder="/workspace") as server:
        env = {**variables, "MODELS": server.url}
        argv = [sys.executable, "-m", "agentv_sandbox", "run", "s.eval.yaml", "-o", str(project / "ours")]
        ours.said = _run(argv, project, {**os.environ, **env})
        ours.read(project / "ours")
        ours.seen, server.seen = server.seen, theirs.seen
        image = next(iter(ours.rows.values()))["image_id"]
        machine = Machine(image, project, home, folder / "programs", server.url)
        machine.commands.mkdir(parents=True)
        env |= prepare(machine)
        _stand_in(machine.commands)
        env |= {"HOME": str(home), "PATH": f"{machine.commands}:{os.environ['PATH']}"}
        for kind in kinds:  # AgentV gives tests of several targets one folder
            out = project / f"theirs-{kind}"
            argv = [*agentv_command(), "eval", "run", "s.eval.yaml", "--target", kind, "-o", str(out)]
            theirs.said += _run([*argv, "--workers", "3", "--max-retries", "0"], project, env)
            theirs.read(out)
    return Both(ours, theirs)


def _run(argv: Sequence[str], folder: Path, env: Mapping[str, str]) -> str:
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, timeout=400, check=False)
    return done.stdout + done.stderr


def without_output(call: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in call.items() if key != "output"}


def documented(heading: str) -> list[str]:
    """The first column of the table below ``heading`` in docs/reference/agents.md."""
    page = (Path(__file__).parents[2] / "docs/reference/agents.md").read_text()
    section = page.partition(heading)[2].partition("\n## ")[0]
    return [line.split("|")[1].strip() for line in section.splitlines() if line.startswith("| ")][1:]


def figures(row: Row) -> dict[str, Any]:
    scores = [(s["name"], s["score"], s["verdict"]) for s in row.get("scores", ())]
    return {"score": row["score"], "status": row["execution_status"], "scores": scores}
