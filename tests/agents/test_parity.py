"""The same suite with the same programs: AgentV drives them on the machine itself, we in containers; one scripted model
answers both. Rows agree but for what ``DIFFERENCES`` lists, which stands in docs/reference/agents.md as well.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from .harness import KEY
from .model_server import INPUT, REASONING
from .parity import (
    Both,
    Change,
    Comparison,
    Machine,
    Messages,
    Row,
    answer_tests,
    as_is,
    copy_of,
    documented,
    each_call,
    figures,
    in_order,
    texts,
    without_output,
)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("parity")]

KINDS = ("claude", "codex")
TARGETS = """targets:
  - name: claude
    provider: claude
    model: claude-sonnet-4-5
    base_url: ${{ MODELS }}
    env: [CLAUDE_CODE_MAX_RETRIES]
    grader_target: judge
  - {name: codex, provider: codex, model: gpt-5, base_url: "${{ MODELS }}", grader_target: judge}
  - {name: judge, provider: mock, response: x}
"""
ANSWERS = {
    "write": "done: hello.py",
    "edit": "done: edited",
    "run": "done: 1,2, then it failed",
    "many": "done: both",
    "skill": "hello, as the skill says",
    "long": "word word",
    "cut": "x",
    "refusal": "I will not do that.",
}
MEASURED = """
  - id: measured
    input: "Please do script:write"
    assertions:
      - {type: tool-trajectory, mode: any_order, minimums: {Write: 1}}
      - {type: tool-trajectory, mode: any_order, minimums: {Bash: 1}}
      - {type: skill-trigger, skill: greet, should_trigger: false}
      - {type: token-usage, max_total: 4000}
      - {type: cost, budget: 1}
      - {type: latency, threshold: 60000}
      - {type: execution-metrics, max_tool_calls: 1, max_llm_calls: 3}
  - id: used
    input: "Please do script:skill"
    assertions:
      - {type: skill-trigger, skill: greet}
      - {type: skill-trigger, skill: other}
  - id: talk
    mode: conversation
    input: "Let us talk."
    turns:
      - {input: "script:talk-1", assertions: [{type: contains, value: "noted"}]}
      - {input: "script:talk-3", assertions: [{type: contains, value: "it was first"}]}
"""
SERVER = """
sandbox_mode = "danger-full-access"
approval_policy = "never"
model_provider = "scripted"
[analytics]
enabled = false
[model_providers.scripted]
name = "scripted"
base_url = "URL"
env_key = "OPENAI_API_KEY"
wire_api = "responses"
supports_websockets = false
stream_max_retries = 1
"""
"""Codex's configuration on the machine: the one server, and none of its own sandbox, which our containers replace."""


def split(messages: Sequence[Row]) -> Messages:
    pieces: Messages = []
    for message in messages:
        pieces += [{"content": message["content"]}] if message["content"] else []
        pieces += [{"content": "", "tool_calls": [call]} for call in message.get("tool_calls", ())]
    return pieces


def joined(messages: Sequence[Row]) -> Messages:
    calls = [call for message in messages for call in message.get("tool_calls", ())]
    said = [message["content"] for message in messages if message["content"]]
    whole = {"content": said[-1] if said else ""}
    return [{**whole, "tool_calls": calls} if calls else whole] if messages else []


def without_defaults(call: dict[str, Any]) -> dict[str, Any]:
    given = {name: value for name, value in call["input"].items() if (name, value) != ("replace_all", False)}
    return {**call, "input": given}


def unwrapped(call: dict[str, Any]) -> dict[str, Any]:
    words = shlex.split(call["input"]["command"])
    assert words[:2] == ["/bin/bash", "-lc"], words
    return {**call, "input": {"command": words[2]}}


@dataclass(frozen=True)
class Difference:
    """What makes our messages AgentV's, and the other way round where that is simpler."""

    of: tuple[str, ...]
    ours: Change = as_is
    theirs: Change = as_is


IN_MESSAGES = {
    "files of the answer": Difference(KINDS, ours=texts),
    "outputs of Claude's tools": Difference(("claude",), ours=each_call(without_output)),
    "defaults in inputs of Claude's tools": Difference(("claude",), theirs=each_call(without_defaults)),
    "a call that failed": Difference(KINDS, ours=each_call(lambda call: {**call, "status": "ok"})),
    "answers of Claude": Difference(("claude",), ours=split),
    "answers of Codex": Difference(("codex",), ours=joined),
    "commands of Codex": Difference(("codex",), theirs=each_call(unwrapped)),
}
IN_ROWS = (
    "times of calls",
    "reasoning tokens of Codex",
    "cost of Codex",
    "a model of Claude's that refuses",
    "a failed agent",
    "a conversation",
    "later turns of a conversation",
)
"""Each has a test below. Both lists stand in docs/reference/agents.md, with the reasons."""


def prepare(machine: Machine) -> dict[str, str]:
    """The very programs of the image, as commands, and where they find the models' server."""
    folder, commands = machine.programs, machine.commands
    for package in ("@anthropic-ai/claude-code/bin", "@openai/codex-linux-x64/vendor"):
        copy_of(machine.files, f"/opt/npm/node_modules/{package}", folder / package)
    (commands / "claude").symlink_to(folder / "@anthropic-ai/claude-code/bin/claude.exe")
    (commands / "codex").symlink_to(next(folder.glob("@openai/codex-linux-x64/vendor/*/bin/codex")))
    (machine.home / ".codex").mkdir()
    (machine.home / ".codex/config.toml").write_text(SERVER.replace("URL", machine.models))
    return {
        "ANTHROPIC_BASE_URL": machine.models,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "IS_SANDBOX": "1",  # without which Claude refuses to bypass permissions for root
    }


RECORDED = Comparison(
    name="parity-claude-codex",
    kinds=KINDS,
    targets=TARGETS,
    tests=answer_tests(ANSWERS) + MEASURED,
    variables={"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY, "CLAUDE_CODE_MAX_RETRIES": "1"},
    prepare=prepare,
)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    return RECORDED.play(tmp_path_factory.mktemp("parity"))


FAILED = [("cut", "claude"), ("cut", "codex")]
REFUSED = ("refusal", "claude")


def test_both_answered_all_tests(both: Both) -> None:
    assert len(both.keys) == len(KINDS) * (len(ANSWERS) + 3), (both.ours.said, both.theirs.said)
    assert both.keys == sorted(both.theirs.rows), both.theirs.said


def test_the_same_scores_and_figures(both: Both) -> None:
    for key in both.keys:
        ours, theirs = both.ours.rows[key], both.theirs.rows[key]
        if key != REFUSED:
            graded = figures(theirs)
            if key == ("measured", "codex"):  # but for the grader of the cost, which AgentV does not know
                cost = next(s for s in graded["scores"] if s[0] == "cost")
                assert cost[1:] == (0, "fail")
                graded["scores"][graded["scores"].index(cost)] = ("cost", 1, "pass")
                graded |= {
                    "score": pytest.approx(graded["score"] + 1 / len(graded["scores"])),
                    "status": "ok",
                }
            assert figures(ours) == graded, (key, ours.get("error"), theirs.get("error"))
        if key[0] != "talk" and key not in (*FAILED, REFUSED):
            usage = {k: v for k, v in ours["token_usage"].items() if k != "reasoning"}
            assert usage == theirs["token_usage"], key
            if key[1] != "codex":
                assert ours["cost_usd"] == pytest.approx(theirs["cost_usd"]), key
            assert min(ours["duration_ms"], theirs["duration_ms"]) > 0
    scores = {name: score for name, score, _ in figures(both.ours.rows["measured", "claude"])["scores"]}
    assert (
        len(scores) == 6 and scores["execution-metrics"] == 1.0
    )  # and none passed or failed for want of data


def test_the_same_messages_but_for_the_table(both: Both) -> None:
    changed = set()
    for key in both.keys:
        if key[0] == "talk" or key in (*FAILED, REFUSED):
            continue
        ours, theirs = both.ours.messages[key], both.theirs.messages[key]
        for name, difference in IN_MESSAGES.items():
            if key[1] in difference.of:
                before, ours, theirs = (ours, theirs), difference.ours(ours), difference.theirs(theirs)
                changed |= {name} if before != (ours, theirs) else set()
        assert in_order(ours) == in_order(theirs), key
        assert ours or key == ("refusal", "codex")
    assert changed == set(IN_MESSAGES)  # none is there that is no longer one


def test_times_of_calls(both: Both) -> None:
    for kind in KINDS:
        theirs, ours = both.theirs.calls["run", kind], both.ours.calls["run", kind]
        assert len(theirs) == len(ours) == 2
        assert all(call["duration_ms"] >= both.theirs.rows["run", kind]["duration_ms"] for call in theirs)
        assert all(0 <= call["duration_ms"] < both.ours.rows["run", kind]["duration_ms"] for call in ours)


def test_reasoning_tokens_of_codex(both: Both) -> None:
    assert both.ours.rows["many", "codex"]["token_usage"]["reasoning"] == 2 * REASONING
    assert "reasoning" not in both.theirs.rows["many", "codex"]["token_usage"]


def test_cost_of_codex(both: Both) -> None:
    assert both.ours.rows["many", "codex"]["cost_usd"] > 0
    assert "cost_usd" not in both.theirs.rows["many", "codex"]


def test_a_model_of_claude_that_refuses(both: Both) -> None:
    ours, theirs = both.ours.rows[REFUSED], both.theirs.rows[REFUSED]
    assert (ours["execution_status"], ours["score"]) == ("ok", 1.0)
    assert ours["agent"]["stop_reason"] == "refusal"
    assert theirs["execution_status"] == "execution_error"
    assert "exited with code 1" in theirs["error"]


@pytest.mark.parametrize("key", FAILED)
def test_a_failed_agent(both: Both, key: tuple[str, str]) -> None:
    assert [m["content"][:15] for m in both.theirs.messages[key]] == ["Error occurred:"]
    assert both.ours.messages[key] == []  # nothing was said before the stream was cut
    assert key[1] in both.ours.rows[key]["error"][:20]


@pytest.mark.parametrize("kind", KINDS)
def test_conversations(both: Both, kind: str) -> None:
    ours, theirs = both.ours.rows["talk", kind], both.theirs.rows["talk", kind]
    assert ours["token_usage"]["input"] == 4 * INPUT
    assert "token_usage" not in theirs
    assert not both.theirs.calls["talk", kind] and len(both.ours.calls["talk", kind]) == 2
    said = [m["content"] for m in texts(both.ours.messages["talk", kind]) if m["content"]]
    assert said == [m["content"] for m in both.theirs.messages["talk", kind]]
    path = {"claude": "/messages", "codex": "/responses"}[kind]
    for side, is_remembered in ((both.ours, True), (both.theirs, False)):
        [turn, *_] = [s for s in side.seen if s.script == "talk-3" and path in s.path]
        assert ("script:talk-1" in json.dumps(turn.body)) is is_remembered


def test_the_table_is_documented() -> None:
    listed = documented("## Beside AgentV\n")
    assert listed[: len(IN_MESSAGES) + len(IN_ROWS)] == [*IN_MESSAGES, *IN_ROWS]
