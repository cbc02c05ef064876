"""``provider: opencode``: what the real program did, through our proxy, against a scripted model."""

from __future__ import annotations

import json

import pytest

from .harness import HELLO_FILE, KEY, NOTES_FILE, RAN, Agent, Failure, Ran, call, contains, session
from .model_server import CACHED, INPUT, OUTPUT, REASONING
from .scripts import GREETING
from .sessions import AgentTests

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("opencode")]


class TestOpencode(AgentTests):
    agent = Agent(
        name="opencode",
        settings={"provider": "opencode", "model": "anthropic/claude-sonnet-4-5"},
        version="1.18.33",
        key="ANTHROPIC_API_KEY",
        variables=dict.fromkeys(("OPENAI_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"), KEY),
        skills=".opencode/skills",
        instructions="AGENTS.md",
        workspace={
            "opencode.json": json.dumps(
                {"mcp": {"poems": {"type": "local", "command": ["python3", "/workspace/poems.py"]}}}
            ),
        },
        targets={
            "responses": {"model": "openai/gpt-5"},
            "google": {"model": "google/gemini-2.5-pro"},
            "other": {"model": "local/some-model"},
            "short": {"max_turns": 3},
        },
        servers=("responses", "google", "other"),
        failures={
            "cut": Failure(
                "hasty",
                "cut-slowly",
                "The model's answers end without a reason, as when a stream is cut off",
            ),
            "no-model": Failure("fake", "write", "events of opencode stop before its session ended"),
        },
        tests=[session("turns", "short", "obeys", contains("my last words"))],
        cut="",
        recites="poems_recite",
        hasty_s=100,
    )

    def test_what_was_done_stands_in_the_rows(self, ran: Ran) -> None:
        """Messages, calls, inputs and outputs in full."""
        given = {"filePath": "/workspace/hello.py", "content": GREETING}
        assert ran.messages("write") == [
            {
                "content": "Writing.",
                "tool_calls": [call("Write", given, "Wrote file successfully.", identity="write_0_0")],
            },
            {"content": [{"type": "text", "text": "done: hello.py"}, HELLO_FILE]},
        ]
        path = "/workspace/notes.txt"
        text = "\n<type>file</type>\n<content>\n1: draft\n\n(End of file - total 1 lines)\n</content>"
        edit = {"filePath": path, "oldString": "draft", "newString": "final"}
        assert ran.messages("edit") == [
            {
                "tool_calls": [
                    call(
                        "Read",
                        {"filePath": path, "file_path": path},
                        f"<path>{path}</path>{text}",
                        identity="edit_0_0",
                    )
                ]
            },
            {
                "content": "Editing.",
                "tool_calls": [call("Edit", edit, "Edit applied successfully.", identity="edit_1_0")],
            },
            {"content": [{"type": "text", "text": "done: edited"}, NOTES_FILE]},
        ]
        failing = {"command": "echo oops >&2; exit 3"}
        assert ran.messages("run")[1:] == [
            {"tool_calls": [call("Bash", failing, "oops\n", "error", "run_1_0")]},
            RAN,
        ]
        assert ran.messages("many")[0]["tool_calls"] == [
            call("Bash", {"command": "echo one"}, "one\n", identity="many_0_0"),
            call("Bash", {"command": "echo two"}, "two\n", identity="many_0_1"),
        ]
        [skill] = ran.calls("skill")
        assert (skill["tool"], skill["input"]) == ("Skill", {"name": "greet", "skill": "greet"})
        assert (skill["status"], skill["output"].splitlines()[0]) == ("ok", '<skill_content name="greet">')

    def test_figures_and_facts_stand_in_the_rows(self, ran: Ran) -> None:
        row = ran.rows["many"]
        usage = {"input": 2 * INPUT, "output": 2 * OUTPUT, "cached": 2 * CACHED}
        assert row["token_usage"] == usage
        assert row["cost_usd"] > 0
        assert row["claimed"]["cost_usd"] > 0  # by OpenCode's own reckoning
        assert row["claimed"]["turns"] == 2
        facts = {"program": "opencode", "version": self.agent.version}
        model = {"model": "anthropic/claude-sonnet-4-5", "stop_reason": "stop"}
        assert row["agent"] == {**facts, **model}
        assert ran.rows["refusal"]["agent"]["stop_reason"] == "content-filter"
        for server in self.agent.servers:
            assert ran.rows[server]["token_usage"] == {**usage, "reasoning": 2 * REASONING}, server

    def test_its_model_has_the_last_word_when_it_reaches_its_limit_of_turns(self, ran: Ran) -> None:
        """It asks for text alone then, but offers the tools all the same."""
        *earlier, last = ran.talks("obeys")
        assert "Respond with text ONLY" in last and not [talk for talk in earlier if "text ONLY" in talk]
        assert len(earlier) == 2
        assert ran.rows["turns"]["claimed"]["turns"] == 3

    def test_tools_of_the_workspace_are_declared(self, ran: Ran) -> None:
        assert "poems_recite" in {tool["name"] for tool in ran.bodies("write")[0]["tools"]}

    def test_its_servers_are_asked_in_their_ways(self, ran: Ran) -> None:
        assert ran.credentials()["/v1/messages"] == {"x-api-key"}
        # No request for a title either; one with the wrong key belongs to no script.
        asked = [seen for seen in ran.server.seen if seen.path == "/v1/messages" and not seen.script]
        assert {seen.status for seen in asked} <= {401}
