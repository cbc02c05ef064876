"""Copilot and Pi as AgentV drives them on the machine, beside ours in containers, as test_parity.py does for others."""

from __future__ import annotations

import re
from typing import Any

import pytest

from .harness import KEY
from .model_server import CACHED, INPUT, OUTPUT
from .parity import (
    Both,
    Comparison,
    Machine,
    Messages,
    Row,
    answer_tests,
    copy_of,
    documented,
    each_call,
    figures,
    in_order,
    texts,
    without_output,
)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("parity-copilot-pi")]

KINDS = ("copilot", "pi")
SAME = 'model: gpt-4.1, base_url: "${{ MODELS }}", api_key: "${{ OWN_KEY }}", grader_target: judge'
TARGETS = f"""targets:
  - {{name: copilot, provider: copilot-cli, timeout_seconds: 120, {SAME}}}
  - {{name: pi, provider: pi-cli, subprovider: azure, timeout_seconds: 120, {SAME}}}
  - {{name: judge, provider: mock, response: x}}
"""
ANSWERS = {
    "write": "done: hello.py",
    "edit": "done: edited",
    "run": "done: 1,2, then it failed",
    "many": "done: both",
    "long": "word word",
    "refusal": "I will not do that.",
    "broken": "x",
}
MORE = """
  - id: measured
    input: "Please do script:skill"
    assertions:
      - {type: skill-trigger, skill: greet}
      - {type: skill-trigger, skill: other}
      - {type: token-usage, max_total: 4000}
      - {type: latency, threshold: 60000}
      - {type: execution-metrics, max_tool_calls: 1}
  - id: talk
    mode: conversation
    input: "Let us talk."
    turns:
      - {input: "script:talk-1", assertions: [{type: contains, value: "noted"}]}
      - {input: "script:talk-3", assertions: [{type: contains, value: "it was first"}]}
"""
PLACES = {
    "copilot": ("@github/copilot-linux-x64/copilot", "COPILOT_PKG_CACHE_HOME=PROGRAMS/copilot PROGRAM"),
    "pi": ("@earendil-works/pi-coding-agent/dist/bundle/cli.js", "PROGRAMS/node PROGRAM"),
}
"""Each with its file below node_modules, and how it is started."""
OUTSIDE_ANSWERS = ("talk", "broken")
DIFFERENCES = (
    "names of Copilot's calls",
    "answers of Copilot",
    "outputs of Copilot's tools",
    "`write` and `edit` of Pi",
    "outputs of Pi's tools",
    "an answer of Pi without text",
    "tokens of Pi",
    "cost of both",
    "an error of the model's server",
    "conversations of both",
)
"""Those in docs/reference/agents.md, with the reasons."""


def prepare(machine: Machine) -> dict[str, str]:
    """The very programs of the image, as commands."""
    folder, commands = machine.programs, machine.commands
    for package in ("@github/copilot-linux-x64", "@earendil-works"):
        copy_of(machine.files, f"/opt/npm/node_modules/{package}", folder / "node_modules" / package)
    copy_of(machine.files, "/opt/copilot", folder / "copilot")
    copy_of(machine.files, "/usr/local/bin/node", folder / "node")
    for name, (place, start) in PLACES.items():
        line = start.replace("PROGRAMS", str(folder)).replace("PROGRAM", str(folder / "node_modules" / place))
        (commands / name).write_text(f'#!/bin/sh\nexec env {line} "$@"\n')
        (commands / name).chmod(0o755)
    # Else AgentV takes the program of its own packages.
    chosen = f"provider: copilot-cli, executable: {commands}/copilot,"
    (machine.project / "targets.yaml").write_text(TARGETS.replace("provider: copilot-cli,", chosen))
    return {"COPILOT_OFFLINE": "true"}


RECORDED = Comparison(
    name="parity-copilot-pi",
    kinds=KINDS,
    targets=TARGETS,
    tests=answer_tests(ANSWERS) + MORE,
    variables={"OWN_KEY": KEY},
    prepare=prepare,
)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    return RECORDED.play(tmp_path_factory.mktemp("parity-more"))


def nameless(call: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in call.items() if key != "tool"}


def plain_output(call: dict[str, Any]) -> dict[str, Any]:
    output = call["output"]["content"] if isinstance(call["output"], dict) else call["output"]
    return {**call, "output": re.sub(r"shellId: \d+", "shellId: 0", output)}  # commands at once take turns


def named(call: dict[str, Any]) -> dict[str, Any]:
    return {**call, "tool": {"write": "Write", "edit": "Edit"}.get(call["tool"], call["tool"])}


def one_message(messages: list[Row]) -> Messages:
    calls = [call for message in messages for call in message.get("tool_calls", ())]
    said = "".join(message["content"] for message in messages).replace("Info: /workspace/hello.py", "")
    return [{"content": said, **({"tool_calls": calls} if calls else {})}]


def own_texts(messages: list[Row]) -> Messages:
    """Without the last text in place of one that a message does not have."""
    last = messages[-1]["content"]
    filled = [m for m in messages[:-1] if m["content"] == last]
    return [{**m, "content": "" if m in filled else m["content"]} for m in messages]


def compared(kind: str, ours: Messages, theirs: Messages) -> tuple[Messages, Messages]:
    """Both without what DIFFERENCES lists."""
    ours = each_call(lambda call: {**call, "status": "ok"})(texts(ours))
    if kind == "copilot":
        change = each_call(lambda call: plain_output(nameless(call)))
        return in_order(change(one_message(ours))), in_order(change(one_message(theirs)))
    return in_order(each_call(without_output)(ours)), in_order(each_call(named)(own_texts(theirs)))


def test_both_answered_all_tests(both: Both) -> None:
    assert len(both.keys) == len(KINDS) * (len(ANSWERS) + 2), (both.ours.said, both.theirs.said)
    assert both.keys == sorted(both.theirs.rows), both.theirs.said


def test_the_same_scores(both: Both) -> None:
    for key in both.keys:
        if key[0] != "broken":
            assert figures(both.ours.rows[key]) == figures(both.theirs.rows[key]), key
    assert len(both.ours.rows["measured", "pi"]["scores"]) == 5


def test_the_same_messages_but_for_the_table(both: Both) -> None:
    for key in both.keys:
        if key[0] not in OUTSIDE_ANSWERS:
            ours, theirs = compared(key[1], both.ours.messages[key], both.theirs.messages[key])
            assert ours == theirs, key
            assert ours


def test_tokens_and_cost(both: Both) -> None:
    for key in both.keys:
        if key[0] in OUTSIDE_ANSWERS:
            continue
        ours, theirs = both.ours.rows[key]["token_usage"], both.theirs.rows[key]["token_usage"]
        assert both.ours.rows[key]["cost_usd"] > 0 and "cost_usd" not in both.theirs.rows[key]
        calls = ours["input"] // INPUT
        assert ours["input"] == calls * INPUT
        if key[1] == "copilot":
            assert theirs == ours, key
        else:  # AgentV leaves out what came from the cache
            assert theirs == {"input": calls * (INPUT - CACHED), "output": calls * OUTPUT}, key


def test_a_failed_agent(both: Both) -> None:
    for kind in KINDS:
        ours = both.ours.rows["broken", kind]
        assert ours["execution_status"] == "execution_error"
        assert f"{kind} failed: status 500" in ours["error"]
        assert both.theirs.rows["broken", kind]["execution_status"] == "quality_failure"


@pytest.mark.parametrize("kind", KINDS)
def test_conversations(both: Both, kind: str) -> None:
    ours, theirs = both.ours.rows["talk", kind], both.theirs.rows["talk", kind]
    assert ours["token_usage"]["input"] == 4 * INPUT
    assert "token_usage" not in theirs
    assert not both.theirs.calls["talk", kind] and len(both.ours.calls["talk", kind]) == 2


def test_the_table_is_documented() -> None:
    listed = documented("Of Copilot and Pi a test runs both as well:")
    assert tuple(listed[: len(DIFFERENCES)]) == DIFFERENCES
