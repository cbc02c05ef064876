"""What a call of ``candidate.run`` takes, beside the same program started by the grader itself.

    python bench/candidates.py [--engine docker|native] [--calls N]

One run of a suite whose grader times, in turns and N (40) times: a program of the workspace in the box, the same as a
process of its own container, and a line to one that goes on. Prints JSON: seconds of the first call, which starts the
box, and medians and 95th percentiles of the others. Exits with 1 when at the median a call takes 60 ms natively, or
300 ms on Docker, longer than the process.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from agentv_sandbox.runs.api import run

MOST_S = {"native": 0.06, "docker": 0.3}
TARGETS = 'targets: [{name: agent, provider: cli, command: "python3 agent.py {OUTPUT_FILE}"}]\n'
AGENT = """
import sys
open("/workspace/total.py", "w").write("print(sum(map(int, input().split())))\\n")
open("/workspace/again.py", "w").write("import sys\\nfor line in sys.stdin: print(line, end='', flush=True)\\n")
open(sys.argv[1], "w").write("done")
"""
GRADER = """
import statistics, subprocess, time
from agentv_sandbox.sdk import candidate, define_code_grader
PROGRAM = ["python3", "-I", "/workspace/total.py"]

def timed(work):
    begun = time.monotonic()
    assert work() == b"6\\n"
    return time.monotonic() - begun

def figures(seconds):
    return {"median_s": statistics.median(seconds), "p95_s": sorted(seconds)[int(0.95 * len(seconds))]}

@define_code_grader
def grade(case):
    box = lambda: candidate.run(PROGRAM, stdin="1 2 3").stdout
    own = lambda: subprocess.run(PROGRAM, input=b"1 2 3", capture_output=True).stdout
    first = timed(box)
    with candidate.open(["python3", "-I", "/workspace/again.py"]) as talk:
        line = lambda: talk.ask("6")
        line()
        rounds = [(timed(box), timed(own), timed(line)) for _ in range(case.config["calls"])]
    kinds = zip(("box", "process", "line"), zip(*rounds))
    return {"score": 1.0, "details": {"first_s": first, **{name: figures(each) for name, each in kinds}}}
"""


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--engine", choices=sorted(MOST_S), default="native")
    parser.add_argument("--calls", type=int, default=40)
    asked = parser.parse_args()
    grader = {"type": "code-grader", "command": ["python3", "grade.py"], "config": {"calls": asked.calls}}
    test = {"id": "t", "criteria": "c", "input": "go", "assertions": [grader]}
    suite = {"name": "candidates", "execution": {"target": "agent"}, "tests": [test]}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = {
            "targets.yaml": TARGETS,
            "agent.py": AGENT,
            "grade.py": GRADER,
            "s.eval.yaml": json.dumps(suite),
        }
        for path, text in files.items():
            (folder / path).write_text(text)
        done = run([folder / "s.eval.yaml"], engine=asked.engine, output=folder / "out")
        assert done is not None
        [row] = map(json.loads, (folder / "out" / "index.jsonl").read_text().splitlines())
    details = row["scores"][0].get("details")
    if details is None:
        print(json.dumps(row["scores"][0]))
        return 1
    print(json.dumps({"engine": asked.engine, **details}, indent=2))
    return int(details["box"]["median_s"] - details["process"]["median_s"] > MOST_S[asked.engine])


if __name__ == "__main__":
    raise SystemExit(main())
