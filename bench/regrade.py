"""A run of 100 tests beside the same graded again, and whether all scores are equal.

    python bench/regrade.py [TESTS] [AGENT_SECONDS]

Runs TESTS (100) tests of a cli agent that works AGENT_SECONDS (1) and leaves files; each has a text grader, a
code-grader that reads the workspace, and every fourth a second one. Prints seconds by the clock of both, their ratio,
the share of equal scores, and what keeping the outputs takes on disk. Ends with 1 when a score differs or the ratio is
above 0.5.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

LIMIT = 0.5
AGENT = """\
sleep {seconds}
mkdir -p out
i=0
while [ $i -lt 20 ]; do echo "$EVAL $i" > out/$i.txt; i=$((i + 1)); done
date +%N > out/when.txt
echo all done > $1
"""
LOOK = """\
cat > /dev/null
sum=$(cat /workspace/out/*.txt /workspace/*.txt | sha256sum | cut -c1-8)
share=$(printf '%d' 0x$(echo $sum | cut -c1-2))
printf '{"score": 0.%03d, "assertions": [{"text": "%s", "passed": true}]}' $share $sum
"""
TARGETS = "targets: [{name: agent, provider: cli, command: 'sh agent.sh {OUTPUT_FILE}'}]\n"


def write(folder: Path, tests: int, seconds: float) -> None:
    looks = "{name: looks, type: code-grader, command: [sh, look.sh]}"
    more = ", {name: again, type: code-grader, command: [sh, look.sh]}"
    says = "{name: says, type: contains, value: done}"
    lines = [
        f"  - {{id: t{n}, criteria: c, input: go {n}, assert: [{says}, {looks}{'' if n % 4 else more}]}}"
        for n in range(tests)
    ]
    head = "name: s\nexecution: {target: agent, workers: 4}\nworkspace: {template: template}\ntests:\n"
    files = {
        "s.eval.yaml": head + "\n".join(lines) + "\n",
        "agent.sh": AGENT.replace("{seconds}", str(seconds)),
        "look.sh": LOOK,
        ".agentv/targets.yaml": TARGETS,
        "template/start.txt": "start\n",
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def timed(folder: Path, *args: str) -> float:
    started = time.monotonic()
    argv = [sys.executable, "-P", "-m", "agentv_sandbox", *args]
    done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stdout[-2000:] + done.stderr[-2000:])
    return time.monotonic() - started


def scores(run: Path) -> dict[str, object]:
    rows = map(json.loads, (run / "index.jsonl").read_text().splitlines())
    return {
        row["test_id"]: [row["score"], [[s["score"], s["assertions"]] for s in row["scores"]]] for row in rows
    }


def size(folder: Path, pattern: str) -> int:
    return sum(path.stat().st_size for path in folder.rglob(pattern) if path.is_file())


def main() -> int:
    tests = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 1.0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, tests, seconds)
        timed(
            folder, "run", "s.eval.yaml", "--test-id", "t0", "--threshold", "0", "-o", "image"
        )  # the image is made before
        first = timed(folder, "run", "s.eval.yaml", "--threshold", "0", "-o", "first")
        again = timed(folder, "regrade", "first", "-o", "again")
        before, after = scores(folder / "first"), scores(folder / "again")
        equal = sum(before[test] == after.get(test) for test in before)
        kept = size(folder / "first", "capture.json") + size(folder / "first" / "captured", "*")
        whole = size(folder / "first", "*")
    ratio = again / first
    print(
        f"{tests} tests, agents of {seconds:g} s: first {first:.1f} s, again {again:.1f} s, ratio {ratio:.2f}"
    )
    print(f"equal scores: {equal}/{len(before)}; kept for it: {kept >> 10} of {whole >> 10} KiB")
    return 0 if equal == len(before) == tests and ratio <= LIMIT else 1


if __name__ == "__main__":
    raise SystemExit(main())
