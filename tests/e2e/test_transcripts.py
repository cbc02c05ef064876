"""``import-transcript``: sessions that ran elsewhere, graded as a run's answers are."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from agentv_sandbox.base.errors import InputError
from agentv_sandbox.cli.transcripts import files_of
from agentv_sandbox.runs.transcripts import import_transcripts
from tests.e2e.conftest import Project
from tests.forkserver import command
from tests.providers.test_copilot_log import SESSION as COPILOT
from tests.providers.test_copilot_log import write
from tests.providers.test_transcripts import CLAUDE, CODEX, lines

SUITE = """\
name: all
execution: {target: agent}
tests:
  - id: one
    criteria: c
    input: What is here?
    assertions:
      - {name: says, type: icontains, value: a.txt}
      - {name: calls, type: tool-trajectory, mode: any_order, minimums: {Bash: 1}}
  - id: two
    criteria: c
    input: What is here?
    assertions:
      - {name: says, type: icontains, value: a.txt}
      - {name: seen, type: code-grader, command: [python3, seen.py]}
  - id: three
    criteria: c
    input: Greet the notes.
    assertions: [{type: skill-trigger, skill: greet}]
  - id: four
    criteria: c
    input: What is here?
    workspace: {template: template}
    assertions: [{name: seen, type: code-grader, command: [python3, seen.py]}]
  - id: talk
    mode: conversation
    turns: [{input: a, expected_output: b}]
"""
TARGETS = """\
targets:
  - {name: agent, provider: cli, command: 'python3 agent.py {OUTPUT_FILE}'}
  - {name: unheard, provider: cli, command: 'python3 agent.py {OUTPUT_FILE}', measured_by: host}
"""
SEEN = 'import json, os; print(json.dumps({"score": float(os.listdir("/workspace") == [])}))\n'


@pytest.fixture
def files(tmp_path: Path) -> Path:
    texts = {
        "s.eval.yaml": SUITE,
        "targets.yaml": TARGETS,
        "seen.py": SEEN,
        "agent.py": "raise SystemExit('an agent ran')\n",
        "template/a.txt": "a",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "claude.jsonl").write_bytes(lines(*CLAUDE))
    (tmp_path / "codex.jsonl").write_bytes(lines(*CODEX))
    write(tmp_path / "copilot", *COPILOT)
    return tmp_path


def imported(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return command("import-transcript", "s.eval.yaml", *words, cwd=folder)


def rows_in(path: Path) -> Mapping[str, Any]:
    return {row["test_id"]: row for row in map(json.loads, path.read_text().splitlines())}


def verdicts(row: Mapping[str, Any]) -> Sequence[tuple[str, float, Any]]:
    return [(each["name"], each["score"], each.get("agents_word")) for each in row["scores"]]


@pytest.mark.engine
def test_sessions_are_graded_and_graded_again_without_an_agent(project: Project, files: Path) -> None:
    done = imported(
        files, "one=claude.jsonl", "two=codex.jsonl", "three=copilot", "four=claude.jsonl", "-o", "out"
    )
    assert done.returncode == 0, done.stderr
    assert "agentv-sandbox grade out" in done.stdout
    waiting = rows_in(files / "out/ungraded.jsonl")
    assert waiting["one"]["claimed"]["duration_ms"] == 5000
    assert any("nobody saw this session" in note for note in waiting["one"]["notes"])
    graded = command("grade", "out", cwd=files, env=project.env())
    assert graded.returncode == 3, graded.stderr  # of the fourth, whose workspace nobody has
    rows = rows_in(files / "out/index.jsonl")
    assert verdicts(rows["one"]) == [("says", 1.0, None), ("calls", 1.0, ["tool_calls"])]
    assert verdicts(rows["two"]) == [("says", 1.0, None), ("seen", 1.0, None)]
    assert [each["score"] for each in rows["three"]["scores"]] == [1.0]
    assert (rows["four"]["fault"], "was not" in rows["four"]["error"]) == ("not_captured", True)
    again = command("regrade", "out", "-o", "again", "--test-id", "one", cwd=files, env=project.env())
    assert again.returncode == 0 and "all as before" in again.stdout, again.stdout + again.stderr


@pytest.mark.engine
def test_where_the_host_measures_a_transcript_says_nothing_of_calls(project: Project, files: Path) -> None:
    assert imported(files, "one=claude.jsonl", "--target", "unheard", "-o", "out").returncode == 0
    assert command("grade", "out", cwd=files, env=project.env()).returncode == 1
    row = rows_in(files / "out/index.jsonl")["one"]
    assert verdicts(row) == [("says", 1.0, None), ("calls", 0.0, None)]
    assert "error" in row["scores"][1] and "token_usage" not in row
    assert row["claimed"]["token_usage"] == {"input": 30, "output": 9, "cached": 10}


@pytest.mark.parametrize(
    ("test", "file", "said"),
    [
        ("none", "claude.jsonl", "no test none is in the eval file"),
        ("talk", "claude.jsonl", "is a conversation"),
        ("one", "missing.jsonl", "No such file"),
        ("one", "agent.py", "is not a session that Claude Code, Codex or Copilot keeps, and not one"),
        ("one", "template", "No such file"),
        ("one", "/dev/zero", "is not a plain file"),
        ("one", "pipe", "is not a plain file"),
        ("one", "huge", "is larger than"),
        ("one", "loop", "cannot be read"),
        ("one", "linked", "is not a plain file"),
    ],
)
def test_what_cannot_be_imported_is_a_sentence_and_leaves_nothing(
    test: str, file: str, said: str, files: Path
) -> None:
    os.mkfifo(files / "pipe")
    with (files / "huge").open("wb") as stream:
        stream.truncate(1 << 40)
    (files / "loop").symlink_to("loop")
    (files / "linked").mkdir()
    (files / "linked/events.jsonl").symlink_to(files / "claude.jsonl")
    assert said in refused(files, {test: Path(file)})
    assert not (files / "out").exists()


@pytest.mark.parametrize(
    ("targets", "said"),
    [(["agent", "unheard"], "the answer of one target"), (["gone"], "no target is named 'gone'")],
)
def test_a_session_is_the_answer_of_one_target(targets: list[str], said: str, files: Path) -> None:
    assert said in refused(files, {"one": Path("claude.jsonl")}, targets=targets)


def test_every_problem_is_said_at_once_and_nothing_is_half_imported(files: Path) -> None:
    text = refused(
        files, {"one": Path("gone.jsonl"), "two": Path("claude.jsonl"), "talk": Path("codex.jsonl")}
    )
    assert "No such file" in text and "is a conversation" in text


def refused(folder: Path, sessions: Mapping[str, Path], **more: Any) -> str:
    with pytest.raises(InputError) as error:
        import_transcripts(sessions, suites=["s.eval.yaml"], cwd=folder, output=Path("out"), **more)
    return "; ".join(problem.message for problem in error.value.problems)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["claude.jsonl"], "does not say which test"),
        (["one=a", "one=b"], "a second time"),
        (["=a"], "does not say"),
    ],
)
def test_sessions_are_named_with_their_tests(words: list[str], said: str) -> None:
    with pytest.raises(InputError) as error:
        files_of(words)
    assert said in error.value.problems[0].message


def test_ids_and_names_may_hold_the_sign(tmp_path: Path) -> None:
    file = tmp_path / "c=d"
    file.touch()
    assert files_of([f"a=b={file}"]) == {"a=b": file}


def test_what_a_name_or_a_version_says_moves_no_terminal(files: Path) -> None:
    name = "a\x1b[2J.jsonl"
    (files / name).write_bytes(lines(*({**each, "version": "\x1b[2J"} for each in CLAUDE)))
    done = imported(files, f"one={name}", "-o", "out")
    assert done.returncode == 0 and "\x1b" not in done.stdout + done.stderr
    assert "\x1b" not in (files / "out/ungraded.jsonl").read_text()


def test_a_secret_of_this_machine_in_a_session_is_masked(files: Path) -> None:
    secret = "sk-0123456789abcdefghij"
    secrets = "{KEY: {host: example.com}}"
    targets = f"targets: [{{name: agent, provider: cli, command: 'x {{OUTPUT_FILE}}', secrets: {secrets}}}]\n"
    (files / "targets.yaml").write_text(targets)
    (files / "claude.jsonl").write_bytes(lines(*CLAUDE).replace(b"There is", secret.encode()))
    words = ("import-transcript", "s.eval.yaml", "one=claude.jsonl", "-o", "out")
    assert command(*words, cwd=files, env={**os.environ, "KEY": secret}).returncode == 0
    written = [path for path in (files / "out").rglob("*") if path.is_file()]
    assert written and not [path for path in written if secret.encode() in path.read_bytes()]


@pytest.mark.parametrize("words", [("claude.jsonl", "codex"), ("codex", "--session-id", "x")])
def test_import_says_which_command_takes_sessions(words: tuple[str, ...], files: Path) -> None:
    done = command("import", *words, cwd=files)
    assert done.returncode == 2 and "import-transcript" in done.stderr
