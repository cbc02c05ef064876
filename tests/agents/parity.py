"""One suite on both sides: AgentV drives programs on the machine, we in containers; one scripted model answers."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.agentv import agentv_command, agentv_version

from .capture import CapturingEngine
from .model_server import Seen
from .recording import FOLDER, Masks, digest, read, shortened
from .scenes import ENV, PACKAGES, Scene, stand_ins
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

    @classmethod
    def recorded(cls, stored: Sequence[Mapping[str, Any]]) -> Rows:
        rows, masks = cls(), Masks({}, "")
        for each in json.loads(masks.unmasked(json.dumps(stored))):
            key = each["test"], each["target"]
            rows.rows[key], rows.messages[key], rows.calls[key] = each["row"], each["messages"], each["calls"]
            rows.seen += [Seen("POST", s["path"], {}, s["body"], script=s["script"]) for s in each["seen"]]
        return rows

    def to_record(self, masks: Masks) -> list[dict[str, Any]]:
        """What tests look at, by test and target."""
        stored = [
            {
                "test": test,
                "target": target,
                "row": {name: row[name] for name in _KEPT if name in row},
                "messages": self.messages[test, target],
                "calls": self.calls[test, target],
                "seen": [
                    {"script": s.script, "path": s.path, "body": s.body}
                    for s in self.seen
                    if test == "talk" and s.script == "talk-3" and _PATHS[target] in s.path
                ],
            }
            for (test, target), row in sorted(self.rows.items())
        ]
        kept: list[dict[str, Any]] = shortened(json.loads(masks.masked(json.dumps(stored))))
        return kept


def timeless(line: Row) -> dict[str, Any]:
    """A message with its calls, without times; paths as in the container."""
    message: dict[str, Any] = {"content": line.get("content", "")}
    if calls := line.get("tool_calls"):
        keys = ("tool", "input", "output", "id", "status")
        message["tool_calls"] = [{key: call[key] for key in keys if key in call} for call in calls]
    text: dict[str, Any] = json.loads(_WORKSPACE.sub("/workspace", json.dumps(message)))
    return text


_KEPT = ("score", "scores", "execution_status", "error", "token_usage", "cost_usd", "duration_ms")
"""Of AgentV's rows."""
_PATHS = {
    "claude": "/messages",
    "codex": "/responses",
    "copilot": "/chat/completions",
    "pi": "/responses",
}
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


def _stand_in(commands: Path) -> None:
    """AgentV wants every program of the image on the machine; those that no target uses must not run."""
    listed = re.search(r"required_commands: \[(.*)\]", ENV)
    assert listed is not None
    for name in listed[1].split(", "):
        if not (commands / name).exists():
            (commands / name).write_text("#!/bin/sh\nexit 1\n")
            (commands / name).chmod(0o755)


def copy_of(root: Path, source: str, place: Path) -> None:
    """Copy ``source``, a path in the image whose files are below ``root``, to ``place``; links at its end are
    followed within the image."""
    path = root / source.lstrip("/")
    while path.is_symlink():
        link = path.readlink()
        path = root / str(link).lstrip("/") if link.is_absolute() else path.parent / link
    place.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.copytree(path, place, symlinks=True)
    else:
        shutil.copy2(path, place)


@dataclass(frozen=True)
class Machine:
    """Where AgentV runs programs."""

    files: Path
    """Root of the image that has the very programs."""
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


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A suite that both run, with programs of several kinds."""

    name: str
    kinds: Sequence[str]
    targets: str
    tests: str
    variables: Mapping[str, str]
    """Of both, as is the address of the models' server in MODELS."""
    prepare: Callable[[Machine], Mapping[str, str]]
    """Puts programs and their settings on the machine and returns more variables of AgentV's."""

    def made_for(self) -> dict[str, Any]:
        """What decides AgentV's rows; where it changed, they are out of date."""
        told = scripts(skills="/workspace/.agents/skills")
        asked = {name: repr(told[name]) for name in told if f"script:{name}" in self.tests}
        return {
            "agentv": agentv_version(),
            "programs": {kind: PACKAGES[kind] for kind in self.kinds},
            "targets": self.targets,
            "tests": self.tests,
            "skill": SKILL,
            "scripts": digest(json.dumps(asked).encode()),
        }

    @property
    def scene(self) -> Scene:
        """Our side."""
        return Scene(
            name=self.name,
            write=lambda folder: write_project(folder, self.kinds, self.targets, self.tests),
            scripts=scripts(skills="/workspace/.agents/skills"),
            environ=lambda server: {**self.variables, "MODELS": server.url},
            made_for=self.made_for(),
            folder="/workspace",
        )

    def play(self, folder: Path) -> Both:
        """Our side with recorded sessions in place of the programs, and AgentV's rows as they were recorded."""
        ran = self.scene.play(folder)
        ours = Rows(said=ran.output, seen=ran.server.seen)
        ours.read(ran.folder)
        return Both(ours, Rows.recorded(read(FOLDER / f"{self.name}.json")["theirs"]))

    def record(self, folder: Path, tests: Sequence[str] = ()) -> dict[str, Any]:
        """Run the suite on both sides with the real programs; the recording of it."""
        project, home, scene = folder / "project", folder / "home", self.scene
        project.mkdir()
        home.mkdir()
        recording = scene.record(project, tests)
        subprocess.run(["git", "init", "-q"], cwd=project, check=True)
        theirs = Rows()
        with scene.server() as server:
            machine = Machine(
                CapturingEngine().files_of(project), project, home, folder / "programs", server.url
            )
            machine.commands.mkdir(parents=True)
            env = {**scene.environ(server), **self.prepare(machine)}
            _stand_in(machine.commands)
            env |= {"HOME": str(home), "PATH": f"{machine.commands}:{os.environ['PATH']}"}
            for kind in self.kinds:  # AgentV gives tests of several targets one folder
                out = project / f"theirs-{kind}"
                argv = [*agentv_command(), "eval", "run", "s.eval.yaml", "--target", kind, "-o", str(out)]
                theirs.said += _run([*argv, "--workers", "3", "--max-retries", "0"], project, env)
                theirs.read(out)
            theirs.seen = server.seen
            return {
                **recording,
                "theirs": theirs.to_record(Masks({**stand_ins(server), str(folder): "<folder>"}, "")),
            }


def _run(argv: Sequence[str], folder: Path, env: Mapping[str, str]) -> str:
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, timeout=900, check=False)
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
