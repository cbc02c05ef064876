"""Agents that say of themselves what no model asked for: calls, skills, turns, time, tokens and cost."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
import typer

from agentv_sandbox.base.deadline import Deadline
from agentv_sandbox.base.errors import NotKeptError
from agentv_sandbox.case.conversation import joined_response
from agentv_sandbox.cli.suites import validate
from agentv_sandbox.loading import load_suites
from agentv_sandbox.models.capture import Capture, CapturedState
from agentv_sandbox.models.case import AgentResponse, CaseResult, FileEntry
from agentv_sandbox.models.content import counted
from agentv_sandbox.models.json.wire import written
from agentv_sandbox.models.modelanswer import ModelAnswer
from agentv_sandbox.models.suite import EvalCase, MeasuredBy
from agentv_sandbox.report.logs import MessageLine
from agentv_sandbox.report.page.contents import Originals
from agentv_sandbox.report.page.details import Details
from agentv_sandbox.report.views.interchange import atif
from agentv_sandbox.rows.reader import Run
from agentv_sandbox.rows.record import Row
from agentv_sandbox.rows.redact import Redactor
from agentv_sandbox.rows.restoring import result_of
from agentv_sandbox.rows.rows import row
from agentv_sandbox.rows.trace import Trace
from agentv_sandbox.runfolder.capture.reading import read_capture
from agentv_sandbox.runfolder.capture.writing import document
from agentv_sandbox.targets.chosen import on_its_word
from agentv_sandbox.workspace.collect.produced import produced_files
from tests.graders.fakes import FakeTools, grade_one, spec_of

from .transcripts import (
    CODEX_END,
    COPILOT_END,
    GEMINI_END,
    OPENCODE_END,
    PI_END,
    SECONDS,
    asked,
    calls_of,
    claude_call,
    claude_end,
    claude_result,
    claude_said,
    codex_command,
    codex_item,
    copilot_call,
    gemini_call,
    graded,
    heard,
    opencode_call,
    output_of,
    pi_call,
    response,
    stream,
)

Json = Any
LS = {"command": "ls -la"}
SKILL = {"skill": "greet"}
SKILL_FILE = "/workspace/.claude/skills/greet/SKILL.md"
PATCH = "*** Begin Patch\n*** Add File: hello.py\n+print()\n*** End Patch"
USED = {"type": "skill-trigger", "skill": "greet"}
NOT_USED = {**USED, "should_trigger": False}


def at_least(tool: str, times: int = 1) -> Json:
    return {"type": "tool-trajectory", "mode": "any_order", "minimums": {tool: times}}


def in_order(*calls: Json, **more: Json) -> Json:
    return {"type": "tool-trajectory", "mode": "in_order", "expected": list(calls), **more}


def bounds(**most: Json) -> Json:
    return {"type": "execution-metrics", **most}


@dataclass(frozen=True)
class Forgery:
    """What an agent claims, beside what models asked it to do, and an assertion that it must not pass."""

    kind: str
    says: bytes | Json
    heard: tuple[ModelAnswer, ...] | None
    assertion: Json
    measured_by: MeasuredBy | None = None
    error: bool = False
    """Whether no verdict is the right one, rather than a bad one."""


def claude(*events: Json, at: float = 1_700_000_000.0, **end: Json) -> bytes:
    return stream(claude_said("I begin."), *events, claude_said("done", "last"), claude_end(**end), at=at)


def answer_file(*calls: Json, **figures: Json) -> Json:
    first = {"role": "assistant", "content": "", "tool_calls": list(calls)}
    return {"output": [first, {"role": "assistant", "content": "done"}], **figures}


BASH = [asked("Bash", LS, "c1")]
ONE = heard(BASH, "done")
RAN = (claude_call("Bash", LS, "c1"), claude_result("c1"))
HOST: MeasuredBy = "host"
WIPED = claude()
ALL_KINDS = ["latency", "skill-trigger", "execution-metrics"]
FORGERIES = {
    # Claude's events
    "a skill of one's own": Forgery(
        "claude", claude(*RAN, claude_call("Skill", SKILL, "x1"), claude_result("x1")), ONE, USED
    ),
    "a skill under the id of a real call": Forgery(
        "claude", claude(claude_call("Skill", SKILL, "c1"), *RAN), ONE, USED
    ),
    "a skill under an id that came back": Forgery(
        "claude", claude(*RAN, claude_call("Skill", SKILL, "c1"), claude_result("c1")), ONE, USED
    ),
    "a skill's file that was never read": Forgery(
        "claude", claude(*RAN, claude_call("Read", {"file_path": SKILL_FILE}, "x")), ONE, USED
    ),
    "an output of a call that nobody asked for": Forgery(
        "claude",
        claude(*RAN, claude_call("Grep", {}, "x"), claude_result("x", f"found {SKILL_FILE}")),
        ONE,
        USED,
    ),
    "more calls than were made": Forgery(
        "claude",
        claude(*RAN, *(claude_call("Bash", LS, f"x{n}") for n in range(4))),
        ONE,
        at_least("Bash", 2),
    ),
    "one call twice": Forgery(
        "claude", claude(*RAN, claude_call("Bash", LS, "c1"), *RAN), ONE, at_least("Bash", 2)
    ),
    "other arguments under a real id": Forgery(
        "claude",
        claude(claude_call("Bash", {"command": "pytest"}, "c1"), claude_result("c1")),
        ONE,
        in_order({"tool": "Bash", "args": {"command": "pytest"}}),
    ),
    "more arguments under a real id": Forgery(
        "claude",
        claude(claude_call("Bash", {**LS, "sandbox": "strict"}, "c1"), claude_result("c1")),
        ONE,
        in_order({"tool": "Bash", "args": {"sandbox": "strict"}}, args_match="superset"),
    ),
    "another tool under a real id": Forgery(
        "claude", claude(claude_call("Test", LS, "c1"), claude_result("c1")), ONE, at_least("Test")
    ),
    "a tool that the model only spoke of": Forgery(
        "claude",
        claude(claude_call("Skill", SKILL, "x1")),
        heard("I call Skill with greet."),
        USED,
    ),
    "a short time": Forgery(
        "claude", claude(*RAN, duration_ms=1), ONE, {"type": "latency", "threshold": 5000}
    ),
    "a short time among metrics": Forgery(
        "claude", claude(*RAN, duration_ms=1), ONE, bounds(max_duration_ms=5000)
    ),
    "a quick call": Forgery(
        "claude",
        claude(*RAN),
        ONE,
        in_order({"tool": "Bash", "max_duration_ms": 5000}),
    ),
    "a call that took no time at all": Forgery(
        "claude",
        claude(*RAN, at=0),
        ONE,
        in_order({"tool": "Bash", "max_duration_ms": 5000}),
    ),
    "a call whose end no model heard of": Forgery(
        "claude",
        claude(*RAN),
        heard([asked("Bash", LS, "c1", told=False)], "done"),
        in_order({"tool": "Bash", "max_duration_ms": 5000}),
    ),
    "fewer answers of the model": Forgery(
        "claude", WIPED, heard("one", "two", "three", "done"), bounds(max_llm_calls=2)
    ),
    "calls that are not reported": Forgery("claude", WIPED, ONE, bounds(max_tool_calls=0)),
    "a forbidden tool that is not reported": Forgery(
        "claude",
        WIPED,
        ONE,
        {"type": "tool-trajectory", "mode": "subset", "expected": [{"tool": "Read"}]},
    ),
    "a skill that is not reported": Forgery(
        "claude", WIPED, heard([asked("Skill", SKILL, "c1")], "done"), NOT_USED
    ),
    "calls that only look": Forgery(
        "claude",
        claude(*RAN, *(claude_call("Read", {"file_path": "a"}, f"x{n}") for n in range(9))),
        ONE,
        bounds(target_exploration_ratio=0.9),
    ),
    "no cost": Forgery("claude", claude(*RAN, total_cost_usd=0.0), ONE, {"type": "cost", "budget": 1}),
    "few tokens": Forgery(
        "claude",
        claude(*RAN, modelUsage={"m": {"inputTokens": 1, "outputTokens": 1}}),
        ONE,
        {"type": "token-usage", "max_total": 10},
    ),
    # an agent of one's own behind the gateway
    "an answer file with a skill": Forgery(
        "cli", answer_file({"tool": "Bash", "input": LS}, {"tool": "Skill", "input": SKILL}), ONE, USED
    ),
    "an answer file that says what models asked for": Forgery(
        "cli", answer_file({"tool": "Skill", "input": SKILL, "asked_by_model": True}), ONE, USED
    ),
    "an answer file with another name for a real call": Forgery(
        "cli", answer_file({"tool": "Search", "input": LS, "id": "c1"}), ONE, at_least("Search")
    ),
    "an answer file with another name and no id": Forgery(
        "cli", answer_file({"tool": "Search", "input": LS}), ONE, at_least("Search")
    ),
    "an answer file with part of a call": Forgery(
        "cli",
        answer_file({"tool": "Bash", "input": {"command": "la"}}),
        ONE,
        in_order({"tool": "Bash", "args": {"command": "la"}}),
    ),
    "an answer file with a short time": Forgery(
        "cli", answer_file(duration_ms=1), ONE, {"type": "latency", "threshold": 5000}
    ),
    "an answer file with few tokens": Forgery(
        "cli",
        answer_file(token_usage={"input": 1, "output": 1}),
        heard(),
        {"type": "token-usage", "max_total": 10},
    ),
    "an answer file without its calls": Forgery("cli", answer_file(), ONE, bounds(max_tool_calls=0)),
    # without a gateway, where the target asks for the host's account
    "calls that nobody saw": Forgery(
        "cli", answer_file({"tool": "Skill", "input": SKILL}), None, USED, HOST, error=True
    ),
    "the opposite of what nobody saw": Forgery(
        "cli", answer_file(), None, {**USED, "negate": True}, HOST, error=True
    ),
    "no calls that nobody saw": Forgery(
        "cli", answer_file(), None, bounds(max_tool_calls=0), HOST, error=True
    ),
    "a cost that nobody counted": Forgery(
        "cli", answer_file(cost_usd=0.0), None, {"type": "cost", "budget": 1}, HOST, error=True
    ),
    "tokens that nobody counted": Forgery(
        "cli",
        answer_file(token_usage={"input": 1, "output": 1}),
        None,
        {"type": "token-usage", "max_total": 1, "negate": True},
        HOST,
        error=True,
    ),
    "a time of one's own": Forgery(
        "cli", answer_file(duration_ms=1), None, {"type": "latency", "threshold": 5000}, HOST
    ),
    # other programs
    "a command of Codex": Forgery(
        "codex",
        stream(*codex_command("ls -la"), *codex_command("pytest", "item_2"), CODEX_END),
        heard([asked("exec_command", {"cmd": "ls -la"}, "c1")]),
        at_least("Bash", 2),
    ),
    "a command of Codex in the place of another": Forgery(
        "codex",
        stream(*codex_command("pytest"), CODEX_END),
        heard([asked("exec_command", {"cmd": "ls -la"}, "c1")]),
        in_order({"tool": "Bash", "args": {"command": "pytest"}}),
    ),
    "a skill of Codex": Forgery(
        "codex",
        stream(codex_item(type="mcp_tool_call", server="skills", tool="greet", arguments={}), CODEX_END),
        heard([asked("exec_command", {"cmd": "echo skills greet"}, "c1")]),
        USED,
    ),
    "a change of Codex that no patch made": Forgery(
        "codex",
        stream(
            codex_item(type="file_change", changes=[{"path": "/workspace/b.py", "kind": "add"}]), CODEX_END
        ),
        heard([asked("apply_patch", PATCH, "c1")]),
        in_order({"tool": "Edit", "args": {"changes": [{"path": "/workspace/b.py", "kind": "add"}]}}),
    ),
    "a change of Codex by a command that changed nothing": Forgery(
        "codex",
        stream(codex_item(type="file_change", changes=[{"path": "/workspace/a.py"}]), CODEX_END),
        heard([asked("exec_command", {"cmd": "cat a.py"}, "c1")]),
        at_least("Edit"),
    ),
    "a command that is not in Codex's program": Forgery(
        "codex",
        stream(*codex_command("rm notes.txt"), CODEX_END),
        heard([asked("exec", 'await tools.exec_command({cmd: "cat notes.txt"})', "c1")]),
        at_least("Bash"),
    ),
    "a search of Codex": Forgery(
        "codex",
        stream(codex_item(type="web_search", query="weather"), CODEX_END),
        heard([asked("exec_command", {"cmd": "weather"}, "c1")]),
        at_least("web_search"),
    ),
    "commands of Codex that are not reported": Forgery(
        "codex",
        stream(codex_item(type="agent_message", text="done"), CODEX_END),
        heard([asked("exec_command", {"cmd": "ls"}, "c1")]),
        bounds(max_tool_calls=0),
    ),
    "a skill of Gemini": Forgery(
        "gemini-cli",
        stream(*gemini_call("activate_skill", {"name": "greet"}), GEMINI_END),
        heard([asked("run_shell_command", {"command": "echo greet"})]),
        USED,
    ),
    "the words of a command of Gemini in another order": Forgery(
        "gemini-cli",
        stream(*gemini_call("run_shell_command", {"command": "cp b a"}), GEMINI_END),
        heard([asked("run_shell_command", {"command": "cp a b"})]),
        in_order({"tool": "Bash", "args": {"command": "cp b a"}}),
    ),
    "a skill of OpenCode": Forgery(
        "opencode",
        stream(
            opencode_call("bash", LS, "c1"), opencode_call("skill", {"name": "greet"}, "c2"), OPENCODE_END
        ),
        ONE,
        USED,
    ),
    "a skill of Copilot": Forgery(
        "copilot",
        stream(*copilot_call("skill", SKILL, "c1"), COPILOT_END),
        heard([asked("bash", LS, "c1")]),
        USED,
    ),
    "a skill's file of Pi": Forgery(
        "pi",
        stream(*pi_call("read", {"path": SKILL_FILE}, "c1|item"), PI_END),
        heard([asked("bash", LS, "c1")]),
        USED,
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_what_an_agent_forges_wins_nothing(name: str) -> None:
    forged = FORGERIES[name]
    given = response(forged.kind, forged.says, forged.heard, measured_by=forged.measured_by)
    assert given.failure is None
    verdict = graded(given, **_options(forged.assertion))
    assert (verdict.verdict, verdict.error is not None) == ("fail", forged.error), verdict
    assert verdict.score < 1 and verdict.agents_word == ()


def test_there_are_forty_of_them() -> None:
    assert len(FORGERIES) >= 40


def _options(assertion: Json) -> Json:
    return {"kind": assertion["type"], **{key: value for key, value in assertion.items() if key != "type"}}


@pytest.mark.parametrize("name", [name for name, each in FORGERIES.items() if each.kind == "cli"])
def test_without_a_gateway_an_answer_file_counts_as_in_agentv_and_the_score_says_so(name: str) -> None:
    forged = FORGERIES[name]
    given = response("cli", forged.says, None)
    verdict = graded(given, **_options(forged.assertion))
    assert verdict.agents_word, verdict
    assert given.claim is None
    assert all(call.counts for call in calls_of(given))


# -- honest agents ------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Honest:
    """An agent that reports what it did."""

    kind: str
    says: bytes | Json
    heard: tuple[ModelAnswer, ...]
    made: Sequence[tuple[str, Json]] = field(default_factory=list)


EDIT = {"changes": [{"path": "/workspace/hello.py", "kind": "add"}]}
HONEST = {
    "claude": Honest("claude", claude(*RAN), ONE, [("Bash", LS)]),
    "claude, with a path that it completed": Honest(
        "claude",
        claude(claude_call("Read", {"file_path": "/workspace/a.py"}, "c1")),
        heard([asked("Read", {"file_path": "a.py"}, "c1")]),
        [("Read", {"file_path": "a.py"})],
    ),
    "codex": Honest(
        "codex",
        stream(*codex_command("ls -la"), CODEX_END),
        heard([asked("exec_command", {"cmd": "ls -la", "workdir": "/workspace"}, "c1")]),
        [("Bash", LS)],
    ),
    "codex, as a list of words": Honest(
        "codex",
        stream(*codex_command("ls -la"), CODEX_END),
        heard([asked("shell", {"command": ["bash", "-lc", "ls -la"]}, "c1")]),
        [("Bash", LS)],
    ),
    "codex, a patch": Honest(
        "codex",
        stream(codex_item(type="file_change", **EDIT), CODEX_END),
        heard([asked("apply_patch", PATCH, "c1")]),
        [("Edit", EDIT)],
    ),
    "codex, a patch by a command": Honest(
        "codex",
        stream(codex_item(type="file_change", **EDIT), CODEX_END),
        heard([asked("exec_command", {"cmd": f"apply_patch <<'EOF'\n{PATCH}\nEOF"}, "c1")]),
        [("Edit", EDIT)],
    ),
    "codex, a program": Honest(
        "codex",
        stream(*codex_command("cat a.txt"), *codex_command("cat b.txt", "item_2"), CODEX_END),
        heard(
            [asked("exec", 'for (const f of ["a","b"]) await tools.exec_command({cmd: `cat ${f}.txt`})', "c")]
        ),
        [("Bash", {"command": "cat a.txt"}), ("Bash", {"command": "cat b.txt"})],
    ),
    "codex, a tool of a server": Honest(
        "codex",
        stream(codex_item(type="mcp_tool_call", server="poems", tool="recite", arguments={}), CODEX_END),
        heard([asked("recite", {}, "c1", namespace="mcp__poems")]),
        [("Skill", {"skill": "poems/recite"})],
    ),
    "codex, a search of the provider": Honest(
        "codex",
        stream(codex_item(type="web_search", query="weather"), CODEX_END),
        heard([asked("web_search", {"type": "search", "query": "weather"}, hosted=True)]),
        [("web_search", {"query": "weather"})],
    ),
    "gemini": Honest(
        "gemini-cli",
        stream(
            *gemini_call("activate_skill", {"name": "greet"}),
            *gemini_call("read_file", {"path": "a"}, "g-2"),
            GEMINI_END,
        ),
        heard([asked("activate_skill", {"name": "greet"}), asked("read_file", {"path": "a"})]),
        [("Skill", {"name": "greet", "skill": "greet"}), ("Read", {"path": "a", "file_path": "a"})],
    ),
    "opencode": Honest(
        "opencode",
        stream(opencode_call("skill", {"name": "greet"}, "c1"), OPENCODE_END),
        heard([asked("skill", {"name": "greet"}, "c1")]),
        [("Skill", {"skill": "greet", "name": "greet"})],
    ),
    "copilot": Honest(
        "copilot",
        stream(*copilot_call("view", {"path": "a"}, "c1"), COPILOT_END),
        heard([asked("view", {"path": "a"}, "c1")]),
        [("Read", {"path": "a", "file_path": "a"})],
    ),
    "pi": Honest(
        "pi",
        stream(*pi_call("bash", LS, "c1|item"), PI_END),
        heard([asked("bash", LS, "c1")]),
        [("Bash", LS)],
    ),
    "an agent of one's own": Honest(
        "cli",
        answer_file({"tool": "Bash", "input": LS}, {"tool": "look_up", "input": {"a": 1}, "id": "c2"}),
        heard([asked("run_command", LS, "c1"), asked("lookUp", {"a": 1}, "c2")]),
        [("Bash", LS), ("look_up", {"a": 1})],
    ),
    "a call that another one's words stand in": Honest(
        "claude",
        claude(claude_call("Bash", {"command": ":"}, "x"), claude_call("Bash", LS, "y")),
        heard([asked("Bash", LS, "c1"), asked("Bash", {"command": ":"}, "c2")]),
        [("Bash", {"command": ":"}), ("Bash", LS)],
    ),
}


@pytest.mark.parametrize("name", HONEST)
def test_what_models_asked_for_counts_with_the_hosts_times(name: str) -> None:
    honest = HONEST[name]
    given = response(honest.kind, honest.says, honest.heard)
    made = [call for call in calls_of(given) if call.counts]
    assert [(call.tool, call.input) for call in made] == honest.made
    assert all("reported" not in call.raw and call.duration_ms == 10_000 for call in made)
    assert len(made) == len(calls_of(given))
    assert given.measure.by_agent == () and given.measure.calls_known
    assert given.duration_ms == SECONDS * 1000


def test_an_agent_whose_models_are_asked_without_tools_is_taken_at_its_word_in_calls_alone() -> None:
    """Its commands stand in the text of answers, of which the gateway knows nothing."""
    answers = (ModelAnswer(text="```bash\nls\n```", offered_tools=False),)
    given = response("cli", answer_file({"tool": "bash", "input": {"command": "ls"}}, duration_ms=1), answers)
    assert [call.counts for call in calls_of(given)] == [True]
    assert (given.measure.by_agent, given.duration_ms) == (("tool_calls",), SECONDS * 1000)
    verdict = graded(given, "tool-trajectory", mode="any_order", minimums={"bash": 1})
    assert (verdict.score, verdict.agents_word) == (1.0, ("tool_calls",))


def test_a_target_may_choose_the_agents_word_behind_a_gateway() -> None:
    says = answer_file({"tool": "Skill", "input": SKILL}, duration_ms=7, cost_usd=0.0)
    given = response("cli", says, ONE, measured_by="agent")
    assert (given.duration_ms, given.cost_usd) == (7, None)
    assert given.measure.by_agent == ("tool_calls", "duration_ms")
    assert graded(given, "skill-trigger", skill="greet").score == 1.0


def test_a_coding_agent_that_no_gateway_hears_is_timed_all_the_same() -> None:
    given = response("claude", claude(*RAN, duration_ms=1, total_cost_usd=0.5), None)
    assert given.duration_ms == SECONDS * 1000
    assert given.measure.by_agent == ("tool_calls", "cost_usd")
    assert graded(given, "cost", budget=1).agents_word == ("cost_usd",)
    assert graded(given, "latency", threshold=90_000).agents_word == ()


def test_figures_that_an_agent_gives_stand_in_its_claim() -> None:
    given = response("claude", claude(*RAN, duration_ms=1, total_cost_usd=0.5, num_turns=7), ONE)
    assert given.claim is not None
    assert written(given.claim) == {"cost_usd": 0.5, "duration_ms": 1.0, "turns": 7}


# -- where one answer of Claude's model ends ----------------------------------------------------------------
def texts(given: AgentResponse) -> list[tuple[Json, int]]:
    return [(message.content, len(message.tool_calls or ())) for message in given.messages]


PARALLEL = stream(
    claude_said("Both."),
    claude_call("Bash", {"command": "one"}, "c1"),
    claude_result("c1"),
    claude_call("Bash", {"command": "two"}, "c2"),
    claude_result("c2"),
    claude_said("done", "last"),
    claude_end(),
)
TWO = [asked("Bash", {"command": name}, f"c{n}") for n, name in enumerate(("one", "two"), 1)]
REPEATED = stream(
    claude_said("First."),
    claude_call("Bash", LS, "t"),
    claude_result("t"),
    claude_said("Second."),
    claude_call("Bash", LS, "t"),
    claude_result("t"),
    claude_said("done"),
    claude_end(),
)


def test_parallel_calls_are_one_message_where_the_gateway_saw_one_answer() -> None:
    answers = (ModelAnswer(text="Both.", calls=tuple(TWO)), ModelAnswer(text="done"))
    assert texts(response("claude", PARALLEL, answers)) == [("Both.", 2), ("done", 0)]


def test_without_a_gateway_the_result_of_a_tool_ends_a_message() -> None:
    assert texts(response("claude", PARALLEL, None)) == [("Both.", 1), (None, 1), ("done", 0)]
    assert texts(response("claude", REPEATED, None)) == [("First.", 1), ("Second.", 1), ("done", 0)]


def test_a_server_that_gives_the_same_ids_again_has_as_many_answers_as_it_gave() -> None:
    again = asked("Bash", LS, "t")
    answers = (
        ModelAnswer(text="First.", calls=(again,)),
        ModelAnswer(text="Second.", calls=(again,)),
        ModelAnswer(text="done"),
    )
    given = response("claude", REPEATED, answers)
    assert texts(given) == [("First.", 1), ("Second.", 1), ("done", 0)]
    assert given.measure.answers == 3 and all(call.counts for call in calls_of(given))


def test_text_after_a_call_stays_with_its_answer() -> None:
    events = stream(
        claude_said("First."), *RAN, claude_said("More of it."), claude_said("done", "last"), claude_end()
    )
    answers = (ModelAnswer(text="First. More of it.", calls=tuple(BASH)), ModelAnswer(text="done"))
    assert texts(response("claude", events, answers)) == [("First.\nMore of it.", 1), ("done", 0)]


# -- what is made of a transcript ----------------------------------------------------------------------------
def forged_response() -> AgentResponse:
    write = claude_call("Write", {"file_path": "loot.txt"}, "x")
    return response("claude", claude(*RAN, write, claude_call("Skill", SKILL, "x2")), ONE)


def test_marked_calls_are_kept_and_say_so() -> None:
    made = {call.tool: call.raw.get("asked_by_model", True) for call in calls_of(forged_response())}
    assert made == {"Bash": True, "Write": False, "Skill": False}


def test_a_file_is_none_of_the_answers_because_of_a_call_that_does_not_count() -> None:
    entry = FileEntry(path=b"loot.txt", kind="file", sha256="0" * 64, size=1)
    files, _ = produced_files(counted(forged_response().messages), [entry], [], Deadline())
    assert files == []


def test_a_regraded_run_has_the_verdicts_of_the_first_time(tmp_path: Path) -> None:
    """What is believed stands in the capture, and with it who says it."""
    case = EvalCase(id="a", suite="s", category="c")
    for given in (forged_response(), response("cli", answer_file(duration_ms=1), None)):
        output = output_of(given)
        state = CapturedState(name="answer", response=given, output=output)
        capture = Capture(answered_by="t", asked="x", image="x", graders={}, states=(state,))
        folder = tmp_path / given.measure.by_agent.__str__()
        folder.mkdir()
        (folder / "capture.json").write_bytes(b"".join(document(capture, case, Redactor([]))))
        again = read_capture(tmp_path, folder.name, case).states[0]
        assert again.output is not None
        assert again.response.claim == given.claim
        for assertion in (
            USED,
            at_least("Write"),
            bounds(max_llm_calls=1),
            {"type": "latency", "threshold": 9},
        ):
            kind, options = assertion["type"], {k: v for k, v in assertion.items() if k != "type"}
            first, second = (
                grade_one(spec_of(kind, options), FakeTools(), output=each) for each in (output, again.output)
            )
            assert (first.score, first.verdict, first.agents_word) == (
                second.score,
                second.verdict,
                second.agents_word,
            )


def test_a_capture_that_was_edited_is_refused_rather_than_believed(tmp_path: Path) -> None:
    given = forged_response()
    case = EvalCase(id="a", suite="s", category="c")
    state = CapturedState(name="answer", response=given, output=output_of(given))
    capture = Capture(answered_by="t", asked="x", image="x", graders={}, states=(state,))
    value = json.loads(b"".join(document(capture, case, Redactor([]))))
    for wrong in ({"by_agent": ["everything"]}, {"answers": -1}, {"calls_known": 0}, []):
        value["states"][0]["response"]["measure"] = wrong
        (tmp_path / "t").mkdir(exist_ok=True)
        (tmp_path / "t/capture.json").write_text(json.dumps(value))
        if wrong:
            with pytest.raises(NotKeptError, match="not what a run writes"):
                read_capture(tmp_path, "t", case)


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "turn": 9},
        {"role": "assistant", "turn": -1},
        {"role": ["assistant"], "text": "x"},
        {"text": "x"},
        {
            "role": "assistant",
            "blocks": [{"raw": {"type": "file", "media_type": "a/b", "path": "x"}, "file": {}}],
        },
        {"role": "assistant", "blocks": ["x"]},
    ],
)
def test_a_message_that_no_run_writes_is_refused(tmp_path: Path, message: dict[str, object]) -> None:
    case = EvalCase(id="a", suite="s", category="c")
    given = response("cli", answer_file(), None)
    state = CapturedState(name="answer", response=given, output=output_of(given))
    capture = Capture(answered_by="t", asked="x", image="x", graders={}, states=(state,))
    value = json.loads(b"".join(document(capture, case, Redactor([]))))
    value["states"][0]["output"]["messages"] = [message]
    (tmp_path / "t").mkdir()
    (tmp_path / "t/capture.json").write_text(json.dumps(value))
    with pytest.raises(NotKeptError, match="not what a run writes"):
        read_capture(tmp_path, "t", case)


def test_turns_of_a_conversation_are_measured_together() -> None:
    turns = [response("claude", claude(*RAN, num_turns=2, duration_ms=5), ONE) for _ in range(3)]
    whole = joined_response(turns, [message for turn in turns for message in turn.messages])
    assert (whole.measure.answers, whole.duration_ms) == (6, 3 * SECONDS * 1000)
    assert whole.claim is not None and (whole.claim.turns, whole.claim.duration_ms) == (6, 15)


def test_trajectories_for_other_tools_leave_out_calls_that_do_not_count() -> None:
    steps = atif(
        Row(test_id="a"), map(MessageLine.of, [message.wire() for message in forged_response().messages])
    )["steps"]
    names = [call["function_name"] for step in steps for call in step.get("tool_calls", ())]
    assert names == ["Bash"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["claude", "codex", "gemini-cli"])
def test_a_flood_of_calls_is_checked_in_bounded_time(kind: str) -> None:
    rows: list[Json] = []
    for n in range(1_000):
        given = {"command": f"echo {n}"}
        if kind == "claude":
            rows.append(claude_call("Bash", given, f"x{n}", f"m{n}"))
        else:
            name = f"i{n}"
            codex, gemini = codex_command(f"echo {n}", name), gemini_call("run_shell_command", given, name)
            rows += codex[:1] if kind == "codex" else gemini[:1]
    tool = {"claude": "Bash", "codex": "shell", "gemini-cli": "run_shell_command"}[kind]
    answers = heard([asked(tool, {"command": "x " * 2_000}, f"c{n}") for n in range(250)])
    end = {"claude": claude_end(), "codex": CODEX_END, "gemini-cli": GEMINI_END}[kind]
    began = time.process_time()
    given_response = response(kind, stream(*rows, end), answers)
    assert not any(call.counts for call in calls_of(given_response) if call.raw.get("reported") is not False)
    assert time.process_time() - began < 60


# -- what is said of it ---------------------------------------------------------------------------------------
TARGETS = """
targets:
  - {name: word, provider: cli, command: "true {OUTPUT_FILE}"}
  - {name: host, provider: cli, command: "true {OUTPUT_FILE}", measured_by: host}
  - {name: heard, provider: cli, command: "true {OUTPUT_FILE}", secrets: {KEY: {host: api.openai.com}}}
  - {name: claude, provider: claude, model: claude-sonnet-4-5}
  - {name: past, provider: claude, secrets: {ANTHROPIC_API_KEY: {host: api.anthropic.com, model_server: false}}}
"""
SUITE = """
execution: {target: word, MORE}
tests:
  - id: a
    input: go
    assertions:
      - {type: latency, threshold: 5}
      - {type: composite, name: c, aggregator: {type: weighted_average}, assertions: [{type: skill-trigger, skill: g}]}
      - {type: execution-metrics, max_duration_ms: 5}
      - {type: contains, value: x}
"""


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("", {"word": ALL_KINDS, "past": ["skill-trigger"]}),
        ("measured_by: host", {}),
        (
            "measured_by: agent",
            dict.fromkeys(("word", "heard", "claude", "past"), ALL_KINDS),
        ),
    ],
)
def test_validate_names_what_rests_on_an_agents_word(
    tmp_path: Path, more: str, expected: Json, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "targets.yaml").write_text(TARGETS)
    path = tmp_path / "s.eval.yaml"
    path.write_text(SUITE.replace("MORE", more))
    loaded = load_suites([path], cwd=tmp_path, environ={"KEY": "k", "ANTHROPIC_API_KEY": "k"})
    [suite] = loaded.suites
    words = {name: word for name, target in suite.targets.items() if (word := on_its_word(suite, target))}
    assert words == expected
    with pytest.raises(typer.Exit):
        validate([path])
    said = [
        line for line in capsys.readouterr().out.splitlines() if "verdicts that rest on its own word" in line
    ]
    assert [line.split()[0] for line in said] == list(expected)
    for line, kinds in zip(said, expected.values(), strict=True):
        assert f"own word: {', '.join(kinds)} (" in line


def test_a_wrong_word_for_it_is_an_error_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "targets.yaml").write_text("targets: [{name: word, provider: mock, measured_by: nobody}]")
    path = tmp_path / "s.eval.yaml"
    path.write_text(SUITE.replace("MORE", "measured_by: me"))
    problems = load_suites([path], cwd=tmp_path, environ={}).problems
    said = [f"{p.path and p.path.name}:{p.line} {p.field} {p.message}" for p in problems if not p.warning]
    assert any("s.eval.yaml:2" in each and "measured_by" in each for each in said), said
    assert any("targets.yaml:1" in each and "measured_by" in each for each in said), said


def test_row_trace_and_page_show_claims_marks_and_whose_word_counts(tmp_path: Path) -> None:
    given = response("claude", claude(*RAN, claude_call("Skill", SKILL, "x"), num_turns=9), ONE)
    word = response("cli", answer_file(duration_ms=1), None)
    score = graded(word, "latency", threshold=5)
    case = EvalCase(id="a", suite="s", category="c")
    result = CaseResult(
        case_id="a",
        suite="s",
        category="c",
        target="t",
        score=1.0,
        status="ok",
        threshold=0.8,
        scores=(score,),
        output=replace(output_of(given), messages=given.messages),
        response=given,
    )
    wire = row(result, case, {"artifact_dir": "a", "transcript_path": "transcript.jsonl"}, experiment="x")
    assert wire["claimed"] == {"turns": 9}
    assert wire["scores"][0]["agents_word"] == ["duration_ms"]
    restored = result_of(Row.of({**wire, "total_duration_ms": 1.0})[0])
    assert restored is not None and restored.response is not None
    assert (restored.response.claim, restored.scores[0].agents_word) == (given.claim, ("duration_ms",))
    trace = Trace(result, case, run_id="r", experiment="x", eval_path="s")
    root, *spans = trace.document()["trace"]["spans"]
    assert root["attributes"]["agentv.trace.claimed"] == {"turns": 9}
    marks = [span["attributes"].get("agentv.tool.asked_by_model") for span in spans]
    assert marks == [None, False]
    lines = "".join(json.dumps(line) + "\n" for line in trace.transcript())
    (tmp_path / "transcript.jsonl").write_text(lines)
    shown = Details(Run(path=tmp_path, rows=(), problems=()), 1000, Originals()).of_row(Row.of(wire)[0])
    calls = [(call["tool"], call["asked"]) for message in shown["messages"] for call in message["calls"]]
    assert calls == [("Bash", True), ("Skill", False)]
    assert shown["graders"][0]["agents_word"] == ["time"]
    assert ["claimed", '{\n  "turns": 9\n}'] in shown["facts"]
