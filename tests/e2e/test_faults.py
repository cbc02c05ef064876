"""Every fault has its name in the row, whatever the program says of itself; real engine, real signals."""

from __future__ import annotations

import json
import signal
import time

import pytest

from tests import forkserver
from tests.e2e.conftest import Project

pytestmark = pytest.mark.engine

TARGETS = """
targets:
  - name: agent
    provider: cli
    command: sh agent.sh {EVAL_ID} {OUTPUT_FILE}
    timeout_seconds: 8
    limits: {memory: 64m, output_size: 8m}
  - {name: nobody, provider: openai, api_format: chat, base_url: 'http://127.0.0.1:9/v1', model: m, max_retries: 0}
"""
# What an agent says is a lie each time: its exit status and its words are those of another fault.
AGENT = """
echo 'no space left on device, timed out, out of memory' >&2
case $1 in
  timeout) trap 'exit 1' TERM; sleep 600 ;;
  out_of_memory) python3 -c 'b = bytearray(1 << 30); print(len(b))'; exit 1 ;;
  output_flood) yes "$(head -c 4000 /dev/zero | tr '\\0' s)" ;;
  disk_full) head -c 50000000 /dev/zero > big; exit 1 ;;
  agent_exit) exit 124 ;;
  no_answer) exit 0 ;;
  spends) echo '{"text": "done", "cost_usd": 2.0}' > $2 ;;
esac
"""
TEST = "  - {id: %s, input: go, assert: [{type: contains, value: done}]}\n"
NAMES = ("timeout", "out_of_memory", "output_flood", "disk_full", "agent_exit", "no_answer")


def write(project: Project, names: tuple[str, ...], execution: str = "") -> None:
    head = f"name: s\nexecution: {{target: agent{execution}}}\nlimits: {{workspace_size: 16m}}\ntests:\n"
    text = head + "".join(TEST % name for name in names)
    project.write({".agentv/targets.yaml": TARGETS, "agent.sh": AGENT, "s.eval.yaml": text})


def test_agents_end_under_the_name_of_what_ended_them(project: Project) -> None:
    write(project, NAMES)
    done = project.run("s.eval.yaml")
    assert {name: row.get("fault") for name, row in done.rows.items()} == {name: name for name in NAMES}
    assert {row["execution_status"] for row in done.rows.values()} == {"execution_error"}
    figures = json.loads((project.output / "benchmark.json").read_text())
    assert figures["run_summary"]["agent"]["pass_rate"] == {"mean": 0, "stddev": 0}
    assert "all 6 test(s) had execution errors" in done.stdout


def test_budgets_dependencies_hooks_and_servers_have_names(project: Project) -> None:
    write(project, ("spends", "budget_exceeded"), ", workers: 1, budget_usd: 1")
    rows = project.run("s.eval.yaml").rows
    assert (rows["spends"]["execution_status"], rows["budget_exceeded"]["fault"]) == ("ok", "budget_exceeded")
    text = (project.folder / "s.eval.yaml").read_text()
    hooks = "workspace: {hooks: {before_each: {command: [sh, -c, exit 1]}}}\ntests:"
    project.write({"s.eval.yaml": text.replace("tests:", hooks).replace(", budget_usd: 1", "")})
    argv = project.argv("run", "s.eval.yaml", "-o", "hooks")
    forkserver.run(argv, cwd=project.folder, env=project.env())
    lines = (project.folder / "hooks" / "index.jsonl").read_text().splitlines()
    assert {json.loads(line)["fault"] for line in lines} == {"setup_failed"}
    write(project, ("t",))
    argv = project.argv("run", "s.eval.yaml", "--target", "nobody", "-o", "nobody")
    forkserver.run(argv, cwd=project.folder, env=project.env())
    row = json.loads((project.folder / "nobody" / "index.jsonl").read_text())
    assert row["fault"] == "target_unreachable", row


def test_an_interrupted_run_says_so(project: Project) -> None:
    write(project, ("timeout",))
    with project.start("s.eval.yaml") as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("start "):
                break
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    assert process.returncode == 130
    assert json.loads((project.output / "run.json").read_text())["ended"] == "interrupted"
