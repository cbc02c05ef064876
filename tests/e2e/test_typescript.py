"""AgentV's TypeScript graders that read stdin and write stdout run as they are."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest

from tests.agentv import agentv_command, agentv_modules
from tests.e2e.conftest import Project

pytestmark = pytest.mark.engine

SUITE = """name: ts
execution: {target: m}
tests:
  - id: a
    criteria: c
    input: hi
    assertions:
      - {name: bun-stdin, type: code-grader, command: [bun, run, graders/check.ts]}
      - {name: dev-stdin, type: code-grader, command: [bun, run, graders/dev.ts]}
"""
OWN_KIND = """name: own
execution: {target: m}
tests:
  - id: a
    input: hi
    assertions:
      - {type: word-count}
      - {type: word_count, name: again, weight: 3}
      - {type: word-count, name: not, negate: true}
"""
TARGETS = "targets: [{name: m, provider: mock, response: hello world}]\n"
CHECK = """const input = JSON.parse(await Bun.stdin.text());
const passed: boolean = input.output.includes("hello");
console.log(JSON.stringify({ score: passed ? 1 : 0, assertions: [{ text: "says hello", passed }] }));
"""
COUNT = """import { enough } from "./lib/enough";
const input: { output: string } = JSON.parse(await Bun.stdin.text());
const count: number = input.output.split(" ").length;
const passed = enough(count);
const text = `${count} words`;
console.log(JSON.stringify({ score: passed ? 1 : 0.25, assertions: [{ text, passed }] }));
"""
ENOUGH = "export const enough = (count: number): boolean => count > 2;\n"
DEV = """import { readFileSync } from "node:fs";
const input = JSON.parse(readFileSync("/dev/stdin", "utf8"));
console.log(JSON.stringify({ score: input.output === "hello world" ? 1 : 0 }));
"""


def test_typescript_graders_run_under_bun_as_they_are(project: Project) -> None:
    project.write(
        {
            "ts.eval.yaml": SUITE,
            "targets.yaml": TARGETS,
            "graders/check.ts": CHECK,
            "graders/dev.ts": DEV,
        }
    )
    done = project.run("ts.eval.yaml")
    assert done.code == 0, done.stdout + done.stderr
    assert [score["score"] for score in done.rows["a"]["scores"]] == [1, 1]


def test_an_assertion_in_typescript_is_scored_as_by_agentv(project: Project) -> None:
    """Nothing says that it needs bun."""
    project.write(
        {
            ".git/HEAD": "ref: refs/heads/main\n",
            ".agentv/targets.yaml": TARGETS,
            ".agentv/assertions/word-count.ts": COUNT,
            ".agentv/assertions/lib/enough.ts": ENOUGH,
            "own.eval.yaml": OWN_KIND,
        }
    )
    done = project.run("own.eval.yaml")
    assert done.code == 1, done.stdout + done.stderr
    path = f"{agentv_modules() / '.bin'}{os.pathsep}{os.environ['PATH']}"
    argv = [*agentv_command(), "eval", "run", "own.eval.yaml", "-o", "theirs"]
    subprocess.run(argv, cwd=project.folder, env=project.env(PATH=path), capture_output=True, check=False)
    [theirs] = map(json.loads, (project.folder / "theirs/index.jsonl").read_text().splitlines())
    assert _judged(done.rows["a"]) == _judged(theirs)
    assert theirs["score"] == 0.35


def _judged(row: dict[str, Any]) -> Any:
    kept = ("name", "type", "score", "weight", "verdict", "assertions")
    scores = [[score[key] for key in kept] for score in row["scores"]]
    return row["score"], row["execution_status"], scores
