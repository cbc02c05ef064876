"""``run --resume``: runs that are interrupted or killed go on, with a real engine and real signals."""

from __future__ import annotations

import fcntl
import json
import shlex
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests import forkserver
from tests.e2e.conftest import Done, Project

pytestmark = pytest.mark.engine

TARGETS = """
targets:
  - name: agent
    provider: cli
    command: sh agent.sh {EVAL_ID} {OUTPUT_FILE}
    timeout_seconds: 30
"""
AGENT = "sleep 1; echo ran >> log.txt; case $1 in poor*) echo no ;; broken*) exit 3 ;; *) echo all done ;; esac > $2\n"
HEAD = "name: s\nexecution: {target: agent, workers: 2%s}\n%stests:\n"
TEST = "  - {id: %s, criteria: c, input: go, assert: [{type: contains, value: all done}]}\n"


def suite(names: Sequence[str], *, execution: str = "", workspace: str = "") -> str:
    return HEAD % (execution, workspace) + "".join(TEST % name for name in names)


def write(project: Project, names: Sequence[str], **keys: str) -> None:
    project.write({".agentv/targets.yaml": TARGETS, "agent.sh": AGENT, "s.eval.yaml": suite(names, **keys)})


def lines(folder: Path) -> list[str]:
    index = folder / "index.jsonl"
    return index.read_text().splitlines() if index.exists() else []


def end_when(project: Project, number: int, condition: Callable[[], bool], *args: str) -> tuple[int, str]:
    """Run the suite and send the signal ``number`` when ``condition`` holds; exit status and output."""
    with project.start("s.eval.yaml", *args) as process:
        limit = time.monotonic() + 120
        while not condition() and process.poll() is None and time.monotonic() < limit:
            time.sleep(0.05)
        process.send_signal(number)
        text, _ = process.communicate(timeout=120)
    return process.returncode, text


def has_rows(project: Project, count: int) -> Callable[[], bool]:
    return lambda: len(lines(project.output)) >= count


def resume(project: Project, *args: str) -> Done:
    return project.run("s.eval.yaml", "--resume", *args)


NAMES = ("a", "b", "poor", "c", "d", "e")


def test_the_command_that_an_interrupted_run_prints_goes_on(project: Project) -> None:
    write(project, NAMES)
    code, text = end_when(project, signal.SIGINT, has_rows(project, 2))
    assert code == 130, text
    before = lines(project.output)
    assert 2 <= len(before) < len(NAMES)
    last = next(line for line in text.splitlines() if line.startswith("To go on: "))
    _, *words = shlex.split(last.removeprefix("To go on: "))
    done = forkserver.run(project.argv(*words), cwd=project.folder, env=project.env())
    assert done.returncode == 1, done.stdout + done.stderr
    after = lines(project.output)
    assert after[: len(before)] == before
    assert sorted(json.loads(line)["test_id"] for line in after) == sorted(NAMES)
    assert f"running 6 tests, {len(before)} of them done before" in done.stdout
    assert "(5/6 scored >= 80%" in done.stdout
    assert (project.output / "junit.xml").read_text().count("<testcase") == 6
    figures = json.loads((project.output / "benchmark.json").read_text())
    assert figures["metadata"]["planned_test_count"] == 6
    assert figures["run_summary"]["agent"]["pass_rate"]["mean"] == pytest.approx(5 / 6, abs=1e-3)
    again = resume(project)  # nothing is left to do, and all is said again
    assert (again.code, lines(project.output)) == (1, after), again.stdout + again.stderr


def test_after_a_kill_half_written_rows_and_folders_are_replaced(project: Project) -> None:
    write(project, NAMES)
    code, text = end_when(project, signal.SIGKILL, has_rows(project, 2))
    assert code == -signal.SIGKILL, text
    before = lines(project.output)
    with (project.output / "index.jsonl").open("a") as index:
        index.write('{"test_id": "half')
    (project.output / "s" / "half" / "outputs").mkdir(parents=True)
    done = resume(project)
    assert done.code == 1, done.stdout + done.stderr
    assert "the last line is torn" in done.stdout
    after = lines(project.output)
    assert after[: len(before)] == before
    assert sorted(done.rows) == sorted(NAMES)
    assert len(after) == len(NAMES)
    assert sorted(path.name for path in (project.output / "s").iterdir()) == sorted(NAMES)


def test_only_rows_whose_inputs_changed_are_run_again_and_it_is_said_why(project: Project) -> None:
    write(project, ("a", "b", "c"))
    assert project.run("s.eval.yaml").code == 0
    before = {json.loads(line)["test_id"]: line for line in lines(project.output)}
    eval_file = project.folder / "s.eval.yaml"
    changed = (TEST % "b").replace("value: all done", "value: done")
    eval_file.write_text(eval_file.read_text().replace(TEST % "b", changed))
    done = resume(project)
    assert done.code == 0, done.stdout + done.stderr
    assert "run again, changed since: graders: b" in done.stdout
    after = {json.loads(line)["test_id"]: line for line in lines(project.output)}
    assert {name for name in after if after[name] != before[name]} == {"b"}
    assert len(lines(project.output)) == 3
    assert [json.loads(line)["test_id"] for line in (project.output / "superseded.jsonl").open()] == ["b"]
    (project.folder / "agent.sh").write_text(AGENT.replace("sleep 1", "sleep 0"))
    done = resume(project)
    assert "run again, changed since: files: a, b, c" in done.stdout, done.stdout + done.stderr


def test_errors_are_retried_and_failures_where_that_is_asked_for(project: Project) -> None:
    write(project, ("a", "poor", "broken"))
    assert project.run("s.eval.yaml").code == 3
    first = {name: row["timestamp"] for name, row in project_rows(project.output).items()}
    done = resume(project)
    assert "run again, they ended in an execution error: broken" in done.stdout
    second = {name: row["timestamp"] for name, row in done.rows.items()}
    assert {name for name in first if first[name] != second[name]} == {"broken"}
    done = project.run("s.eval.yaml", "--rerun-failed")
    third = {name: row["timestamp"] for name, row in done.rows.items()}
    assert {name for name in first if third[name] != second[name]} == {"broken", "poor"}
    elsewhere = forkserver.run(
        project.argv("run", "s.eval.yaml", "--retry-errors", str(project.output), "-o", "new"),
        cwd=project.folder,
        env=project.env(),
    )
    assert elsewhere.returncode == 3, elsewhere.stderr
    fourth = {name: row["timestamp"] for name, row in project_rows(project.folder / "new").items()}
    assert {name for name in first if fourth[name] != third[name]} == {"broken"}
    assert (project.folder / "new" / "s" / "a" / "outputs" / "answer.md").read_text().strip() == "all done"
    assert {name: row["timestamp"] for name, row in project_rows(project.output).items()} == third


def project_rows(folder: Path) -> dict[str, dict[str, object]]:
    return {row["test_id"]: row for row in map(json.loads, lines(folder))}


def test_trials_go_on_in_the_middle(project: Project) -> None:
    write(project, ("t",), execution=", trials: {count: 4, strategy: mean}")
    trials = project.output / "s" / "t" / "trials"
    second = trials / "2" / "trial.json"
    code, text = end_when(project, signal.SIGKILL, second.is_file)
    assert (code, lines(project.output)) == (-signal.SIGKILL, []), text
    before = [(trials / n / "trial.json").read_bytes() for n in ("1", "2")]
    kept = project.folder / "kept"
    shutil.copytree(project.output, kept)
    done = resume(project)
    assert done.code == 0, done.stdout + done.stderr
    assert [(trials / n / "trial.json").read_bytes() for n in ("1", "2")] == before
    row = done.rows["t"]
    assert [trial["trial"] for trial in row["trials"]] == [1, 2, 3, 4]
    assert row["trial_scores"] == [1, 1, 1, 1]
    assert (project.output / row["answer_path"]).read_text().strip() == "all done"
    assert not done.stdout.count("start t (trial 2)")
    assert done.stdout.count("start t (trial 3)") == 1
    edited = kept / "s" / "t" / "trials" / "2" / "trial.json"
    edited.write_text(edited.read_text().replace('"score":1.0', '"score":0.9', 1))
    shutil.rmtree(project.output)
    kept.rename(project.output)
    done = resume(project)
    assert done.rows["t"]["trial_scores"] == [1, 1, 1, 1]
    assert done.stdout.count("start t (trial 1)") == 1


def test_a_budget_counts_what_was_spent_before(project: Project) -> None:
    names = ("a", "b", "c", "d")
    write(project, names, execution=", budget_usd: 1.5")
    agent = 'sleep 1; echo \'{"text": "all done", "cost_usd": 0.6}\' > $2\n'
    project.write({"agent.sh": agent})
    code, text = end_when(project, signal.SIGKILL, has_rows(project, 2), "--workers", "1")
    assert code == -signal.SIGKILL, text
    done = resume(project, "--workers", "1")
    assert {name: row["execution_status"] for name, row in done.rows.items()} == {
        "a": "ok",
        "b": "ok",
        "c": "ok",
        "d": "execution_error",
    }
    assert "$1.8000" in done.rows["d"]["error"]


OTHER_SUITE = '{"images": [{"suite": "/x/other.yaml"}]}'
OTHERS_ROW = '{"test_id": "a", "target": "t", "score": 1}\n'
BAD = {
    "another suite": ({"index.jsonl": "", "run.json": OTHER_SUITE}, "is a run of /x/other.yaml"),
    "another experiment": (
        {"index.jsonl": "", "run.json": '{"images": [], "experiment": "x"}'},
        "Add --experiment x",
    ),
    "packed": ({"index.jsonl": "", "run.json": '{"images": []}', "SHA256SUMS": ""}, "was packed"),
    "no run": ({"notes.txt": "x"}, "there is no index.jsonl"),
    "another program's": ({"index.jsonl": OTHERS_ROW}, "is not a run of agentv-sandbox"),
}


@pytest.mark.parametrize("kind", BAD)
def test_folders_that_no_run_can_go_on_in_are_refused(project: Project, kind: str) -> None:
    files, text = BAD[kind]
    write(project, ("a",))
    project.write({f"out/{name}": content for name, content in files.items()})
    done = resume(project)
    assert (done.code, text in done.stderr) == (2, True), done.stderr
    assert {path.name for path in project.output.iterdir()} == set(files)


def test_a_live_runs_folder_and_links_are_refused(project: Project) -> None:
    write(project, ("a",))
    project.write({"out/index.jsonl": "", "out/run.json": '{"images": []}'})
    with (project.output / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = resume(project)
        assert (done.code, "is in use" in done.stderr) == (2, True), done.stderr
    (project.output / "s").symlink_to("/etc")
    done = resume(project)
    assert (done.code, "is not a plain file" in done.stderr) == (2, True), done.stderr


def test_an_old_and_a_new_folder_cannot_both_be_meant(project: Project) -> None:
    write(project, ("a",))
    done = project.run("s.eval.yaml", "--resume", "--retry-errors", "earlier")
    assert (done.code, "--retry-errors writes a new run folder" in done.stderr) == (2, True), done.stderr
    assert not project.output.exists()
