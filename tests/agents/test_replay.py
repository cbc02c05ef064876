"""``run --record`` and ``run --replay``: two coding agents, a model and a judge, whose sessions are played. With real
programs, which ask anew, ``test_real.py`` tries it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from .harness import made_for
from .playing import Player
from .scenes import ENV, KEY, Ran, Scene
from .scripts import SKILL, scripts

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("replay")]

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
TIMES = {
    "timestamp",
    "duration_ms",
    "total_duration_ms",
    "start_time",
    "end_time",
    "started_at",
    "ended_at",
} | {
    "files_sha256",  # of files that hold times: transcripts, traces
}
TIMES |= {"row_sha256"}  # of the whole row, with its times
JUDGED = json.dumps({"score": 0.5, "assertions": [{"text": "it is fine", "passed": True}]})
KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")
NOWHERE = "http://127.0.0.1:9"
KEYLESS = {"MODELS": NOWHERE, **dict.fromkeys(KEYS, "")}


def timeless(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: timeless(each) for key, each in value.items() if key not in TIMES}
    return [timeless(each) for each in value] if isinstance(value, list) else value


def told(row: Any) -> Any:
    return {key: value for key, value in timeless(row).items() if key not in HASHES}


def rows(out: Path) -> dict[tuple[str, str], Any]:
    lines = map(json.loads, (out / "index.jsonl").read_text().splitlines())
    return {(row["test_id"], row["target"]): row for row in lines}


def write_project(folder: Path) -> None:
    skill = folder / "template/.claude/skills/greet/SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text(SKILL)
    (folder / "targets.yaml").write_text(TARGETS)
    (folder / "s.eval.yaml").write_text(SUITE)


RECORDED = Scene(
    name="replay",
    write=write_project,
    scripts=scripts(skills="/workspace/.claude/skills", key=KEY),
    environ=lambda server: {"MODELS": server.url, **dict.fromkeys(KEYS, KEY)},
    made_for=made_for("claude", "codex"),
    plain=JUDGED,
)


def replay(
    folder: Path,
    *options: str,
    out: str,
    environ: Mapping[str, str] = KEYLESS,
    asks: tuple[str, str] = ("", ""),
) -> tuple[Ran, Player]:
    """The project in ``folder``; ``asks``: what programs ask otherwise than they were recorded."""
    with RECORDED.server(waits=False) as server:
        player = RECORDED.player(server, address="127.0.0.1:9", asks=asks)
        return RECORDED.play_again(folder, player, server, *options, environ=environ, out=out), player


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("replay")
    RECORDED.write(folder)
    with RECORDED.server(waits=False) as server:
        player = RECORDED.player(server)
        environ = RECORDED.environ(server)
        done = RECORDED.play_again(folder, player, server, "--record", "calls", environ=environ, out="live")
        player.check()
    assert done.code == 1, done.output  # the judge gives 0.5
    index = folder / "live/index.jsonl"
    index.write_text(index.read_text().replace(server.url, NOWHERE))
    return folder


def check_same(live: Mapping[Any, Any], replayed: Mapping[Any, Any]) -> None:
    for test, row in live.items():
        assert told(row) == told(replayed[test])


def visits_of(out: Path, row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [json.loads(line) for line in (out / row["network_log_path"]).read_text().splitlines()]


def test_two_replays_without_the_server_and_without_keys_give_equal_rows(recorded: Path) -> None:
    live, replays = rows(recorded / "live"), []
    for name in ("first", "second"):
        done, player = replay(recorded, "--replay", "calls", out=name)
        assert done.code == 1, done.output
        assert "no model is asked" in done.output
        assert not done.server.seen
        player.check()
        replays.append(rows(recorded / name))
    assert len(live) == 11
    assert {row["execution_status"] for row in live.values()} == {"ok", "quality_failure"}
    texts = [
        {test: json.dumps(timeless(row), sort_keys=True) for test, row in each.items()} for each in replays
    ]
    assert texts[0] == texts[1]
    check_same(live, replays[0])
    for row in replays[0].values():
        if "network_log_path" in row:
            visits = visits_of(recorded / "first", row)
            assert visits and all(visit["replayed"] for visit in visits)
        first, second = (
            [timeless(json.loads(line)) for line in (recorded / out / path).read_text().splitlines()]
            for out in ("first", "second")
            for path in (row["transcript_path"],)
        )
        for line in (*first, *second):
            line.pop("transcript_duration_ms", None), line["source"].pop("session_id")
        assert first == second


def test_the_recording_has_no_key(recorded: Path) -> None:
    files = [path for path in (recorded / "calls").rglob("*") if path.is_file()]
    assert len(files) > 20
    assert not [path for path in files if KEY.encode() in path.read_bytes()]


@contextmanager
def changed(path: Path, old: str, new: str) -> Iterator[None]:
    text = path.read_text()
    path.write_text(text.replace(old, new))
    try:
        yield
    finally:
        path.write_text(text)


def test_one_byte_of_a_prompt_is_a_clear_miss(recorded: Path) -> None:
    otherwise = "Please do script:write", "please do script:write"
    with changed(recorded / "s.eval.yaml", *otherwise):
        done, _ = replay(recorded, "--replay", "calls", "--test-id", "write", out="missed", asks=otherwise)
    assert done.code == 3, done.output
    for row in rows(recorded / "missed").values():
        assert (row["execution_status"], row["failure_stage"]) == ("execution_error", "agent")
        assert "the recording has no such call; the nearest, calls/" in row["error"]
        assert "Please do script" in row["error"] and "please do script" in row["error"]


def test_a_judge_that_was_asked_something_else_is_a_miss(recorded: Path) -> None:
    with changed(recorded / "s.eval.yaml", "fine?", "good?"):
        once = ["--test-id", "write", "--max-retries", "0"]
        done, _ = replay(recorded, "--replay", "calls", *once, out="judge")
    assert done.code == 3, done.output
    for row in rows(recorded / "judge").values():
        assert "no answer in the replay: the recording has no such call" in json.dumps(row["scores"])


def test_a_folder_that_is_no_recording_runs_nothing(recorded: Path) -> None:
    done, player = replay(recorded, "--replay", "template", out="none")
    assert done.code == 2
    assert "there is no recording.json in it" in done.output
    assert not (recorded / "none").exists()
    done, player = replay(
        recorded, "--record", "calls", out="none", environ={**KEYLESS, **dict.fromkeys(KEYS, "k")}
    )
    assert done.code == 2
    assert "is not empty" in done.output
    assert not player.played
