"""Seconds for a suite in which nothing runs in a container.

    python bench/mock.py [TESTS]

Runs the command on a real engine over TESTS (300) tests of a ``mock`` target with string assertions, after one run that
makes the images. Prints the seconds of the whole command and of a run of one test, by clock and of the processor, and
the peak of its resident memory. Exits with 1 when a row is missing or no test passes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TARGETS = "targets: [{name: agent, provider: mock, response: 'The answer is 42, as always.'}]\n"
HEAD = """
name: mock
execution: {target: agent}
assertions:
  - {type: contains, value: answer}
  - {type: icontains-all, value: [ANSWER, always]}
  - {type: regex, value: '\\d+'}
  - {type: starts-with, value: The}
tests:
"""


def measured(folder: Path, suite: str, out: str) -> dict[str, float]:
    argv = [sys.executable, "-P", "-m", "agentv_sandbox", "run", suite, "-o", out]
    started = time.monotonic()
    process = subprocess.Popen(argv, cwd=folder, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    rows = [json.loads(line) for line in (folder / out / "index.jsonl").read_text().splitlines()]
    return {
        "tests": len(rows),
        "passed": sum(row["execution_status"] == "ok" for row in rows),
        "seconds": round(time.monotonic() - started, 1),
        "cpu_seconds": round(used.ru_utime + used.ru_stime, 1),
        "peak_mb": round(used.ru_maxrss * 1024 / 1e6, 1),
    }


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    with tempfile.TemporaryDirectory(prefix="bench-mock-") as name:
        folder = Path(name)
        (folder / ".git").mkdir()
        (folder / "targets.yaml").write_text(TARGETS)
        for suite, tests in (("one", 1), ("many", count)):
            lines = "".join(f"  - {{id: t{n}, criteria: c, input: go}}\n" for n in range(tests))
            (folder / f"{suite}.eval.yaml").write_text(HEAD + lines)
        measured(folder, "one.eval.yaml", "first")
        results = {suite: measured(folder, f"{suite}.eval.yaml", suite) for suite in ("one", "many")}
    print(json.dumps(results))
    return int(
        any(result["passed"] < result["tests"] for result in results.values())
        or results["many"]["tests"] < count
    )


if __name__ == "__main__":
    sys.exit(main())
