"""Runs with coding agents: played from recordings, or with the real programs to make these."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any

from agentv_sandbox.images.plan.tables import commands
from agentv_sandbox.models.image import Artefact, Image, Resolution
from tests.fake_engine import Command
from tests.hostile.harness import run_command

from .capture import CapturingEngine, run_live
from .model_server import ModelServer, Script
from .playing import Player
from .recording import FOLDER, read

Json = Any
KEY = f"sk-real-{token_hex(8)}"
"""Of this process alone: what another run of these tests says is no leak."""
PACKAGES = {
    kind: commands("trixie")[kind].npm[0]
    for kind in ("claude", "codex", "copilot", "gemini", "opencode", "pi")
}
ENV = f"""
    required_commands: [{", ".join(PACKAGES)}, rg]
    packages:
      npm: {json.dumps(PACKAGES)}
"""
"""One image for all kinds here, with the versions that users get, and with what OpenCode searches by."""


@dataclass(frozen=True)
class Ran:
    code: int
    output: str
    folder: Path
    server: ModelServer

    @property
    def rows(self) -> dict[str, dict[str, Any]]:
        lines = (self.folder / "index.jsonl").read_text().splitlines()
        return {row["test_id"]: row for row in map(json.loads, lines)}

    def read(self, test: str, key: str) -> str:
        return (self.folder / self.rows[test][key]).read_text()

    def messages(self, test: str) -> list[dict[str, Any]]:
        """What the agent did, without times."""
        lines = map(json.loads, self.read(test, "transcript_path").splitlines())
        return [_timeless(line) for line in lines if line["role"] == "assistant"]

    def calls(self, test: str) -> list[dict[str, Any]]:
        return [call for message in self.messages(test) for call in message.get("tool_calls", ())]

    def events(self, test: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.read(test, "agent_events_path").splitlines()]

    def files(self, test: str) -> list[tuple[str, str]]:
        """Path and rule of each file of the answer."""
        return [(f["path"], f["rule"]) for f in json.loads(self.read(test, "manifest_path"))["files"]]

    def bodies(self, script: str) -> list[Mapping[str, Any]]:
        """The requests that ``script`` answered."""
        return [seen.body for seen in self.server.seen if seen.script == script]

    def talks(self, script: str) -> list[str]:
        """The conversations in those requests, as JSON."""
        keys = ("messages", "input", "contents")
        return [json.dumps(next(body[key] for key in keys if key in body)) for body in self.bodies(script)]

    def credentials(self) -> dict[str, set[str]]:
        """The headers in which the key came, by the path of requests that were answered."""
        names = ("authorization", "x-api-key", "api-key", "x-goog-api-key")
        return {
            seen.path: {name for name in names if KEY in seen.headers.get(name, "")}
            for seen in self.server.seen
            if seen.status == 200
        }


def _timeless(line: Mapping[str, Any]) -> dict[str, Any]:
    message = {key: line[key] for key in ("content", "tool_calls") if key in line}
    for call in message.get("tool_calls", ()):
        start = call.pop("start_time")
        if "output" in call:  # not of one during which its agent ended
            assert start <= call.pop("end_time"), call
            assert call.pop("duration_ms") >= 0
    return message


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A suite, and what it runs beside: a scripted model, and the host's variables."""

    name: str
    """Of its recording."""
    write: Callable[[Path], None]
    """Writes the project with ``s.eval.yaml``; MODELS_PORT in its targets is the port of the models' server."""
    scripts: Mapping[str, Script]
    environ: Callable[[ModelServer], Mapping[str, str]]
    """Variables of the host."""
    made_for: Mapping[str, Json]
    """What decides what programs do beside what they are given, such as their versions."""
    plain: str = "ok"
    """The scripted model's answer to requests without tools."""
    folder: str | None = None
    """As of ``ModelServer``."""
    commands: Mapping[str, Command] = field(default_factory=dict)
    """What containers of other roles do, where no engine runs them."""

    def server(self, *, waits: bool = True) -> ModelServer:
        return ModelServer(self.scripts, key=KEY, plain=self.plain, folder=self.folder, waits=waits)

    def play(self, folder: Path) -> Ran:
        """Run it with recorded sessions in place of its programs. Fails where these are out of date."""
        with self.server(waits=False) as server:
            self._write(folder, server)
            player = self.player(server)
            ran = self.play_again(folder, player, server, environ=self.environ(server))
        player.check()
        return ran

    def _write(self, folder: Path, server: ModelServer) -> None:
        self.write(folder)
        targets = folder / "targets.yaml"
        targets.write_text(targets.read_text().replace("MODELS_PORT", str(server.port)))

    def player(self, server: ModelServer, *, address: str = "", asks: tuple[str, str] = ("", "")) -> Player:
        """Of the recorded sessions. ``address``: of the models' server where it is not ``server``'s; ``asks``: a text,
        and what stands in its place in all that is asked."""
        texts = stand_ins(server, address)
        return Player(read(FOLDER / f"{self.name}.json"), texts, self.made_for, asks=asks)

    def play_again(
        self,
        folder: Path,
        player: Player,
        server: ModelServer,
        *options: str,
        environ: Mapping[str, str],
        out: str = "out",
    ) -> Ran:
        """Run the project in ``folder``, as it is now, with ``options`` of the command."""
        (folder / "agentv-sandbox.toml").write_text('egress = "socket"\n')
        done = run_command(
            folder,
            *options,
            commands={"agent": player, **self.commands},
            suite="s.eval.yaml",
            environ=environ,
            image=image_with(PACKAGES),
            out=out,
        )
        return Ran(done.code, done.stdout + done.stderr, done.folder, server)

    def record(self, folder: Path, tests: Sequence[str] = ()) -> dict[str, Json]:
        """Run it with the real programs; its recording, of ``tests`` alone where there are any."""
        engine = CapturingEngine()
        with self.server() as server:
            self._write(folder, server)
            run_live(folder, engine, self.environ(server), tests)
            return {"made_for": self.made_for, "sessions": engine.sessions(stand_ins(server))}


def stand_ins(server: ModelServer, address: str = "") -> dict[str, str]:
    """What differs from run to run, with what stands for it in recordings. ``address``: where models are instead."""
    return {address or f"127.0.0.1:{server.port}": "<models>", KEY[::-1]: "<yek>", KEY: "<key>"}


def image_with(packages: Mapping[str, str]) -> Image:
    """What an image would hold, for an engine that has none."""
    pins = (pin.rpartition("@") for pin in packages.values())
    npm = tuple(Artefact(name=name, version=version, url="", size=0, sha256="") for name, _, version in pins)
    return Image(id="image", tag="t", key="k", resolution=Resolution(npm=npm))
