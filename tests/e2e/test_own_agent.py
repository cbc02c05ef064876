"""An agent of one's own that reports nothing but its answer: what it did is read off its calls of a model, graded, and
written for other tools."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import forkserver
from tests.agents.model_server import INPUT, OUTPUT, ModelServer, do, say

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("own-agent")]

KEY = "sk-own-agent-4471"
AGENT = r"""
import json, os, subprocess, sys, urllib.request
prompt, answer = open(sys.argv[1]).read(), sys.argv[2]
tool = {"name": "bash", "description": "Runs", "parameters": {
    "type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}}
talk = [{"role": "user", "content": prompt}]
while True:
    body = {"model": "gpt-5", "messages": talk, "tools": [{"type": "function", "function": tool}]}
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {os.environ['OWN_KEY']}"}
    url = f"{os.environ['OWN_URL']}/v1/chat/completions"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    message = json.load(urllib.request.urlopen(request))["choices"][0]["message"]
    talk.append({key: message[key] for key in ("role", "content", "tool_calls") if message.get(key)})
    if not message.get("tool_calls"):
        break
    for call in message["tool_calls"]:
        command = json.loads(call["function"]["arguments"])["command"]
        said = subprocess.run(["sh", "-c", command], capture_output=True, text=True).stdout
        talk.append({"role": "tool", "tool_call_id": call["id"], "content": said})
open(answer, "w").write(json.dumps({"text": "my own answer"}))
"""
SUITE = """
workspace: {template: template, env: {required_commands: [python3]}}
execution: {target: own}
tests:
  - id: work
    input: "script:work"
    assertions:
      - {type: contains, value: "my own answer"}
      - {type: tool-trajectory, mode: exact, expected: [{tool: bash}, {tool: bash}]}
      - {type: tool-trajectory, mode: any_order, minimums: {bash: 2}}
      - {type: skill-trigger, skill: greet}
      - {type: skill-trigger, skill: other, should_trigger: false}
      - {type: execution-metrics, max_tool_calls: 2, max_llm_calls: 3}
  - id: idle
    input: "script:idle"
    assertions: [{type: contains, value: "my own answer"}]
"""
TARGETS = """targets:
  - name: own
    provider: cli
    command: python3 agent.py {PROMPT_FILE} {OUTPUT_FILE}
    gateway: {models: [gpt-5]}
    secrets:
      OWN_KEY: {host: "HOST", scheme: http, model_server: true, base_url_env: OWN_URL}
"""
SCRIPTS = {
    "work": [
        say("I look.", do("run", command="cat skills/greet/SKILL.md; ls -d skills/greet/SKILL.md")),
        say("", do("run", command="echo two")),
        say("all done"),
    ],
    "idle": [say("nothing to do")],
}


def command(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    return forkserver.command(*argv, cwd=folder, env={**os.environ, "OWN_KEY": KEY}, timeout=500)


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, tool_image: str) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("own")
    (folder / "template/skills/greet").mkdir(parents=True)
    (folder / "template/skills/greet/SKILL.md").write_text("Say hello.\n")
    (folder / "agent.py").write_text(AGENT)
    (folder / "s.eval.yaml").write_text(SUITE)
    with ModelServer(SCRIPTS, key=KEY) as server:
        (folder / "targets.yaml").write_text(TARGETS.replace("HOST", f"127.0.0.1:{server.port}"))
        done = command(folder, "run", "s.eval.yaml", "-o", "out")
    assert done.returncode == 0, done.stdout + done.stderr
    yield folder


def rows(ran: Path) -> dict[str, dict]:
    return {
        row["test_id"]: row for row in map(json.loads, (ran / "out/index.jsonl").read_text().splitlines())
    }


def test_graders_see_what_an_agent_did_that_says_nothing_of_it(ran: Path) -> None:
    row = rows(ran)["work"]
    assert (row["score"], row["model_calls"]["calls"]) == (1.0, 3)
    lines = [json.loads(line) for line in (ran / "out" / row["transcript_path"]).read_text().splitlines()]
    assert [line["role"] for line in lines] == ["user", "assistant", "assistant", "assistant"]
    assert lines[1]["content"] == "I look."
    assert "skills/greet/SKILL.md" in lines[1]["tool_calls"][0]["output"]
    assert lines[2]["tool_calls"][0]["output"] == "two\n"
    assert lines[3]["content"] == "my own answer"
    idle = rows(ran)["idle"]
    lines = [json.loads(line) for line in (ran / "out" / idle["transcript_path"]).read_text().splitlines()]
    assert [line["role"] for line in lines] == ["user", "assistant"]


def test_a_run_becomes_atif_documents(ran: Path) -> None:
    done = command(ran, "trajectories", "out")
    assert done.returncode == 0, done.stderr
    assert "2 tests" in done.stdout
    document = json.loads((ran / "out.atif/work--own.atif.json").read_text())
    assert document["schema_version"] == "ATIF-v1.4"
    assert [step["step_id"] for step in document["steps"]] == [1, 2, 3, 4]
    assert [step["source"] for step in document["steps"]] == ["user", "agent", "agent", "agent"]
    [call] = document["steps"][2]["tool_calls"]
    [result] = document["steps"][2]["observation"]["results"]
    assert (call["function_name"], call["arguments"]["command"]) == ("bash", "echo two")
    assert result == {"source_call_id": call["tool_call_id"], "content": "two\n"}
    assert document["final_metrics"]["total_prompt_tokens"] == 3 * INPUT
    assert document["final_metrics"]["total_completion_tokens"] == 3 * OUTPUT
    again = command(ran, "trajectories", "out")
    assert again.returncode == 2 and "is not empty" in again.stderr


def test_a_run_becomes_spans(ran: Path) -> None:
    done = command(ran, "trajectories", "out", "--format", "otel", "-o", "spans")
    assert done.returncode == 0, done.stderr
    document = json.loads((ran / "spans/spans.otlp.json").read_text())
    spans = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert len({span["spanId"] for span in spans}) == len(spans)
    trace = next(span["traceId"] for span in spans if span["name"] == "execute_tool bash")
    named = {span["name"]: span for span in spans if span["traceId"] == trace}
    assert [span["name"] for span in spans].count("chat gpt-5") == 4
    assert [span["name"] for span in spans].count("execute_tool bash") == 2
    root = named["invoke_agent own"]
    assert "parentSpanId" not in root
    for span in spans:
        assert (len(span["traceId"]), len(span["spanId"])) == (32, 16)
        assert 0 < int(span["startTimeUnixNano"]) <= int(span["endTimeUnixNano"])
    chat = {each["key"]: each["value"] for each in named["chat gpt-5"]["attributes"]}
    assert chat["gen_ai.usage.input_tokens"] == {"intValue": str(INPUT)}
    assert chat["gen_ai.provider.name"] == {"stringValue": "openai"}
    assert named["chat gpt-5"]["parentSpanId"] == root["spanId"]
    tool = {each["key"]: each["value"] for each in named["execute_tool bash"]["attributes"]}
    assert tool["gen_ai.tool.call.result"] == {"stringValue": "two\n"}
