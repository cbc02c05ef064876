"""``provider: gemini-cli``: what the real program did, through our proxy, against a scripted model."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .harness import HELLO_FILE, MCP_SERVER, NOTES_FILE, RAN, Agent, Failure, Ran, call
from .model_server import CACHED, INPUT, OUTPUT, REASONING
from .scripts import GREETING
from .sessions import AgentTests

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("gemini")]


def nameless(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without the identities of calls, which hold the time; no two are the same."""
    calls = [each for message in messages for each in message.get("tool_calls", ())]
    assert len({each.pop("id") for each in calls}) == len(calls)
    return messages


def done(tool: str, given: Any, output: Any, status: str = "ok") -> dict[str, Any]:
    made = call(tool, given, output, status)
    del made["id"]
    return made


def shell(command: str) -> dict[str, str]:
    return {"command": command, "description": "as the script says"}


class TestGemini(AgentTests):
    agent = Agent(
        name="gemini",
        settings={"provider": "gemini-cli", "model": "gemini-2.5-pro"},
        version="0.61.0",
        key="GEMINI_API_KEY",
        skills=".gemini/skills",
        instructions="GEMINI.md",
        workspace={
            ".gemini/settings.json": json.dumps(
                {"mcpServers": {"poems": MCP_SERVER}, "general": {"maxAttempts": 2}}
            )
        },
        targets={"short": {"max_turns": 3}},
        failures={
            "turns": Failure("short", "endless", "gemini failed: it reached its limit of turns (max_turns)")
        },
        cut="gemini failed: Model stream ended without a finish reason.",
        recites="mcp_poems_recite",
    )

    def test_what_was_done_stands_in_the_rows(self, ran: Ran) -> None:
        """Messages, calls, inputs and outputs in full."""
        given = {"file_path": "/workspace/hello.py", "content": GREETING}
        created = "Successfully created and wrote to new file: /workspace/hello.py."
        assert nameless(ran.messages("write")) == [
            {
                "content": "Writing.",
                "tool_calls": [done("Write", given, f"{created} Here is the updated code:\n{GREETING}")],
            },
            {"content": [{"type": "text", "text": "done: hello.py"}, HELLO_FILE]},
        ]
        edited = {"file_path": "/workspace/notes.txt", "old_string": "draft", "new_string": "final"}
        modified = "Successfully modified file: /workspace/notes.txt (1 replacements)."
        assert nameless(ran.messages("edit")) == [
            {"tool_calls": [done("Read", {"file_path": "/workspace/notes.txt"}, "draft\n")]},
            {
                "content": "Editing.",
                "tool_calls": [
                    done(
                        "Edit",
                        {**edited, "instruction": "as the script says"},
                        f"{modified} Here is the updated code:\nfinal\n",
                    )
                ],
            },
            {"content": [{"type": "text", "text": "done: edited"}, NOTES_FILE]},
        ]
        assert nameless(ran.messages("run"))[1:] == [
            {"tool_calls": [done("Bash", shell("echo oops >&2; exit 3"), "oops", "error")]},
            RAN,
        ]
        assert nameless(ran.messages("many"))[0]["tool_calls"] == [
            done("Bash", shell("echo one"), "one"),
            done("Bash", shell("echo two"), "two"),
        ]
        [skill] = ran.calls("skill")
        assert (skill["tool"], skill["input"]) == ("Skill", {"name": "greet", "skill": "greet"})
        [image] = ran.calls("image")
        assert image["output"] == "Read image file: ../input/pixel.png"

    def test_figures_and_facts_stand_in_the_rows(self, ran: Ran) -> None:
        row = ran.rows["many"]
        usage = {"input": 2 * INPUT, "output": 2 * OUTPUT, "cached": 2 * CACHED, "reasoning": 2 * REASONING}
        assert row["token_usage"] == usage
        assert row["cost_usd"] > 0  # counted by the gateway: the program does not say it
        assert row["duration_ms"] >= 0
        assert row["claimed"]["turns"] == 2
        facts = {"program": "gemini", "version": self.agent.version, "model": "gemini-2.5-pro"}
        assert row["agent"] == facts

    def test_tools_of_the_workspace_are_declared_and_those_of_the_provider_are_not(self, ran: Ran) -> None:
        body = ran.bodies("write")[0]
        declared = {each["name"] for group in body["tools"] for each in group["functionDeclarations"]}
        assert "mcp_poems_recite" in declared
        assert not declared & {"google_web_search", "web_fetch"}  # they run at the provider

    def test_its_server_is_asked_in_its_way(self, ran: Ran) -> None:
        path = "/v1beta/models/gemini-2.5-pro"
        assert {seen.path.partition(":")[0] for seen in ran.server.seen} == {path}
        assert set(map(frozenset, ran.credentials().values())) == {frozenset({"x-goog-api-key"})}
