"""Whole runs on workers, as users start them."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agentv_sandbox.runs.loaded import cache_dir
from tests.cluster.conftest import Cable, Cluster, Held, rows_of, stop_at_work, suite, wait_for
from tests.e2e.conftest import Project
from tests.started import Started

pytestmark = [pytest.mark.engine, pytest.mark.native, pytest.mark.xdist_group("cluster")]
_TIMES = re.compile(
    r"(duration|_at$|_time$|time|spent|artifact|path|dir$|hash$|sha256|worker|engine|experiment)"
)


def plain(value: Any) -> Any:
    """``value`` without what differs between two runs of the same."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items() if k == "input_hashes" or not _TIMES.search(k)}
    return [plain(v) for v in value] if isinstance(value, list) else value


TESTS = [
    "{id: plain, input: go, expected_output: x}",
    "{id: wrong, input: say wrong}",
    "{id: second, input: go, depends_on: [wrong]}",
    "{id: third, input: go, depends_on: [second]}",
    "{id: templated, input: go, workspace: {template: template}}",
    "{id: graded, input: [{role: user, content: [{type: file, value: facts.txt}, {type: text, value: go}]}],"
    " assert: [{type: code-grader, name: code, command: [python3, grade.py]}]}",
]
GRADER = """
import json, os, sys
asked = json.load(sys.stdin)
held = os.path.getsize(os.environ["AGENTV_WORKSPACE_PATH"] + "/large.txt") == 2_000_000
print(json.dumps({"score": float(held and os.path.exists("facts.txt"))}))
"""


def test_workers_give_the_rows_that_this_process_gives(project: Project) -> None:
    project.write(
        {
            "s.eval.yaml": suite(TESTS),
            "trials.eval.yaml": suite(
                ["{id: often, input: go}"], "workspace: {template: template}\n"
            ).replace("{target: agent}", "{target: agent, trials: {count: 2, strategy: mean}}"),
            "template/given.txt": "given",
            "template/.cache/kept": "a project leaves it out, a template does not",
            "template/empty/.gitkeep": "",
            "facts.txt": "facts",
            "grade.py": GRADER,
            "yaml.py": "open('executed', 'w')",  # a project may be a stranger's
        }
    )
    (project.folder / "template" / "hollow").mkdir()
    done = project.run("s.eval.yaml", "trials.eval.yaml")
    here = rows_of(project.output)
    embedded = project.output.rename(project.folder.parent / "embedded")
    there = project.run("s.eval.yaml", "trials.eval.yaml", "--cluster", "local:2")
    assert (there.code, done.code) == (1, 1), there.stdout + there.stderr
    assert not (project.folder / "executed").exists()
    rows = rows_of(project.output)
    key = lambda row: (row["suite"], row["test_id"])  # noqa: E731
    assert sorted(map(plain, rows), key=key) == sorted(map(plain, here), key=key)
    assert {row["worker"] for row in rows} <= {"local-1", "local-2"}
    assert all(row["engine"] for row in rows)
    for manifest in project.output.rglob("manifest.json"):
        assert {file["sha256"] for file in json.loads(manifest.read_text())["files"] if "sha256" in file} <= {
            path.name for path in (project.output / "artifacts" / "sha256").iterdir()
        }
    captured = [{p.name for p in (f / "captured" / "sha256").iterdir()} for f in (project.output, embedded)]
    assert captured[0] == captured[1] and captured[0]
    facts = json.loads((project.output / "run.json").read_text())
    assert sum(worker["rows"] for worker in facts["cluster"]["workers"]) == len(rows)
    assert facts["engine"]["kind"] == "native"


def wait_until_begun(run: Started, project: Project) -> None:
    """Until a worker is ready."""
    wait_for(lambda: (project.output / "index.jsonl").exists() or run.poll() is not None, 240)
    assert run.poll() is None, run.communicate()[0]


def test_jobs_of_a_killed_worker_run_elsewhere(project: Project, cluster: Cluster, held: Held) -> None:
    project.write({"s.eval.yaml": suite([f"{{id: t{n}, input: wait 3}}" for n in range(6)])})
    cluster.start_scheduler()
    one = cluster.start_worker("one")
    run = project.start("s.eval.yaml", "--cluster", cluster.address)
    wait_until_begun(run, project)
    two = cluster.start_worker("two")
    stop_at_work(one, held)
    one.kill()
    stdout, _ = run.communicate(timeout=300)
    rows = rows_of(project.output)
    assert Counter(row["test_id"] for row in rows) == Counter({f"t{n}": 1 for n in range(6)}), stdout
    assert all(row["score"] == 1 for row in rows)
    moved = [row for row in rows if "was given to another worker" in "".join(row.get("notes", ()))]
    assert moved and {row["worker"] for row in moved} == {"two"}
    assert "left the cluster" in stdout
    wait_for(lambda: not held.by(one.pid) and not held.by(two.pid), 30)


def with_copied_resolutions(folder: Path) -> Path:
    """A cache folder that knows which images there are, and has nothing to make others of."""
    for kind in ("resolutions", "proofs"):
        (folder / "agentv-sandbox" / kind).mkdir(parents=True)
        for path in (cache_dir(os.environ) / kind).glob("*.json"):
            with suppress(FileNotFoundError):
                shutil.copy(path, folder / "agentv-sandbox" / kind)
    return folder


def test_jobs_of_a_worker_whose_network_is_cut_run_elsewhere(
    project: Project, cable: Cable, cluster: Cluster, held: Held, tmp_path: Path
) -> None:
    project.write({"s.eval.yaml": suite([f"{{id: t{n}, input: wait 2}}" for n in range(3)])})
    # The far worker can fetch nothing: images are made before, and no other test changes which ones it needs.
    own = {"XDG_CACHE_HOME": str(with_copied_resolutions(tmp_path / "cache"))}
    cluster.env = {**cluster.env, **own}
    done = project.run("s.eval.yaml", "--test-id", "t0", env=own)
    assert done.code == 0, done.stderr
    project.output.rename(tmp_path / "before")
    cluster.start_scheduler("--host", cable.here)
    far = cluster.start_worker("far", inside=cable.enter)
    run = project.start("s.eval.yaml", "--cluster", cluster.address, env=own)
    wait_until_begun(run, project)
    cluster.start_worker("near")
    stop_at_work(far, held)
    cable.cut()
    far.send_signal(signal.SIGCONT)
    stdout, _ = run.communicate(timeout=300)
    rows = rows_of(project.output)
    assert Counter(row["test_id"] for row in rows) == Counter({f"t{n}": 1 for n in range(3)}), stdout
    assert all(row["score"] == 1 for row in rows)
    moved = [row for row in rows if "was given to another worker" in "".join(row.get("notes", ()))]
    assert moved and {row["worker"] for row in moved} == {"near"}
    wait_for(lambda: not held.by(far.pid), 60)


def test_a_lost_scheduler_is_an_error_and_no_interrupt(
    project: Project, cluster: Cluster, held: Held
) -> None:
    project.write({"s.eval.yaml": suite(["{id: slow, input: wait 50}"])})
    cluster.start_scheduler()
    worker = cluster.start_worker("one")
    run = project.start("s.eval.yaml", "--cluster", cluster.address)
    wait_until_begun(run, project)
    wait_for(lambda: held.by(worker.pid), 60)
    (scheduler, *_) = cluster.processes
    scheduler.kill()
    stdout, _ = run.communicate(timeout=300)
    assert run.returncode == 3, stdout
    assert "scheduler" in stdout and "nterrupt" not in stdout
    wait_for(lambda: not held.by(worker.pid), 60)


def test_workers_stop_when_the_coordinator_is_killed_and_the_run_goes_on(
    project: Project, cluster: Cluster, held: Held, tmp_path: Path
) -> None:
    tests = ["{id: quick, input: go}", *(f"{{id: slow{n}, input: 'wait 50'}}" for n in range(2))]
    project.write({"s.eval.yaml": suite(tests)})
    cluster.start_scheduler()
    worker = cluster.start_worker("one", slots=3)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    run = project.start("s.eval.yaml", "--cluster", cluster.address, env={"TMPDIR": str(temporary)})
    wait_for(lambda: (project.output / "index.jsonl").exists() and rows_of(project.output), 240)
    assert held.by(worker.pid)
    assert list(temporary.iterdir())  # what travels
    run.kill()
    run.wait()
    wait_for(lambda: not held.by(worker.pid), 30)
    wait_for(lambda: not list(temporary.iterdir()), 60)
    before = rows_of(project.output)
    project.write({"agent.sh": (project.folder / "agent.sh").read_text()})
    again = project.start("s.eval.yaml", "--cluster", cluster.address, "--resume", "--test-id", "quick")
    stdout, _ = again.communicate(timeout=300)
    assert again.returncode == 0, stdout
    assert rows_of(project.output) == before
