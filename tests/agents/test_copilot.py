"""``provider: copilot-cli``: what the real program did, through our proxy, against a scripted model."""

from __future__ import annotations

import json

import pytest

from .harness import HELLO_FILE, INSTRUCTIONS, MCP_SERVER, NOTES_FILE, RAN, Agent, Failure, Ran, call
from .model_server import CACHED, INPUT, OUTPUT, REASONING
from .scripts import GREETING
from .sessions import AgentTests

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("copilot")]

ASKING = """#!/bin/sh
for word; do shift; [ "$word" = --allow-all ] || set -- "$@" "$word"; done
exec copilot "$@"
"""


def bash(command: str) -> dict[str, str]:
    return {"command": command, "description": "as the script says"}


class TestCopilot(AgentTests):
    agent = Agent(
        name="copilot",
        settings={"provider": "copilot", "model": "gpt-4.1", "api_key": "${{ OWN_KEY }}"},
        version="1.0.102",
        key="OWN_KEY",
        skills=".github/skills",
        instructions="AGENTS.md",
        workspace={".mcp.json": json.dumps({"mcpServers": {"poems": MCP_SERVER}}), "asking": ASKING},
        targets={
            "asking": {"executable": "/workspace/asking"},
            "responses": {"api_format": "responses", "args": ["--excluded-tools=glob"]},
            "anthropic": {"subprovider": "anthropic", "model": "claude-sonnet-4-5"},
            "azure": {"subprovider": "azure", "api_version": "2024-10-21"},
            "bearer": {"subprovider": "azure", "bearer_token": "${{ OWN_KEY }}"},
            "sdk": {"provider": "copilot-sdk"},
        },
        servers=("responses", "anthropic", "azure", "bearer", "sdk"),
        failures={
            "crash": Failure("copilot", "crash-copilot", "137"),
            "permission": Failure(
                "asking",
                "write",
                "copilot failed: it asked for permission to use Write, and nobody could answer",
            ),
        },
        cut="copilot failed: Failed to get response from the AI model",
        recites="poems-recite",
        hasty_s=60,
    )

    def test_what_was_done_stands_in_the_rows(self, ran: Ran) -> None:
        """Messages, calls, inputs and outputs in full."""
        given = {"path": "/workspace/hello.py", "file_text": GREETING}
        created = f"Created file /workspace/hello.py with {len(GREETING)} characters"
        assert ran.messages("write") == [
            {"content": "Writing.", "tool_calls": [call("Write", given, created, identity="write_0_0")]},
            {"content": [{"type": "text", "text": "done: hello.py"}, HELLO_FILE]},
        ]
        notes = "/workspace/notes.txt"
        edited = {"path": notes, "old_str": "draft", "new_str": "final"}
        assert ran.messages("edit") == [
            {
                "tool_calls": [
                    call("Read", {"path": notes, "file_path": notes}, "draft\n", identity="edit_0_0")
                ]
            },
            {
                "content": "Editing.",
                "tool_calls": [
                    call("Edit", edited, f"File {notes} updated with changes.", identity="edit_1_0")
                ],
            },
            {"content": [{"type": "text", "text": "done: edited"}, NOTES_FILE]},
        ]
        ended = "<shellId: 1 completed with exit code 3>"
        assert ran.messages("run")[1:] == [
            {
                "tool_calls": [
                    call("Bash", bash("echo oops >&2; exit 3"), f"oops\n{ended}", "error", "run_1_0")
                ]
            },
            RAN,
        ]
        loaded = 'Skill "greet" loaded successfully. Follow the instructions in the skill context.'
        assert ran.messages("skill")[0] == {
            "tool_calls": [call("Skill", {"skill": "greet"}, loaded, identity="skill_0_0")]
        }

    @pytest.mark.parametrize("test", ["many", *agent.servers])
    def test_calls_keep_their_order_and_names_with_every_kind_of_server(self, ran: Ran, test: str) -> None:
        calls = [(each["input"], each["id"]) for each in ran.calls(test)]
        assert calls == [(bash("echo one"), "many_0_0"), (bash("echo two"), "many_0_1")]

    def test_figures_and_facts_stand_in_the_rows(self, ran: Ran) -> None:
        row = ran.rows["many"]
        usage = {"input": 2 * INPUT, "output": 2 * OUTPUT, "cached": 2 * CACHED, "reasoning": 2 * REASONING}
        assert row["token_usage"] == usage
        without = {key: value for key, value in usage.items() if key != "reasoning"}
        assert ran.rows["anthropic"]["token_usage"] == without
        assert row["cost_usd"] == pytest.approx(0.0036)  # by the gateway's prices
        assert row["claimed"] == {"token_usage": usage, "turns": 2}
        assert row["duration_ms"] >= 0
        assert row["claimed"]["turns"] == 2
        facts = {"program": "copilot", "version": self.agent.version, "model": "gpt-4.1"}
        assert row["agent"] == facts
        events = [each["event"]["type"] for each in ran.events("many")]
        assert events[-2:] == ["result", "usage-file"]

    def test_every_kind_of_server_is_asked_in_its_way(self, ran: Ran) -> None:
        deployment = "/openai/deployments/gpt-4.1/chat/completions?api-version=2024-10-21"
        assert ran.credentials() == {
            "/v1/chat/completions": {"authorization"},
            "/v1/responses": {"authorization"},
            "/v1/messages": {"x-api-key"},
            deployment: {"api-key"},
            "/openai/v1/chat/completions": {"authorization"},
        }
        (first, *_) = ran.bodies("write")
        assert first["model"] == "gpt-4.1"
        [excluding] = [seen for seen in ran.server.seen if seen.path == "/v1/responses" and seen.step == 0]
        names = [tool.get("name") for tool in excluding.body["tools"]]
        assert "grep" in names and "glob" not in names

    def test_system_prompts_stand_where_the_kind_puts_them(self, ran: Ran) -> None:
        (first, *_) = ran.bodies("write")
        system, user = (
            json.dumps([m for m in first["messages"] if m["role"] == role]) for role in ("system", "user")
        )
        assert "Be brief." in user and "Be brief." not in system
        assert INSTRUCTIONS in system
        chats = [seen.body for seen in ran.server.seen if seen.kind == "chat" and seen.script == "many"]
        own = [body for body in chats if "Be brief." in json.dumps(body["messages"][0])]
        assert len(own) == 2  # of copilot-sdk alone: two requests
        assert "Be brief." not in json.dumps(own[0]["messages"][1:])

    def check_printed(self, printed: str) -> None:
        assert "OWN_KEY=******" in printed and "COPILOT_PROVIDER" not in printed  # by the program itself
