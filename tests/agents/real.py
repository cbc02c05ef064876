"""The one run of the tests with real programs: one suite with a session for each kind, in their image.

A session does all that its tools can, after an error of the model's server, and has a second turn.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from agentv_sandbox.engines.table import find_engine
from tests import forkserver
from tests.converters.inputs import INPUTS

from . import test_claude, test_codex, test_copilot, test_gemini, test_opencode, test_pi
from .harness import Agent, variables, write_template
from .model_server import ModelServer
from .scenes import ENV, KEY, Ran
from .scripts import PIXEL, rich
from .sessions import AgentTests
from .watcher import Watcher

ENGINE = os.environ.get("AGENTV_SANDBOX_ENGINE") or "native"
TESTS: dict[str, AgentTests] = {
    "claude": test_claude.TestClaude(),
    "codex": test_codex.TestCodex(),
    "copilot": test_copilot.TestCopilot(),
    "gemini": test_gemini.TestGemini(),
    "opencode": test_opencode.TestOpencode(),
    "pi": test_pi.TestPi(),
}
"""What each kind's tests say of it."""
AGENTS: dict[str, Agent] = {kind: tests.agent for kind, tests in TESTS.items()}
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
        content:
          - {{type: text, value: "Let us work."}}
          - {{type: file, value: pixel.png}}
          - {{type: image, value: in/plot.png}}
          - {{type: file, value: in/paper.pdf}}
          - {{type: file, value: in/sales.xlsx}}
          - {{type: file, value: in/letter.docx}}
    turns:
      - {{input: "Please do script:rich-{kind}", assertions: [{{type: contains, value: "done: all of it"}}]}}
      - {{input: "script:rich-{kind}-end", assertions: [{{type: contains, value: "it was 1,2 first"}}]}}
"""


@dataclass(frozen=True)
class Real(Ran):
    watcher: Watcher
    environ: Mapping[str, str]

    def again(self, *options: str, out: str, without: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """The same suite, beside the first results; without the models' server and some variables."""
        environ = {**self.environ, **dict.fromkeys(without, ""), "MODELS": "http://127.0.0.1:9"}
        return _run(self.folder.parent, "-o", out, *options, environ=environ)


def run_real(folder: Path) -> Real:
    """Run it in ``folder``, with its calls recorded in ``calls``."""
    (folder / "pixel.png").write_bytes(PIXEL)
    for name, data in INPUTS.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
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
        done = _run(folder, "-o", "out", "--record", "calls", environ=environ)
    return Real(done.returncode, done.stdout + done.stderr, folder / "out", server, watcher, environ)


def _run(folder: Path, *options: str, environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "agentv_sandbox", "run", "s.eval.yaml", *options]
    env = {**os.environ, **environ}
    return forkserver.run(argv, cwd=folder, env=env, timeout=900)
