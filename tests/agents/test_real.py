"""Every kind's real program, once: one session with all that its tools do, and a second turn of the conversation.

What else programs do is played from recordings (``recording.py``). Here they run in their image, behind the proxy.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentv_sandbox.engines.table import find_engine

from . import test_claude, test_codex, test_copilot, test_gemini, test_opencode, test_pi
from .harness import ENV, KEY, PACKAGES, Agent, Ran, variables, write_template
from .model_server import CACHED, INPUT, OUTPUT, REASONING, ModelServer
from .scripts import PIXEL, rich
from .watcher import Watcher

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("agents")]

ENGINE = os.environ.get("AGENTV_SANDBOX_ENGINE") or "native"
AGENTS: dict[str, Agent] = {
    "claude": test_claude.TestClaude.agent,
    "codex": test_codex.TestCodex.agent,
    "copilot": test_copilot.TestCopilot.agent,
    "gemini": test_gemini.TestGemini.agent,
    "opencode": test_opencode.TestOpencode.agent,
    "pi": test_pi.TestPi.agent,
}
SUITE = f"""
execution: {{targets: [{", ".join(AGENTS)}], workers: 3}}
workspace:
  env:{ENV}
tests:"""
TEST = """
  - id: {kind}
    mode: conversation
    workspace: {{template: template-{kind}}}
    execution: {{targets: [{kind}]}}
    input:
      - role: user
        content: [{{type: text, value: "Let us work."}}, {{type: file, value: pixel.png}}]
    turns:
      - {{input: "Please do script:rich-{kind}", assertions: [{{type: contains, value: "done: all of it"}}]}}
      - {{input: "script:rich-{kind}-end", assertions: [{{type: contains, value: "it was 1,2 first"}}]}}
"""


@dataclass(frozen=True)
class Real(Ran):
    watcher: Watcher


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    folder = tmp_path_factory.mktemp("real")
    (folder / "pixel.png").write_bytes(PIXEL)
    told, environ = {}, {"AGENTV_SANDBOX_ENGINE": ENGINE}
    targets = []
    for kind, agent in AGENTS.items():
        write_template(agent, folder / f"template-{kind}")
        told |= rich(kind, skills=f"/workspace/{agent.skills}", key=KEY)
        targets.append(
            {"base_url": "${{ MODELS }}", "system_prompt": "Be brief.", **agent.settings, "name": kind}
        )
    (folder / "targets.yaml").write_text(json.dumps({"targets": targets}))
    (folder / "s.eval.yaml").write_text(SUITE + "".join(TEST.format(kind=kind) for kind in AGENTS))
    watcher = Watcher(find_engine(os.environ, ENGINE))
    with ModelServer(told, key=KEY) as server, watcher.watching():
        for agent in AGENTS.values():
            environ |= variables(agent, server)
        argv = [sys.executable, "-m", "agentv_sandbox", "run", "s.eval.yaml", "-o", "out", "--record", "calls"]
        done = subprocess.run(
            argv,
            cwd=folder,
            env={**os.environ, **environ},
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
    yield Real(done.returncode, done.stdout + done.stderr, folder / "out", server, watcher)


@pytest.fixture(params=AGENTS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_look(real: Real) -> None:
    print(real.output[-3000:])
    for kind in AGENTS:
        row = real.rows[kind]
        print(kind, row["execution_status"], row["score"], row.get("error"), row["token_usage"], row.get("cost_usd"), row["duration_ms"], row["total_duration_ms"], row["agent"])
        print([(c["tool"], c["status"], str(c["output"])[:80]) for c in real.calls(kind)])
        print([m["content"] for m in real.messages(kind) if m.get("content")])
        print(real.files(kind))
    print(real.credentials())
    assert 0
