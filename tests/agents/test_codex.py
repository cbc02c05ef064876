"""``provider: codex``: what the real program did, through our proxy, against a scripted model."""

from __future__ import annotations

import pytest

from .harness import HELLO_FILE, RAN, Agent, Failure, Ran, call
from .model_server import CACHED, INPUT, OUTPUT, REASONING
from .scripts import GREETING
from .sessions import AgentTests

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("codex")]


class TestCodex(AgentTests):
    agent = Agent(
        name="codex",
        settings={"provider": "codex", "model": "gpt-5", "model_reasoning_effort": "low"},
        version="0.169.0",
        key="OPENAI_API_KEY",
        skills=".agents/skills",
        instructions="AGENTS.md",
        workspace={
            ".codex/config.toml": '[mcp_servers.poems]\ncommand = "python3"\nargs = ["/workspace/poems.py"]\n'
        },
        skill={"type": "contains", "value": "as the skill says"},
        writes="Bash",
        chosen="named by a tool",
        failures={"no-model": Failure("fake", "write", "events of codex stop before its session ended")},
        cut="codex failed: stream disconnected before completion",
        recites="Skill",
        prints_refusals=False,
    )

    def test_what_was_done_stands_in_the_rows(self, ran: Ran) -> None:
        """Messages, calls, inputs and outputs in full."""
        write = {"command": f"cat > /workspace/hello.py <<'EOF'\n{GREETING}EOF"}
        assert ran.messages("write") == [
            {"content": "Writing.", "tool_calls": [call("Bash", write, "", identity="item_2")]},
            {"content": [{"type": "text", "text": "done: hello.py"}, HELLO_FILE]},
        ]
        failing = {"command": "echo oops >&2; exit 3"}
        assert ran.calls("run")[1:] == [call("Bash", failing, "oops\n", "error", "item_3")]
        assert ran.messages("run")[-1] == RAN

    def test_figures_and_facts_stand_in_the_rows(self, ran: Ran) -> None:
        row = ran.rows["many"]
        usage = {"input": 2 * INPUT, "output": 2 * OUTPUT, "cached": 2 * CACHED, "reasoning": 2 * REASONING}
        assert row["token_usage"] == usage
        assert row["claimed"]["turns"] == 1
        facts = {"program": "codex", "version": self.agent.version, "model": "gpt-5"}
        assert row["agent"] == facts

    def test_its_server_is_asked_in_its_way(self, ran: Ran) -> None:
        assert ran.credentials() == {"/v1/responses": {"authorization"}}
        asked = ran.bodies("write")[0]
        assert (asked["model"], asked["reasoning"]["effort"]) == ("gpt-5", "low")
