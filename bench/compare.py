"""Seconds and memory for the comparison of two large runs.

    python bench/compare.py [ROWS]

Writes two run folders of ROWS (2,000) rows with five graders each and runs the command on them five times. Prints the
medians of its wall and processor seconds and of its peak of resident memory, beside those of ``--version``.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 5


def write_run(folder: Path, rows: int, numbers: random.Random) -> None:
    folder.mkdir()
    with (folder / "index.jsonl").open("w") as file:
        for number in range(rows):
            scores = [numbers.choice([0.0, 0.5, 1.0]) for _ in range(5)]
            graders = [
                {"name": f"g{n}", "type": "contains", "score": score, "verdict": "pass", "assertions": []}
                for n, score in enumerate(scores)
            ]
            mean = round(statistics.fmean(scores), 3)
            row = {"test_id": f"t{number}", "suite": "s", "target": "t", "score": mean, "scores": graders}
            status = "ok" if mean >= 0.8 else "quality_failure"
            row |= {
                "execution_status": status,
                "threshold": 0.8,
                "cost_usd": 0.01,
                "total_duration_ms": 900.0,
            }
            file.write(json.dumps(row) + "\n")


def measured(argv: list[str]) -> tuple[float, float, float]:
    """Wall seconds, processor seconds, peak in MB."""
    started = time.monotonic()
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "agentv_sandbox", *argv], stdout=subprocess.DEVNULL, env=env
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{argv} ended with {process.returncode}")
    return time.monotonic() - started, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6


def main() -> int:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    numbers = random.Random(1)
    with tempfile.TemporaryDirectory() as name:
        folders = [Path(name) / run for run in ("a", "b")]
        for folder in folders:
            write_run(folder, rows, numbers)
        start, whole = [], []
        for _ in range(ROUNDS):
            start.append(measured(["--version"]))
            whole.append(measured(["compare", *map(str, folders)]))
    for label, figures in (("--version", start), (f"compare, 2 x {rows} rows", whole)):
        seconds, cpu, peak = (statistics.median(values) for values in zip(*figures, strict=True))
        print(f"{label}: {seconds:.2f} s, {cpu:.2f} CPU s, {peak:.0f} MB")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
