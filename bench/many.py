"""Very many small cases by the native engine: rate, memory, and what is left behind.

    python bench/many.py [--tests 10000] [--workers 4] [--cluster N] [--plain]

A ``replay`` target answers; one Python code grader a test judges it in a container, or with ``--plain`` a ``contains``,
so that nothing but this project takes time. ``--cluster N`` has N workers of this machine run them. While the run
goes on, memory and processor time of its processes and open descriptors are looked at after every tenth of the rows;
mounts, control groups and folders of the engine are counted before and after. Exits with 1 when a row is missing or
doubled, a test does not pass or something is left.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentv_sandbox.kernel.layout import FOLDER_VARIABLE, StateFolders

TARGETS = """
targets:
  - {name: agent, provider: replay, fixtures: answers.jsonl, source_target: recorded}
"""
GRADER = """
import json, sys
given = json.load(sys.stdin)
print(json.dumps({"score": float("42" in json.dumps(given.get("output")))}))
"""
HEAD = """
name: many
execution: {target: agent}
assertions:
  - ASSERTION
tests:
"""
CODE = "{name: total, type: code-grader, command: [python3, grade.py]}"
PLAIN = "{name: total, type: contains, value: '42'}"


def write_project(folder: Path, tests: int, assertion: str) -> None:
    (folder / ".git").mkdir()
    (folder / ".agentv").mkdir()
    (folder / ".agentv" / "targets.yaml").write_text(TARGETS)
    (folder / "grade.py").write_text(GRADER)
    with (folder / "answers.jsonl").open("w") as file:
        for number in range(tests):
            row: dict[str, Any] = {
                "schema_version": "agentv.replay_fixture.v1",
                "suite": "many",
                "source_target": "recorded",
            }
            row |= {"test_id": f"t{number}", "output": [{"role": "assistant", "content": "The total is 42."}]}
            file.write(json.dumps(row) + "\n")
    lines = (f"  - {{id: t{number}, criteria: says the total, input: add}}\n" for number in range(tests))
    (folder / "many.eval.yaml").write_text(HEAD.replace("ASSERTION", assertion) + "".join(lines))


def left(state: Path) -> dict[str, int]:
    """What the engine with this state folder holds now, by kind."""
    places = StateFolders(state, group=0)
    mounts = Path("/proc/self/mounts").read_text()
    # Those of other engines go while one looks, which os.walk does not mind.
    own = (
        names
        for folder, names, _ in os.walk("/sys/fs/cgroup")
        if folder.endswith(f"agentv-sandbox/{places.name}")
    )
    groups = [name for names in own for name in names]
    folders = [path for place in (places.containers, places.memory_volumes) for path in place.glob("*")]
    return {
        "mounts": mounts.count(f"/{places.name}/"),
        "groups": len(groups),
        "folders": len(folders),
    }


@dataclass(frozen=True)
class Used:
    mib: float
    cpu_s: float


def used(pid: int) -> Used:
    """What a process holds now, and took until now. Raises OSError."""
    status = Path(f"/proc/{pid}/status").read_text()
    resident = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))
    times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return Used(mib=int(resident) / 1024, cpu_s=sum(map(int, times)) / os.sysconf("SC_CLK_TCK"))


def workers_of(pid: int) -> list[int]:
    """Processes of ``agentv-sandbox worker`` that ``pid`` started."""
    children = Path("/proc").glob(f"{pid}/task/*/children")
    pids = sorted(int(child) for path in children for child in path.read_text().split())
    return [child for child in pids if b"\0worker\0" in Path(f"/proc/{child}/cmdline").read_bytes()]


def watched(argv: list[str], folder: Path, tests: int, state: Path) -> int:
    """Run ``argv`` to its end, and print its memory and descriptors on the way. Returns its exit code."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env[FOLDER_VARIABLE] = str(state)
    index, started, next_row = folder / "out" / "index.jsonl", time.monotonic(), max(tests // 10, 1)
    with (folder / "errors.txt").open("w") as errors:
        process = subprocess.Popen(argv, cwd=folder, env=env, stdout=errors, stderr=errors)
        while process.poll() is None:
            time.sleep(1)
            rows = index.read_bytes().count(b"\n") if index.exists() else 0
            if rows < next_row or process.poll() is not None:
                continue
            next_row = rows + tests // 10
            try:
                descriptors = len(list(Path(f"/proc/{process.pid}/fd").iterdir()))
                own, workers = used(process.pid), [used(pid) for pid in workers_of(process.pid)]
            except OSError:
                continue
            print(
                f"{rows:7} rows  {time.monotonic() - started:7.1f} s  {own.mib:6.1f} MiB  {own.cpu_s:6.1f} CPU s  "
                f"{descriptors} descriptors",
                *(
                    ["; workers:", *(f"{w.mib:.1f} MiB {w.cpu_s:.1f} CPU s" for w in workers)]
                    if workers
                    else []
                ),
                flush=True,
            )
    seconds = time.monotonic() - started
    print(f"{seconds:.1f} s, {tests / seconds:.1f} tests a second")
    return process.returncode


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tests", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--cluster", type=int)
    parser.add_argument("--plain", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-many-") as name:
        folder = Path(name)
        folder.chmod(0o711)  # containers pass through it to their files
        write_project(folder, asked.tests, PLAIN if asked.plain else CODE)
        state = Path(os.environ.get(FOLDER_VARIABLE, folder / "state"))
        argv = [sys.executable, "-P", "-m", "agentv_sandbox", "run", "many.eval.yaml"]
        # The image is made by a run before, of one test.
        watched([*argv, "-o", "first", "--engine", "native", "--test-id", "t0"], folder, 1, state)
        before = left(state)
        argv += ["-o", "out"]
        where = (
            ["--workers", str(asked.workers)]
            if asked.cluster is None
            else ["--cluster", f"local:{asked.cluster}"]
        )
        code = watched([*argv, "--engine", "native", *where], folder, asked.tests, state)
        after = left(state)
        index = folder / "out" / "index.jsonl"
        rows = [json.loads(line) for line in index.read_text().splitlines()] if index.exists() else []
        if code != 0:
            print((folder / "errors.txt").read_text()[-2000:])
        passed = sum(row["score"] == 1 for row in rows)
        print(f"exit code {code}, {passed} of {len(rows)} rows passed")
        print(f"before: {before}\nafter:  {after}")
        once = sorted(row["test_id"] for row in rows) == sorted(f"t{number}" for number in range(asked.tests))
        moved = max((abs(int(row["test_id"][1:]) - place) for place, row in enumerate(rows)), default=0)
        summary = json.loads((folder / "out" / "benchmark.json").read_text())
        print(f"each test once: {once}; farthest from its place in the suite: {moved} rows")
        print(json.dumps(summary["metadata"])[:300])
        print(json.dumps(summary["run_summary"])[:300])
        return 0 if code == 0 and passed == asked.tests and after == before and once else 1


if __name__ == "__main__":
    raise SystemExit(main())
