"""``provider: pi-cli``: what the real program did, through our proxy, against a scripted model."""

from __future__ import annotations

import json

import pytest

from .harness import HELLO_FILE, INSTRUCTIONS, NOTES_FILE, RAN, Agent, Ran, call, contains, session
from .model_server import CACHED, INPUT, OUTPUT, REASONING
from .scripts import GREETING
from .sessions import AgentTests

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("pi")]


def bash(command: str) -> dict[str, str | None]:
    return {"command": command, "timeout": None}


class TestPi(AgentTests):
    agent = Agent(
        name="pi",
        settings={
            "provider": "pi-cli",
            "subprovider": "openai",
            "model": "gpt-4.1",
            "api_key": "${{ OWN_KEY }}",
        },
        version="0.87.1",
        key="OWN_KEY",
        skills=".pi/skills",
        instructions="AGENTS.md",
        workspace={"idle-agent": '#!/bin/sh\necho \'{"type": "agent_settled"}\'\n'},
        targets={
            "fake": {"executable": "/workspace/idle-agent"},
            "anthropic": {"subprovider": "anthropic", "model": "claude-sonnet-4-5"},
            "azure": {
                "subprovider": "azure",
                "thinking": "high",
                "model": "gpt-5",
                "tools": ["read", "bash"],
            },
            "openrouter": {"subprovider": "openrouter", "model": "anthropic/claude-sonnet-4.5"},
            "groq": {
                "subprovider": "groq",
                "model": "llama-3.3-70b-versatile",
                "args": ["--exclude-tools", "edit"],
            },
            "google": {"provider": "pi", "subprovider": "gemini", "model": "gemini-2.5-flash"},
        },
        servers=("anthropic", "azure", "openrouter", "groq", "google"),
        tests=[session("unwilling", "anthropic", "refusal", contains("will not"))],
        cut="pi failed: OpenAI Responses stream ended before a terminal response event",
    )

    def test_what_was_done_stands_in_the_rows(self, ran: Ran) -> None:
        """Messages, calls, inputs and outputs in full."""
        given = {"path": "/workspace/hello.py", "content": GREETING}
        wrote = "Successfully wrote to /workspace/hello.py"
        assert ran.messages("write") == [
            {
                "content": "Writing.",
                "tool_calls": [call("Write", given, wrote, identity="write_0_0|fc_write_0_0")],
            },
            {"content": [{"type": "text", "text": "done: hello.py"}, HELLO_FILE]},
        ]
        notes = "/workspace/notes.txt"
        read = {"path": notes, "offset": None, "limit": None, "file_path": notes}
        edited = {"path": notes, "edits": [{"oldText": "draft", "newText": "final"}]}
        replaced = f"Successfully replaced 1 block(s) in {notes}."
        assert ran.messages("edit") == [
            {"tool_calls": [call("Read", read, "draft\n", identity="edit_0_0|fc_edit_0_0")]},
            {
                "content": "Editing.",
                "tool_calls": [call("Edit", edited, replaced, identity="edit_1_0|fc_edit_1_0")],
            },
            {"content": [{"type": "text", "text": "done: edited"}, NOTES_FILE]},
        ]
        said = "oops\n\n\nCommand exited with code 3"
        failed = call("Bash", bash("echo oops >&2; exit 3"), said, "error", "run_1_0|fc_run_1_0")
        assert ran.messages("run")[1:] == [{"tool_calls": [failed]}, RAN]
        assert ran.messages("many")[0]["tool_calls"] == [
            call("Bash", bash("echo one"), "one\n", identity="many_0_0|fc_many_0_0"),
            call("Bash", bash("echo two"), "two\n", identity="many_0_1|fc_many_0_1"),
        ]
        [skill] = ran.calls("skill")
        skills = "/workspace/.pi/skills"
        assert (skill["tool"], skill["input"]["file_path"]) == ("Read", f"{skills}/greet/SKILL.md")
        assert "Say hello." in skill["output"]

    def test_every_kind_of_server_is_asked_in_its_way(self, ran: Ran) -> None:
        assert ran.credentials() == {
            "/v1/responses": {"authorization"},
            "/v1/messages?beta=true": {"x-api-key"},
            "/openai/v1/responses?api-version=v1": {"api-key"},
            "/api/v1/chat/completions": {"authorization"},
            "/openai/v1/chat/completions": {"authorization"},
            "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse": {"x-goog-api-key"},
        }
        (first, *_) = ran.bodies("write")
        assert first["model"] == "gpt-4.1"
        assert "Be brief." in json.dumps(first["input"][-1]) and INSTRUCTIONS in json.dumps(first["input"])
        thinking = next(seen.body for seen in ran.server.seen if "api-version" in seen.path)
        assert thinking["reasoning"]["effort"] == "high"
        assert [tool["name"] for tool in thinking["tools"]] == ["read", "bash"]
        excluding = next(seen.body for seen in ran.server.seen if seen.path == "/openai/v1/chat/completions")
        assert [tool["function"]["name"] for tool in excluding["tools"]] == ["read", "bash", "write"]

    def test_figures_and_facts_stand_in_the_rows(self, ran: Ran) -> None:
        row = ran.rows["many"]
        usage = {"input": 2 * INPUT, "output": 2 * OUTPUT, "cached": 2 * CACHED, "reasoning": 2 * REASONING}
        assert row["token_usage"] == usage
        assert row["cost_usd"] == pytest.approx(0.0036)  # by the gateway's prices
        assert row["claimed"]["token_usage"] == usage
        assert row["claimed"]["cost_usd"] == pytest.approx(0.0036)  # by Pi's own
        assert row["duration_ms"] >= 0
        assert row["claimed"]["turns"] == 2
        facts = {"program": "pi", "version": self.agent.version, "model": "gpt-4.1"}
        assert row["agent"] == {**facts, "stop_reason": "stop"}
        assert ran.rows["unwilling"]["agent"]["stop_reason"] == "refusal"
        assert ran.rows["once"]["claimed"]["turns"] == 2
        events = [each["event"]["type"] for each in ran.events("many")]
        assert (events[0], events[-1]) == ("session", "agent_settled")

    def check_printed(self, printed: str) -> None:
        assert "OWN_KEY=(stand-in)" in printed and "OPENAI_API_KEY=(stand-in)" in printed
