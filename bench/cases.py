"""Seconds and processor seconds for tests with an agent and two graders: each engine, and AgentV on the bare host.

    python bench/cases.py [--tests 20] [--workers 3] [--rounds 3] [--sides native,docker,agentv] [--sleep 0]

The same suite on each side, in turns, each time in a new project, after a first run of each that makes images: a
command as agent, two Python code graders, ``--sleep`` seconds of waiting in each agent. Processor seconds are the
whole machine's, since engines work in processes of their own: measure on a quiet one. Prints medians and ratios.
``agentv`` needs AgentV (``make setup-dev``).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TARGETS = """
targets:
  - name: writer
    provider: cli
    command: "sleep {sleep}; printf 'The total is 42. ' > {{OUTPUT_FILE}}; cat {{PROMPT_FILE}} >> {{OUTPUT_FILE}}"
    {workers_key}: {workers}
"""
GRADER = """
import json, sys
given = json.load(sys.stdin)
text = json.dumps(given.get("output"))
passed = WORD in text
print(json.dumps({"score": float(passed), "assertions": [{"text": "says " + WORD, "passed": passed}]}))
"""
HEAD = """
name: cases
execution: {target: writer}
assertions:
  - {name: total, type: code-grader, command: [python3, grade_total.py]}
  - {name: word, type: code-grader, command: [python3, grade_word.py]}
tests:
"""


def write_project(folder: Path, tests: int, workers: int, sleep: float) -> None:
    (folder / ".git").mkdir()
    (folder / ".agentv").mkdir()
    text = TARGETS.format(sleep=f"{sleep:g}", workers=workers, workers_key="workers")
    (folder / ".agentv" / "targets.yaml").write_text(text)
    for name, word in (("grade_total.py", "42"), ("grade_word.py", "total")):
        (folder / name).write_text(f"WORD = {word!r}\n{GRADER}")
    lines = "".join(f"  - {{id: t{n}, criteria: says the total, input: test {n}}}\n" for n in range(tests))
    (folder / "cases.eval.yaml").write_text(HEAD + lines)


def machine_cpu_s() -> float:
    """Processor seconds that the machine has spent so far, waiting apart."""
    fields = [int(value) for value in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    return (sum(fields) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK")


def command(side: str, workers: int, out: str) -> list[str]:
    if side == "agentv":
        home = Path(os.environ.get("AGENTV_HOME") or Path(sys.prefix, "agentv")) / "node_modules"
        argv = [str(home / ".bin/bun"), str(home / "agentv/dist/cli.js"), "eval", "run", "cases.eval.yaml"]
        return [*argv, "--workers", str(workers), "--output", out]
    argv = [sys.executable, "-P", "-m", "agentv_sandbox", "run", "cases.eval.yaml", "-o", out]
    return [*argv, "--engine", side, "--workers", str(workers)]


def measured(folder: Path, side: str, workers: int, tests: int) -> tuple[float, float]:
    """Wall and processor seconds of one run, all of whose tests must pass."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    # The interpreter itself: a version manager's script in front of it would cost AgentV's graders more than they do.
    env["PATH"] = f"{Path(sys.executable).resolve().parent}{os.pathsep}{env['PATH']}"
    argv = command(side, workers, "out")
    cpu, started = machine_cpu_s(), time.monotonic()
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False)
    seconds, cpu = time.monotonic() - started, machine_cpu_s() - cpu
    index = folder / "out/index.jsonl"
    rows = [json.loads(line) for line in index.read_text().splitlines()] if index.exists() else []
    if len(rows) != tests or any(row["score"] < 1 for row in rows):
        raise SystemExit(f"{side}: {len(rows)} of {tests} rows\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return seconds, cpu


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tests", type=int, default=20)
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sleep", type=float, default=0)
    parser.add_argument("--sides", default="native,docker,agentv")
    asked = parser.parse_args()
    sides = asked.sides.split(",")
    figures: dict[str, list[tuple[float, float]]] = {side: [] for side in sides}
    for number in range(asked.rounds + 1):
        for side in sides:
            # A new project each time: results of earlier runs would be files that the next ones carry along.
            with tempfile.TemporaryDirectory(prefix="bench-cases-") as name:
                write_project(Path(name), asked.tests, asked.workers, asked.sleep)
                result = measured(Path(name), side, asked.workers, asked.tests)
            if number:
                figures[side].append(result)
    medians = {
        side: [statistics.median(column) for column in zip(*figures[side], strict=True)] for side in sides
    }
    for side, (seconds, cpu) in medians.items():
        ratio = seconds / medians[sides[0]][0]
        print(
            f"{side:8} {seconds:7.2f} s  {cpu / asked.tests:6.3f} CPU s a test  {ratio:6.2f} x {sides[0]}  "
            f"(rounds: {', '.join(f'{each[0]:.2f}' for each in figures[side])})"
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
