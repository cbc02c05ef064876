"""What the real programs keep of a session, from a scripted model, read back."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from agentv_sandbox.models.case import AgentResponse
from agentv_sandbox.models.figures import TokenUsage
from agentv_sandbox.models.suite import Target
from agentv_sandbox.providers.transcripts import read_transcript
from tests.agentv import agentv_modules

from .model_server import CACHED, INPUT, OUTPUT, ModelServer
from .scripts import scripts

pytestmark = [pytest.mark.slow]
COMMANDS = ["echo 1,2 > table.csv && cat table.csv", "echo oops >&2; exit 3"]


def session(folder: Path, argv: Sequence[str], env: Mapping[str, str], kept: str) -> AgentResponse:
    """Of a program whose home is ``folder``, from the one file there that ``kept`` matches."""
    (folder / "work").mkdir()
    known = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8"}
    done = subprocess.run(
        argv,
        input="Work. script:run",
        text=True,
        cwd=folder / "work",
        env={**known, **env},
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = folder.glob(kept)
    response, notes = read_transcript(file.read_bytes(), Target(name="agent", provider="mock"), None)
    assert notes == []
    return response


def check(response: AgentResponse) -> None:
    rows = [message.wire() for message in response.messages]
    calls = [call for row in rows for call in row.get("tool_calls", ())]
    assert [(call["tool"], call["input"]["command"]) for call in calls] == [
        ("Bash", each) for each in COMMANDS
    ]
    assert [call["status"] for call in calls] == ["ok", "error"]
    assert calls[0]["output"].startswith("1,2") and "oops" in calls[1]["output"]
    assert response.answer == "done: 1,2, then it failed"
    assert response.duration_ms is not None and response.duration_ms > 0
    assert response.agent["version"] and response.agent["model"]


def test_a_session_that_codex_kept(tmp_path: Path) -> None:
    with ModelServer(scripts(skills="")) as server:
        settings = {
            "model_provider": "own",
            "model_providers.own.name": "own",
            "model_providers.own.base_url": f"{server.url}/v1",
            "model_providers.own.env_key": "KEY",
            "model_providers.own.wire_api": "responses",
        }
        argv = [str(agentv_modules() / ".bin/codex"), "exec", "--skip-git-repo-check", "-m", "gpt-5"]
        argv += ["--dangerously-bypass-approvals-and-sandbox", "-c", "web_search='disabled'"]
        argv += [word for name, value in settings.items() for word in ("-c", f'{name}="{value}"')]
        response = session(tmp_path, [*argv, "-"], {"KEY": "k"}, ".codex/sessions/*/*/*/rollout-*.jsonl")
    check(response)
    usage = response.token_usage
    assert usage is not None and (usage.input, usage.output) == (3 * INPUT, 3 * OUTPUT)


def test_a_session_that_claude_kept(tmp_path: Path) -> None:
    program, *_ = sorted(agentv_modules().glob("@anthropic-ai/claude-agent-sdk-linux-*/claude"))
    env = {"ANTHROPIC_API_KEY": "k", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "IS_SANDBOX": "1"}
    with ModelServer(scripts(skills="")) as server:
        argv = [str(program), "-p", "--dangerously-skip-permissions"]
        response = session(
            tmp_path, argv, {**env, "ANTHROPIC_BASE_URL": server.url}, ".claude/projects/*/*.jsonl"
        )
    check(response)
    assert response.token_usage == TokenUsage(input=3 * INPUT, output=3 * OUTPUT, cached=3 * CACHED)


def test_a_session_that_copilot_kept(tmp_path: Path) -> None:
    env = {"COPILOT_OFFLINE": "true", "COPILOT_PROVIDER_TYPE": "openai", "COPILOT_PROVIDER_API_KEY": "k"}
    with ModelServer(scripts(skills="")) as server:
        argv = [str(agentv_modules() / ".bin/copilot"), "--allow-all", "--no-ask-user", "--no-auto-update"]
        env["COPILOT_PROVIDER_BASE_URL"] = f"{server.url}/v1"
        response = session(
            tmp_path, [*argv, "--model", "gpt-4.1"], env, ".copilot/session-state/*/events.jsonl"
        )
    check(response)
