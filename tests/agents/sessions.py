"""What is tested of every kind of agent."""

from __future__ import annotations

import json
from typing import ClassVar

import pytest

from .harness import INSTRUCTIONS, KEY, Agent, Ran
from .model_server import INPUT
from .scripts import ANSWERS, LONG


class AgentTests:
    """A class for each kind says which ``agent`` is meant, and adds tests."""

    agent: ClassVar[Agent]

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        if "failure" in metafunc.fixturenames:
            metafunc.parametrize("failure", list(self.agent.all_failures))
        if "of_servers" in metafunc.fixturenames:
            metafunc.parametrize("of_servers", ["many", *self.agent.servers])

    def test_every_session_is_answered_and_graded(self, ran: Ran) -> None:
        names = {*ANSWERS, "talk", *self.agent.servers, *(str(test["id"]) for test in self.agent.tests)}
        assert names | self.agent.all_failures.keys() == ran.rows.keys()
        for name in names if self.agent.prints_refusals else names - {"refusal"}:
            row = ran.rows[name]
            assert row["execution_status"] == "ok", (name, row.get("error"), ran.output)
            assert row["score"] == 1.0, (name, row["scores"])
        assert len(ran.rows["write"]["scores"]) == 5

    def test_answers_of_the_model_stand_in_the_rows(self, ran: Ran) -> None:
        assert ran.read("long", "answer_path").strip() == LONG.strip()
        if self.agent.prints_refusals:
            assert ran.read("refusal", "answer_path") == "I will not do that."
        else:
            row = ran.rows["refusal"]
            assert (row["execution_status"], row["score"]) == ("quality_failure", 0.0)

    def test_calls_at_once_are_one_message_with_every_kind_of_server(self, ran: Ran, of_servers: str) -> None:
        both, last = ran.messages(of_servers)
        assert (both["content"], last["content"]) == ("Both.", "done: both")
        calls = sorted(both["tool_calls"], key=lambda call: str(call["input"]))  # made at the same time
        assert [
            (each["tool"], each["input"]["command"], each["output"].partition("\n")[0], each["status"])
            for each in calls
        ] == [("Bash", "echo one", "one", "ok"), ("Bash", "echo two", "two", "ok")]
        assert len({each["id"] for each in calls}) == 2

    def test_what_the_workspace_says_reaches_the_model(self, ran: Ran) -> None:
        """Instructions and skills of the workspace, and the target's own system prompt."""
        said = json.dumps(ran.bodies("write")[0])
        for text in (INSTRUCTIONS, "Be brief.", "Greets people"):
            assert text in said, text

    def test_the_workspaces_own_mcp_server_is_used(self, ran: Ran) -> None:
        """It runs inside the container, and after an error of the model's server, which is asked again."""
        [made] = ran.calls("once")
        if self.agent.recites is None:
            assert (made["tool"], made["output"].strip()) == ("Bash", "there is no tool for it")
            return
        assert (made["tool"], made["status"]) == (self.agent.recites, "ok")
        output = json.dumps(made["output"])
        assert "roses are red for " in output
        assert int(output.partition(" red for ")[2].partition(".")[0]) >= 20_000  # its user

    def test_files_of_the_answer_say_which_rule_chose_them(self, ran: Ran) -> None:
        assert ran.files("write") == [("hello.py", self.agent.chosen)]
        assert ran.files("edit") == [("notes.txt", self.agent.chosen)]
        assert ran.files("run") == [("table.csv", "named by a tool")]
        assert ran.files("many") == []
        assert ran.files("talk") == []  # outputs names a file that did not change, and nothing else counts

    def test_an_image_reaches_the_model(self, ran: Ran) -> None:
        assert "iVBORw0KGgo" in ran.talks("image")[-1]

    def test_a_conversation_goes_on_in_one_session(self, ran: Ran) -> None:
        first, second, third = (ran.talks(f"talk-{n}")[0] for n in (1, 2, 3))
        assert "Let us talk." in first
        assert "noted: first" in second and "second answer" in third
        assert third.count("Let us talk.") == 1  # it was not told again
        talk = ran.rows["talk"]
        assert [score["score"] for score in talk["scores"]] == [1.0, 1.0, 1.0]
        assert talk["token_usage"]["input"] == 5 * INPUT
        assert talk["cost_usd"] == pytest.approx(5 / 2 * ran.rows["many"]["cost_usd"])

    def test_a_failure_is_an_execution_error_that_says_why(self, ran: Ran, failure: str) -> None:
        row = ran.rows[failure]
        assert (row["execution_status"], row["failure_stage"], row["score"]) == (
            "execution_error",
            "agent",
            0,
        )
        assert self.agent.all_failures[failure].said in row["error"], row["error"]

    def test_what_a_failed_agent_had_done_is_kept(self, ran: Ran) -> None:
        for test in {"hangs", "crash", "turns"} & self.agent.all_failures.keys():
            assert [made["tool"] for made in ran.calls(test)][:1] == ["Bash"], test

    def test_events_that_the_agent_forged_change_nothing(self, ran: Ran) -> None:
        row = ran.rows["forged"]
        assert (row["score"], row["token_usage"]["input"]) == (1.0, 2 * INPUT)
        assert "Traceback" not in ran.output

    def test_the_key_is_nowhere(self, ran: Ran) -> None:
        """The model's server got the key, and no file of the run has it, nor what the agent found and printed."""
        assert any(KEY in " ".join(seen.headers.values()) for seen in ran.server.seen)
        for path in ran.folder.parent.rglob("*"):
            assert not path.is_file() or KEY.encode() not in path.read_bytes(), path
        assert KEY not in ran.output
        self.check_secrets(*(made["output"] for made in ran.calls("secrets")))

    def check_secrets(self, searched: str, printed: str) -> None:
        """What the agent's own commands found: in its container's files and processes, and in their environment."""
        assert "searched True" in searched and "found in" not in searched
        self.check_printed(printed)

    def check_printed(self, printed: str) -> None:
        """The names and values of keys in that environment."""
        assert f"{self.agent.key}=(stand-in)" in printed

    def test_nothing_but_the_models_server_is_asked(self, ran: Ran) -> None:
        log = [json.loads(line) for line in ran.read("write", "network_log_path").splitlines()]
        assert {(row["endpoint"], row["decision"]) for row in log} == {
            (f"127.0.0.1:{ran.server.port}", "allowed")
        }
