"""``prepare`` and ``grade --prepared``: attempts of people and of programs that run elsewhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agentv_sandbox.attempts import folder as attempt_folders
from agentv_sandbox.attempts import tree as trees
from agentv_sandbox.attempts.folder import read_said
from agentv_sandbox.attempts.tree import read_tree
from agentv_sandbox.base.errors import InputError
from agentv_sandbox.containers.blobs import BlobStore
from tests import examples, forkserver
from tests.agentv import agentv_command
from tests.e2e.conftest import Project
from tests.forkserver import command
from tests.providers.test_transcripts import CLAUDE, lines

SUITE = """\
name: all
workspace:
  template: template
  hooks:
    before_all: {command: 'cd "$AGENTV_WORKSPACE_PATH"; echo b > begun.txt; ln -s /etc/passwd outside'}
    before_each: {command: 'cd "$AGENTV_WORKSPACE_PATH"; mkdir -p .git; echo "[core]" > .git/config'}
    after_each: {command: 'cat "$AGENTV_WORKSPACE_PATH/made.txt"'}
execution: {target: agent}
tests:
  - id: tidy
    criteria: SECRET CRITERIA
    input:
      - role: user
        content: [{type: text, value: Tidy up.}, {type: file, value: in.csv}]
    expected_output: SECRET EXPECTED
    assertions:
      - {name: says, type: icontains, value: done}
      - {name: seen, type: code-grader, command: [python3, seen.py]}
  - id: plain
    workspace: {template: template}
    input: Say hello.
    assertions: [{name: says, type: icontains, value: hello}]
  - id: talk
    mode: conversation
    turns: [{input: a, expected_output: b}]
"""
TARGETS = """\
targets:
  - {name: agent, provider: cli, command: 'python3 agent.py {OUTPUT_FILE}'}
  - {name: other, provider: mock, response: hello}
"""
SEEN = """\
import json, os, sys
asked, here = json.load(sys.stdin), os.environ["AGENTV_WORKSPACE_PATH"]
said = {"files": sorted(os.listdir(here)), "changes": asked["file_changes"], "answer": asked["output"]}
print(json.dumps({"score": 1, "assertions": [{"text": json.dumps(said), "passed": True}]}))
"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    texts = {
        "s.eval.yaml": SUITE,
        "targets.yaml": TARGETS,
        "seen.py": SEEN,
        "agent.py": "raise SystemExit('an agent ran')\n",
        "in.csv": "a,1\n",
        "template/a.txt": "a\n",
        "template/run.sh": "#!/bin/sh\n",
        "answer.md": "All done.\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "template/run.sh").chmod(0o755)
    return tmp_path


def row_of(folder: Path) -> dict[str, Any]:
    (line,) = (folder / "index.jsonl").read_text().splitlines()
    return dict(json.loads(line))


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.mark.engine
def test_an_attempt_is_prepared_and_what_was_left_of_it_is_graded(project: Project, files: Path) -> None:
    made = command(
        "prepare", "s.eval.yaml", "--test-id", "tidy", "--out", "try", cwd=files, env=project.env()
    )
    assert made.returncode == 0, made.stderr
    assert "agentv-sandbox grade s.eval.yaml --prepared try --response ANSWER.md" in made.stdout
    assert "left out (.git)" in made.stdout and "left out (outside)" in made.stdout
    workspace = files / "try/workspace"
    assert sorted(path.name for path in workspace.iterdir()) == [".git", "a.txt", "begun.txt", "run.sh"]
    assert (workspace / "run.sh").stat().st_mode & 0o111
    assert git(workspace, "status", "--short") == "" and "agentv-baseline" in git(workspace, "log")
    prompt = (files / "try/prompt.md").read_text()
    assert "Tidy up." in prompt and "a,1" in prompt and "SECRET" not in prompt
    assert (files / "try/input/in.csv").read_text() == "a,1\n"
    manifest = json.loads((files / "try/agentv_prepare.json").read_text())
    assert (manifest["test_id"], manifest["target"], manifest["setup_status"]) == ("tidy", "agent", "ok")
    assert manifest["baseline"]["commit"] == git(workspace, "rev-parse", "HEAD").strip()

    (workspace / "a.txt").unlink()
    (workspace / "made.txt").write_text("made\n")
    (workspace / "shadow").symlink_to("/etc/shadow")
    os.mkfifo(workspace / "pipe")
    words = ("grade", "s.eval.yaml", "--prepared", "try", "--response", "answer.md", "-o", "out")
    graded = command(*words, cwd=files, env=project.env())
    assert graded.returncode == 0, graded.stdout + graded.stderr
    row = row_of(files / "out")
    assert (row["test_id"], row["target"], row["score"]) == ("tidy", "agent", 1.0)
    said = json.loads(row["scores"][1]["assertions"][0]["text"])
    assert said["files"] == [".git", "begun.txt", "made.txt", "run.sh"] and said["answer"] == "All done.\n"
    changed = [line for line in said["changes"].splitlines() if line.startswith("diff ")]
    assert changed == ["diff --git a/a.txt b/a.txt", "diff --git a/made.txt b/made.txt"]
    notes = " ".join(row["notes"])
    assert "nobody saw how" in notes and "shadow" in notes and "pipe" in notes and "not the one" not in notes
    again = command("regrade", "out", "-o", "again", cwd=files, env=project.env())
    assert again.returncode == 0 and "all as before" in again.stdout, again.stdout + again.stderr


@pytest.mark.engine
def test_a_session_and_another_start_are_in_the_row(project: Project, files: Path) -> None:
    made = command(
        *("prepare", "s.eval.yaml", "--test-id", "plain", "--target", "other", "--out", "try"),
        *("--json",),
        cwd=files,
        env=project.env(),
    )
    assert json.loads(made.stdout)["manifest_path"] == str(files / "try/agentv_prepare.json"), made.stderr
    (files / "template/later.txt").write_text("later\n")
    (files / "session.jsonl").write_bytes(lines(*CLAUDE))
    words = ("grade", "s.eval.yaml", "--prepared", "try/agentv_prepare.json", "--trace", "session.jsonl")
    graded = command(*words, "-o", "out", cwd=files, env=project.env())
    assert graded.returncode == 1, graded.stdout + graded.stderr
    row = row_of(files / "out")
    assert row["target"] == "other" and row["claimed"]["duration_ms"] == 5000
    assert any("is not the one that is made for this test now" in note for note in row["notes"])


@pytest.mark.slow
@pytest.mark.engine
def test_agentv_and_this_program_grade_each_others_attempts(project: Project, files: Path) -> None:
    begun, _, rest = SUITE.partition("  hooks:")
    suite = begun + rest[rest.index("execution:") : rest.index("  - id: talk")]
    (files / "s.eval.yaml").write_text(suite)
    scores: dict[str, Any] = {}
    for maker, argv in (("ours", project.argv()), ("theirs", agentv_command())):
        run(
            [*argv, "prepare", "s.eval.yaml", "--test-id", "tidy", "--target", "agent", "--out", maker],
            project,
        )
        (files / maker / "workspace/a.txt").write_text("other\n")
        for grader, by in (("ours", project.argv()), ("theirs", agentv_command())):
            out = f"{maker}-{grader}"
            run(
                [
                    *by,
                    "grade",
                    "s.eval.yaml",
                    "--prepared",
                    maker,
                    "--response",
                    "answer.md",
                    "--output",
                    out,
                ],
                project,
            )
            row = row_of(files / out)
            said = json.loads(row["scores"][1]["assertions"][0]["text"])
            scores[out] = (
                row["score"],
                row["test_id"],
                row["target"],
                said["changes"].strip(),
                said["answer"],
            )
    assert len(scores) == 4 and len(set(scores.values())) == 1, scores
    ours, theirs = (
        json.loads((files / name / "agentv_prepare.json").read_text()) for name in ("ours", "theirs")
    )
    assert theirs.keys() <= ours.keys()
    assert all(type(ours[key]) is type(value) for key, value in theirs.items())


def run(argv: list[str], project: Project) -> None:
    """Our command, or AgentV's."""
    if argv[0] == sys.executable:
        done = forkserver.run(argv, cwd=project.folder, env=project.env())
    else:
        done = subprocess.run(
            argv,
            cwd=project.folder,
            env=project.env(),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("prepare", "s.eval.yaml", "--out", "new"), "an attempt is of one test, and the eval file has 3"),
        (("prepare", "s.eval.yaml", "--test-id", "none", "--out", "new"), "no test none is in the eval file"),
        (("prepare", "s.eval.yaml", "--test-id", "talk", "--out", "new"), "is a conversation"),
        (
            ("prepare", "s.eval.yaml", "--test-id", "plain", "--target", "x", "--out", "new"),
            "no target is named 'x'",
        ),
        (
            ("prepare", "s.eval.yaml", "--test-id", "plain", "--out", "template"),
            "exists already, and somebody",
        ),
        (("prepare", "s.eval.yaml", "--test-id", "plain", "--out", "in.csv/new"), "takes no new folder"),
        (("grade", "out", "--response", "answer.md"), "--response goes with --prepared"),
        (("grade", "out", "--target", "agent"), "--target goes with --prepared"),
        (
            ("grade", "s.eval.yaml", "--prepared", "template", "--trust-pack"),
            "--trust-pack is of `grade RUN`",
        ),
        (("grade", "s.eval.yaml", "--prepared", "none"), "is not a folder"),
        (("grade", "s.eval.yaml", "--prepared", "template"), "holds no agentv_prepare.json"),
        (("grade", "s.eval.yaml", "--prepared", "forged"), "no target is named 'x'"),
        (("grade", "s.eval.yaml", "--prepared", "bare"), "workspace does not exist"),
        (("grade", "s.eval.yaml", "--prepared", "linked"), "workspace is a link"),
        (("grade", "s.eval.yaml", "--prepared", "good", "--response", "/dev/zero"), "is not a plain file"),
        (("grade", "s.eval.yaml", "--prepared", "good", "--response", "none.md"), "No such file"),
        (("grade", "s.eval.yaml", "--prepared", "good", "--trace", "in.csv"), "is not a session that"),
    ],
)
def test_what_cannot_be_prepared_or_graded_is_a_sentence_and_leaves_nothing(
    words: tuple[str, ...], said: str, files: Path
) -> None:
    manifest = {"test_id": "plain", "target": "agent", "workspace_path": "/etc"}
    for name, more in (("forged", {"target": "x"}), ("bare", {}), ("linked", {}), ("good", {})):
        (files / name).mkdir()
        (files / name / "agentv_prepare.json").write_text(json.dumps(manifest | more))
    (files / "good/workspace").mkdir()
    (files / "linked/workspace").symlink_to("/etc")
    before = sorted(files.iterdir())
    done = command(*words, cwd=files)
    assert done.returncode == 2 and said in done.stderr, done.stderr
    assert "Traceback" not in done.stderr and sorted(files.iterdir()) == before


@pytest.mark.parametrize(
    "text",
    ["", "[]", "null", "{" * 100_000, '{"test_id": ["a"]}', '{"test_id": "' + "a" * 5000 + '"}', "\0"],
)
def test_a_manifest_is_anybodys_word(text: str, tmp_path: Path) -> None:
    (tmp_path / "agentv_prepare.json").write_text(text)
    try:
        assert read_said(tmp_path).test == ""
    except InputError as error:
        assert "is not what `prepare` writes" in error.problems[0].message


def test_a_manifest_is_a_plain_file_of_its_folder(tmp_path: Path) -> None:
    for make in (os.mkfifo, lambda path: path.symlink_to("/etc/passwd"), huge):
        path = tmp_path / attempt_folders.MANIFEST
        make(path)
        with pytest.raises(InputError, match="cannot be read"):
            read_said(tmp_path)
        path.unlink()


def huge(path: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(1 << 40)


def deep(workspace: Path) -> None:
    at = os.open(workspace, os.O_RDONLY)
    for _ in range(trees.MAX_DEPTH + 2):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)


def many(workspace: Path) -> None:
    for number in range(20):
        (workspace / str(number)).touch()


def large(workspace: Path) -> None:
    for number in range(3):
        (workspace / str(number)).write_bytes(bytes([number]) * 600)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda workspace: huge(workspace / "hole"), "workspace/hole is larger than 256 MiB"),
        (deep, "is nested deeper than 128 folders"),
        (many, "holds more than 10 files"),
        (large, "holds more than 0 MiB"),
        (lambda workspace: (workspace / ("n" * 200)).mkdir() or chain(workspace), "has a path of more than"),
    ],
)
def test_a_workspace_is_read_within_bounds(
    make: Callable[[Path], None], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if make is many:
        monkeypatch.setattr(trees, "MAX_ENTRIES", 10)
    if make is large:
        monkeypatch.setattr(trees, "MAX_BYTES", 1500)
    (tmp_path / "try/workspace").mkdir(parents=True)
    make(tmp_path / "try/workspace")
    with pytest.raises(InputError) as refused:
        read_tree(tmp_path / "try", BlobStore(tmp_path / "store"))
    assert said in refused.value.problems[0].message and len(refused.value.problems[0].message) < 400


def chain(workspace: Path) -> None:
    """Folders whose path is longer than any program takes."""
    at = os.open(workspace, os.O_RDONLY)
    for _ in range(30):
        os.mkdir("n" * 200 + "m", dir_fd=at)
        below = os.open("n" * 200 + "m", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)


def test_a_workspace_is_read_without_its_links_and_pipes(tmp_path: Path) -> None:
    workspace = tmp_path / "try/workspace"
    workspace.mkdir(parents=True)
    (workspace / b"odd\xff\n".decode("utf-8", "surrogateescape")).write_bytes(b"x")
    (workspace / "in").symlink_to("../workspace/odd")
    (workspace / "near").symlink_to("./odd")
    (workspace / "out").symlink_to("/etc/shadow")
    os.mkfifo(workspace / "pipe")
    tree = read_tree(tmp_path / "try", BlobStore(tmp_path / "store"))
    assert {file.path: file.kind for file in tree.files} == {b"near": "symlink", b"odd\xff\n": "file"}
    assert len(tree.left_out) == 2 and "in, out" in tree.left_out[0] and "pipe" in tree.left_out[1]


@pytest.fixture(autouse=True)
def _removable(tmp_path: Path) -> Iterator[None]:
    """Folders deeper than pytest's own clean-up goes."""
    yield
    subprocess.run(["rm", "-rf", str(tmp_path)], check=False)


@pytest.mark.slow
def test_the_example_runs_by_the_lines_of_its_readme(tmp_path: Path) -> None:
    root = examples.clone(tmp_path / "clone")
    said = []
    for program, *arguments in examples.lines("attempts"):
        if program == "agentv-sandbox":
            done = command(*arguments, cwd=root, timeout=300)
        else:
            done = subprocess.run(
                [program, *arguments], cwd=root, capture_output=True, text=True, check=False
            )
        said.append((arguments[0], done.returncode))
    assert said == [
        ("prepare", 0),
        ("examples/attempts/done/CHANGELOG.md", 0),
        ("grade", 0),
        ("run", 1),
        ("compare", 0),
    ]
    [graded] = map(json.loads, (root / "graded/index.jsonl").read_text().splitlines())
    assert (graded["target"], graded["score"]) == ("me", 1)
