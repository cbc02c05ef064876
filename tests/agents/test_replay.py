"""``run --record`` and ``run --replay`` with real programs: two coding agents, a model and a judge."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from .harness import ENV, KEY
from .model_server import ModelServer
from .scripts import SKILL, scripts

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("agents")]

AGENTS = "execution: {targets: [claude, codex]}"
SUITE = f"""
workspace:
  template: template
  env:{ENV}
execution: {{targets: [claude, codex, model], workers: 3}}
tests:
  - id: write
    input: "Please do script:write"
    {AGENTS}
    assertions:
      - {{type: contains, value: "done: hello.py"}}
      - {{type: llm-grader, target: judge, prompt: "Is {{{{ output }}}} fine?"}}
  - id: fail
    input: "script:fail"
    {AGENTS}
    assertions: [{{type: contains, value: "it failed"}}]
  - id: many
    input: "script:many"
    {AGENTS}
    assertions: [{{type: contains, value: "done: both"}}]
  - id: once
    input: "script:once"
    {AGENTS}
    assertions: [{{type: contains, value: "fine after all"}}]
  - id: talk
    mode: conversation
    input: "Let us talk."
    {AGENTS}
    turns:
      - {{input: "script:talk-1", assertions: [{{type: contains, value: "noted"}}]}}
      - {{input: "script:talk-3", assertions: [{{type: contains, value: "it was first"}}]}}
  - id: plain
    input: "script:none"
    execution: {{targets: [model]}}
    assertions: [{{type: contains, value: "0.5"}}]
"""
TARGETS = """targets:
  - {name: claude, provider: claude, model: claude-sonnet-4-5, base_url: "${{ MODELS }}", grader_target: judge}
  - {name: codex, provider: codex, model: gpt-5, base_url: "${{ MODELS }}", grader_target: judge}
  - {name: judge, provider: openai, base_url: "${{ MODELS }}", api_key: "${{ OPENAI_API_KEY }}", model: gpt-5}
  - {name: model, provider: openai, base_url: "${{ MODELS }}", api_key: "${{ OPENAI_API_KEY }}", model: gpt-5}
"""
HASHES = {"input_hashes"}
"""They know the address of the server, which is gone in a replay."""
TIMES = {"timestamp", "duration_ms", "total_duration_ms", "start_time", "end_time", "started_at", "ended_at"}
TIMES |= {"row_sha256"}  # of the whole row, with its times
JUDGED = json.dumps({"score": 0.5, "assertions": [{"text": "it is fine", "passed": True}]})
KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")
NOWHERE = "http://127.0.0.1:9"


def run(folder: Path, *options: str, models: str, key: str | None = None) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name not in KEYS}
    env |= {"MODELS": models, **(dict.fromkeys(KEYS, key) if key else {})}
    argv = [sys.executable, "-m", "agentv_sandbox", "run", "s.eval.yaml", *options]
    return subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, timeout=500, check=False)


def timeless(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: timeless(each) for key, each in value.items() if key not in TIMES}
    return [timeless(each) for each in value] if isinstance(value, list) else value


def told(row: Any) -> Any:
    return {key: value for key, value in timeless(row).items() if key not in HASHES}


def rows(out: Path) -> dict[tuple[str, str], Any]:
    lines = map(json.loads, (out / "index.jsonl").read_text().splitlines())
    return {(row["test_id"], row["target"]): row for row in lines}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, tool_image: str) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("replay")
    (folder / "template/.claude/skills/greet").mkdir(parents=True)
    (folder / "template/.claude/skills/greet/SKILL.md").write_text(SKILL)
    (folder / "targets.yaml").write_text(TARGETS)
    (folder / "s.eval.yaml").write_text(SUITE)
    told = scripts(skills="/workspace/.claude/skills", key=KEY)
    with ModelServer(told, key=KEY, plain=JUDGED) as server:
        done = run(folder, "--record", "calls", "-o", "live", models=server.url, key=KEY)
    assert done.returncode == 1, done.stdout + done.stderr  # the judge gives 0.5
    index = folder / "live/index.jsonl"
    index.write_text(index.read_text().replace(server.url, NOWHERE))
    yield folder


def test_two_replays_without_the_server_and_without_keys_give_equal_rows(recorded: Path) -> None:
    live, replays = rows(recorded / "live"), []
    for name in ("first", "second"):
        done = run(recorded, "--replay", "calls", "-o", name, models=NOWHERE)
        assert done.returncode == 1, done.stdout + done.stderr
        assert "no model is asked" in done.stdout
        replays.append(rows(recorded / name))
    assert len(live) == 11
    assert {row["execution_status"] for row in live.values()} == {"ok", "quality_failure"}
    texts = [
        {test: json.dumps(timeless(row), sort_keys=True) for test, row in each.items()} for each in replays
    ]
    for test in live:
        assert texts[0][test] == texts[1][test]
        assert told(live[test]) == told(replays[0][test])
    for test in live:
        if (log := replays[0][test].get("network_log_path")) is not None:
            visits = [json.loads(line) for line in (recorded / "first" / log).read_text().splitlines()]
            assert visits and all(visit["replayed"] for visit in visits)
        first, second = (
            [timeless(json.loads(line)) for line in (recorded / out / path).read_text().splitlines()]
            for out in ("first", "second")
            for path in (replays[0][test]["transcript_path"],)
        )
        for line in (*first, *second):
            line.pop("transcript_duration_ms", None), line["source"].pop("session_id")
        # Tools that run at the same time end in any order, and Codex says it in that order.
        assert first == second or test == ("many", "codex")


def test_the_recording_has_no_key(recorded: Path) -> None:
    files = [path for path in (recorded / "calls").rglob("*") if path.is_file()]
    assert len(files) > 20
    assert not [path for path in files if KEY.encode() in path.read_bytes()]


def test_one_byte_of_a_prompt_is_a_clear_miss(recorded: Path) -> None:
    suite = (recorded / "s.eval.yaml").read_text()
    (recorded / "s.eval.yaml").write_text(suite.replace("Please do script:write", "please do script:write"))
    try:
        done = run(recorded, "--replay", "calls", "-o", "missed", "--test-id", "write", models=NOWHERE)
    finally:
        (recorded / "s.eval.yaml").write_text(suite)
    assert done.returncode == 3, done.stdout + done.stderr
    for row in rows(recorded / "missed").values():
        assert (row["execution_status"], row["failure_stage"]) == ("execution_error", "agent")
        assert "the recording has no such call; the nearest, calls/" in row["error"]
        assert "Please do script" in row["error"] and "please do script" in row["error"]


def test_a_judge_that_was_asked_something_else_is_a_miss(recorded: Path) -> None:
    suite = (recorded / "s.eval.yaml").read_text()
    (recorded / "s.eval.yaml").write_text(suite.replace("fine?", "good?"))
    try:
        done = run(recorded, "--replay", "calls", "-o", "judge", "--test-id", "write", models=NOWHERE)
    finally:
        (recorded / "s.eval.yaml").write_text(suite)
    assert done.returncode == 3, done.stdout + done.stderr
    for row in rows(recorded / "judge").values():
        assert "no answer in the replay: the recording has no such call" in json.dumps(row["scores"])


def test_a_folder_that_is_no_recording_runs_nothing(recorded: Path) -> None:
    done = run(recorded, "--replay", "template", "-o", "none", models=NOWHERE)
    assert done.returncode == 2
    assert "there is no recording.json in it" in done.stderr
    assert not (recorded / "none").exists()
    done = run(recorded, "--record", "calls", "-o", "none", models=NOWHERE, key="k")
    assert done.returncode == 2
    assert "is not empty" in done.stderr
