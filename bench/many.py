"""Very many small cases by the native engine: rate, memory, and what is left behind.

    python bench/many.py [--tests 10000] [--workers 4]

A ``replay`` target answers; one Python code grader a test judges it in a container. While the run goes on, its resident
memory and open descriptors are looked at after every tenth of the rows; mounts, control groups and folders of the
engine are counted before and after. Exits with 1 when a row is missing, a test does not pass or something is left.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from agentv_sandbox.engines.native.places import FOLDER_VARIABLE, Places

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
  - {name: total, type: code-grader, command: [python3, grade.py]}
tests:
"""


def write_project(folder: Path, tests: int) -> None:
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
    (folder / "many.eval.yaml").write_text(HEAD + "".join(lines))


def left(state: Path) -> dict[str, int]:
    """What the engine with this state folder holds now, by kind."""
    places = Places(state, group=0)
    mounts = Path("/proc/self/mounts").read_text()
    groups = [p for p in Path("/sys/fs/cgroup").glob(f"**/agentv-sandbox/{places.name}/*") if p.is_dir()]
    folders = [path for place in (places.containers, places.memory_volumes) for path in place.glob("*")]
    return {
        "mounts": mounts.count(f"/{places.name}/"),
        "groups": len(groups),
        "folders": len(folders),
    }


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
                status = Path(f"/proc/{process.pid}/status").read_text()
                descriptors = len(list(Path(f"/proc/{process.pid}/fd").iterdir()))
            except OSError:
                continue
            resident = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))
            print(
                f"{rows:7} rows  {time.monotonic() - started:7.1f} s  {int(resident) / 1024:6.1f} MiB  "
                f"{descriptors} descriptors",
                flush=True,
            )
    seconds = time.monotonic() - started
    print(f"{seconds:.1f} s, {tests / seconds:.1f} tests a second")
    return process.returncode


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tests", type=int, default=10_000)
    parser.add_argument("--workers", type=int, default=4)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-many-") as name:
        folder = Path(name)
        folder.chmod(0o711)  # containers pass through it to their files
        write_project(folder, asked.tests)
        state = folder / "state"
        argv = [sys.executable, "-m", "agentv_sandbox", "run", "many.eval.yaml"]
        # The image is made by a run before, of one test.
        watched([*argv, "-o", "first", "--engine", "native", "--test-id", "t0"], folder, 1, state)
        before = left(state)
        argv += ["-o", "out"]
        code = watched(
            [*argv, "--engine", "native", "--workers", str(asked.workers)], folder, asked.tests, state
        )
        after = left(state)
        index = folder / "out" / "index.jsonl"
        rows = [json.loads(line) for line in index.read_text().splitlines()] if index.exists() else []
        if code != 0:
            print((folder / "errors.txt").read_text()[-2000:])
        passed = sum(row["score"] == 1 for row in rows)
        print(f"exit code {code}, {passed} of {len(rows)} rows passed")
        print(f"before: {before}\nafter:  {after}")
        return 0 if code == 0 and passed == asked.tests and after == before else 1


if __name__ == "__main__":
    raise SystemExit(main())
