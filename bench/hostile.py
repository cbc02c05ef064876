"""Memory and time of the orchestrator over agents that leave as much as they can.

    python bench/hostile.py [--workers 3] [--only NAME ...] [--dev] [--json FILE]

Runs the command on a real engine over one test for each kind of hostile output: answers of the largest size that is
read, 300,000 file blocks, as many tool calls as an answer may hold, 45,000 files, long paths, artifacts of 200 MB.
Prints the peak resident memory of the process and its seconds, by clock and of the processor. Exits with 1 when
the peak is above 300 MB or a row is missing. ``--dev`` runs it under Python's development mode.
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

from agentv_sandbox.agents.response import MAX_BYTES

MAX_PEAK_MB = 300
SECRET = "sk-hostile-bench-5d1f0c77"
AGENT = """
import json, os, sys

KIND, OUTPUT, LIMIT, SECRET = os.environ["AGENTV_EVAL_ID"], sys.argv[1], int(sys.argv[2]), os.environ["KEY"]

def answer(text):
    with open(OUTPUT, "w", encoding="utf-8") as stream:
        stream.write(text)

def said(content, **more):
    return json.dumps({"output": [{"role": "assistant", "content": content, **more}]})

def files(count, folder, size):
    os.makedirs(folder)
    os.chdir(folder)
    for n in range(count):
        with open(f"file{n:05}", "wb") as stream:
            stream.write(b"%d\\n" % n * size)

def artifact(name, piece):
    with open(name, "wb") as stream:
        for _ in range((200 << 20) // len(piece)):
            stream.write(piece)

match KIND:
    case "largest":
        answer("x" * LIMIT)
    case "too-large":
        answer("x" * (32 << 20))
    case "control":
        answer("\\x01" * LIMIT)
    case "wide":
        answer(said("\\U0001f600" + "e" * (LIMIT - 200)))
    case "blocks":
        answer(said([{"type": "file", "media_type": "text/plain", "path": f"a{n}"} for n in range(300_000)])[:LIMIT])
    case "more-blocks":
        answer(said([{"type": "file", "media_type": "text/plain", "path": f"a{n}"} for n in range(55_000)]))
    case "calls":
        timed = {"tool": "t", "duration_ms": 1}
        answer(said("done", tool_calls=[timed] * 80_000))
    case "messages":
        answer(json.dumps({"output": [{"role": "assistant", "content": "m"}] * 80_000}))
    case "values":
        answer(said("done", metadata=[{} for _ in range(120_000)]))
    case "files":
        files(45_000, "d", 20)
        answer("done")
    case "deep":
        files(20_000, "/".join(["d" * 200] * 19), 1)
        answer("done")
    case "artifact":
        artifact("model.bin", os.urandom(1 << 20))
        answer("done")
    case "secrets":
        artifact("keys.bin", (SECRET.encode() + b" ") * 40_000)
        answer("done")
    case "log":
        for _ in range(3000):
            sys.stdout.write(SECRET * 1000 + "\\n")
        answer("done")
"""
KINDS = [
    "largest",
    "too-large",
    "control",
    "wide",
    "blocks",
    "more-blocks",
    "calls",
    "messages",
    "values",
    "files",
    "deep",
    "artifact",
    "secrets",
    "log",
]
SUITE = """
name: hostile
execution: {target: agent}
limits: {workspace_size: 400m, workspace_files: 60000}
workspace: {env: {required_commands: [python3]}}
assertions:
  - {type: contains, value: done}
  - {type: tool-trajectory, mode: any_order, minimums: {Read: 1}}
  - {type: execution-metrics, max_tool_calls: 5}
  - {type: code-grader, command: [python3, grade.py]}
tests:
"""
GRADER = """
import json, sys
json.load(sys.stdin)
print(json.dumps({"score": 1, "assertions": []}))
"""


def write(folder: Path, kinds: list[str]) -> None:
    command = f"python3 agent.py {{OUTPUT_FILE}} {MAX_BYTES}"
    target = {"name": "agent", "provider": "cli", "command": command, "env": ["KEY"], "timeout_seconds": 300}
    (folder / "targets.yaml").write_text(json.dumps({"targets": [target]}))
    (folder / "agent.py").write_text(AGENT)
    (folder / "grade.py").write_text(GRADER)
    tests = "".join(f"  - {{id: {kind}, criteria: c, input: go}}\n" for kind in kinds)
    (folder / "hostile.eval.yaml").write_text(SUITE + tests)


def measured(folder: Path, workers: int, *, dev: bool) -> dict[str, float]:
    """Runs the command and looks at what the process used."""
    options = ["-X", "dev"] if dev else []
    argv = [sys.executable, *options, "-m", "agentv_sandbox", "run", "hostile.eval.yaml", "-o", "out"]
    started = time.monotonic()
    process = subprocess.Popen(
        [*argv, "--workers", str(workers)], cwd=folder, env={**os.environ, "KEY": SECRET}
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    rows = (folder / "out/index.jsonl").read_text().splitlines()
    return {
        "exit": process.returncode,
        "rows": len(rows),
        "peak_mb": round(used.ru_maxrss * 1024 / 1e6, 1),
        "seconds": round(time.monotonic() - started, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--dev", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-hostile-") as name:
        folder = Path(name)
        (folder / ".git").mkdir()
        write(folder, options.only)
        result = measured(folder, options.workers, dev=options.dev)
    print(json.dumps(result))
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n")
    return int(result["peak_mb"] > MAX_PEAK_MB or result["rows"] != len(options.only))


if __name__ == "__main__":
    sys.exit(main())
