"""``provider: claude``: what the real program did, through our proxy, against a scripted model."""

from __future__ import annotations

import json

import pytest

from .harness import HELLO_FILE, MCP_SERVER, RAN, Agent, Failure, Ran, call, contains, session
from .model_server import CACHED, INPUT, OUTPUT
from .scripts import GREETING
from .sessions import AgentTests

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("claude")]


def bash(command: str) -> dict[str, str]:
    return {"command": command, "description": "as the script says"}


AS_MANY = {"type": "execution-metrics", "max_llm_calls": 3, "max_tool_calls": 2}
IN_ORDER = {"type": "tool-trajectory", "mode": "exact", "expected": [{"tool": "Bash"}, {"tool": "Bash"}]}


class TestClaude(AgentTests):
    agent = Agent(
        name="claude",
        settings={
            "provider": "claude",
            "model": "claude-sonnet-4-5",
            "env": ["CLAUDE_CODE_MAX_RETRIES"],
            "max_turns": 20,
        },
        version="2.1.330",
        key="ANTHROPIC_API_KEY",
        variables={"CLAUDE_CODE_MAX_RETRIES": "1"},
        skills=".claude/skills",
        instructions="CLAUDE.md",
        workspace={
            ".mcp.json": json.dumps({"mcpServers": {"poems": MCP_SERVER}}),
            # Else it searches for tools of servers before it declares them to the model.
            ".claude/settings.json": json.dumps({"env": {"ENABLE_TOOL_SEARCH": "false"}}),
        },
        targets={"short": {"max_turns": 3}, "asking": {"bypass_permissions": False}},
        failures={
            "turns": Failure("short", "endless", "claude failed: it reached its limit of turns (max_turns)"),
            "permission": Failure(
                "asking",
                "write",
                "claude failed: it asked for permission to use Write, and nobody could answer",
            ),
        },
        cut="claude failed: API Error: Connection to the API was lost",
        recites="mcp__poems__recite",
        tests=[session("same-ids", "claude", "same-ids", contains("done: both"), AS_MANY, IN_ORDER)],
    )

    def test_what_was_done_stands_in_the_rows(self, ran: Ran) -> None:
        """Messages, calls, inputs and outputs in full."""
        done = "(file state is current in your context — no need to Read it back)"
        assert ran.messages("write") == [
            {
                "content": "Writing.",
                "tool_calls": [
                    call(
                        "Write",
                        {"file_path": "/workspace/hello.py", "content": GREETING},
                        f"File created successfully at: /workspace/hello.py {done}",
                        identity="write_0_0",
                    )
                ],
            },
            {"content": [{"type": "text", "text": "done: hello.py"}, HELLO_FILE]},
        ]
        failed = call("Bash", bash("echo oops >&2; exit 3"), "Exit code 3\noops", "error", "run_1_0")
        assert ran.messages("run")[1:] == [{"tool_calls": [failed]}, RAN]
        assert ran.messages("many")[0]["tool_calls"] == [
            call("Bash", bash("echo one"), "one", identity="many_0_0"),
            call("Bash", bash("echo two"), "two", identity="many_0_1"),
        ]
        assert ran.messages("skill")[0] == {
            "tool_calls": [call("Skill", {"skill": "greet"}, "Launching skill: greet", identity="skill_0_0")]
        }
        read, edit = ran.calls("edit")
        assert read["output"].splitlines()[0].endswith("draft")
        assert edit["input"]["new_string"] == "final"
        [image] = ran.calls("image")
        assert image["output"] == [{"type": "image", "media_type": "image/png"}]

    def test_a_server_that_gives_the_same_id_again_is_not_taken_for_one_answer(self, ran: Ran) -> None:
        said = [
            (message["content"], len(message.get("tool_calls", ()))) for message in ran.messages("same-ids")
        ]
        assert said == [("First.", 1), ("Second.", 1), ("done: both", 0)]

    def test_figures_and_facts_stand_in_the_rows(self, ran: Ran) -> None:
        row = ran.rows["many"]
        assert row["token_usage"] == {"input": 2 * INPUT, "output": 2 * OUTPUT, "cached": 2 * CACHED}
        assert row["cost_usd"] > 0
        assert row["claimed"]["cost_usd"] > 0  # by Claude Code's own reckoning
        assert row["duration_ms"] >= 0
        assert row["claimed"]["turns"] == 3
        facts = {"program": "claude", "version": self.agent.version, "model": "claude-sonnet-4-5"}
        assert row["agent"] == {**facts, "stop_reason": "end_turn"}
        assert ran.rows["refusal"]["agent"]["stop_reason"] == "refusal"
        assert ran.events("many")[-1]["event"]["type"] == "result"
        assert all(event["at"] > 1e9 for event in ran.events("many"))

    def test_its_server_is_asked_in_its_way(self, ran: Ran) -> None:
        assert {path.partition("?")[0] for path in ran.credentials()} == {"/v1/messages"}
        assert set(map(frozenset, ran.credentials().values())) == {frozenset({"x-api-key"})}
