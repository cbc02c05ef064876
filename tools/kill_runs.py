"""Kill a run at random moments again and again, and see whether ``--resume`` loses or repeats anything.

    python tools/kill_runs.py [--kills 50] [--seed 1] [--scale 1.0] [--most 25]

40 tests on a real engine: agents of 1 to 5 s (times ``--scale``), LLM graders on a scripted server, trials, and tests
that share a workspace. A run is started with ``--resume``, killed by SIGKILL up to ``--most`` seconds after its first
test began, and started again; when one is complete, the next begins. Prints what was seen. Exits with 1 when a row was
lost, a finished test or trial ran again, a temporary folder was there 30 s after a kill, anything was left in the
engine or, natively, mounted, or a score is not that of an undisturbed run.

Tests that share a workspace stand together or not at all: the workspace is gone with the run that was killed. So those
of a group that was not complete are counted apart; one of a complete group that runs again is a test run twice.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from agentv_sandbox.engines import LABEL_OWNER, LABEL_RUN
from agentv_sandbox.engines.owner import Owner
from agentv_sandbox.engines.table import find_engine
from agentv_sandbox.kernel.layout import StateFolders

TARGETS = """
targets:
  - {{name: agent, provider: cli, command: 'sh agent.sh {{EVAL_ID}} {{OUTPUT_FILE}}', grader_target: judge}}
  - {{name: judge, provider: openai, api_format: chat, base_url: {url}, api_key: '${{{{ JUDGE_KEY }}}}', model: m}}
"""
AGENT = """
sleep $(awk -v id="${1#t}" 'BEGIN { print (1 + id % 5) * SCALE }')
echo "$1" >> log.txt
case $1 in *[0-6]) echo "a good answer" ;; *) echo "a poor answer" ;; esac > $2
"""
GRADER = "assert: [{type: llm-grader, prompt: 'Is {{output}} good?'}, {type: contains, value: answer}]"
SUITES = {
    "plain": ("{target: agent, workers: 6}", "", range(30)),
    "trials": ("{target: agent, workers: 3, trials: {count: 3, strategy: mean}}", "", range(30, 36)),
    "shared": ("{target: agent}", "workspace: {isolation: shared}\n", range(36, 40)),
}


class Judge(BaseHTTPRequestHandler):
    """A chat model that gives a good answer 0.9 and any other 0.2."""

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers["content-length"])).decode()
        verdict = {"score": 0.9 if "a good answer" in asked else 0.2, "assertions": []}
        message = {"role": "assistant", "content": json.dumps(verdict)}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        usage = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
        data = json.dumps({"id": "1", "choices": [choice], "usage": usage, "model": "m"}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_args: object) -> None:
        """Nothing: every request would be a line."""


@dataclass
class Seen:
    """What was seen in all runs."""

    kills: int = 0
    complete: int = 0
    lost: list[str] = field(default_factory=list)
    repeated: list[str] = field(default_factory=list)
    shared_again: int = 0
    wrong: list[str] = field(default_factory=list)
    temporary: list[str] = field(default_factory=list)


def write_project(folder: Path, url: str, scale: float) -> None:
    (folder / ".agentv").mkdir()
    (folder / ".agentv" / "targets.yaml").write_text(TARGETS.format(url=url))
    (folder / "agent.sh").write_text(AGENT.replace("SCALE", str(scale)))
    (folder / ".env").write_text("JUDGE_KEY=a-key-for-the-judge\n")
    for name, (execution, workspace, numbers) in SUITES.items():
        tests = "".join(f"  - {{id: t{n}, criteria: good, input: go, {GRADER}}}\n" for n in numbers)
        text = f"name: {name}\nexecution: {execution}\n{workspace}tests:\n{tests}"
        (folder / f"{name}.eval.yaml").write_text(text)


def start(folder: Path, output: Path) -> subprocess.Popen[str]:
    suites = [f"{name}.eval.yaml" for name in SUITES]
    argv = [sys.executable, "-P", "-m", "agentv_sandbox", "run", *suites, "--resume", "-o", str(output)]
    environ = {**os.environ, "TMPDIR": str(temporary(folder))}
    return subprocess.Popen(
        argv, cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def temporary(folder: Path) -> Path:
    """For what runs put there, and nothing else does."""
    place = folder / "tmp"
    place.mkdir(mode=0o700, exist_ok=True)
    return place


def left_behind(what: Callable[[], list[str]], wait_s: float) -> list[str]:
    """What there still is of it when that time is over."""
    deadline = time.monotonic() + wait_s
    while (left := what()) and time.monotonic() < deadline:
        time.sleep(0.2)
    return left


def rows(output: Path) -> dict[str, dict[str, Any]]:
    index = output / "index.jsonl"
    whole = index.read_bytes().split(b"\n")[:-1] if index.exists() else []
    return {row["test_id"]: row for row in map(json.loads, whole)}


def trials(output: Path) -> set[str]:
    found = output.glob("trials/*/trials/*/trial.json")
    return {f"{path.parts[-4]} (trial {path.parts[-2]})" for path in found}


def one_part(folder: Path, output: Path, seen: Seen, delay: float | None) -> bool:
    """One start of the command, killed after ``delay`` seconds of its tests; whether it was complete before."""
    rows_before, trials_before = rows(output), trials(output)
    process = start(folder, output)
    assert process.stdout is not None
    text: list[str] = []
    timer = None
    for line in process.stdout:
        text.append(line)
        if timer is None and line.startswith("start ") and delay is not None:
            timer = threading.Timer(delay, process.send_signal, [signal.SIGKILL])
            timer.start()
    code = process.wait()
    if timer is not None:
        timer.cancel()
    check(output, seen, rows_before, trials_before, "".join(text))
    if code == -signal.SIGKILL:
        seen.kills += 1
        seen.temporary += left_behind(lambda: [each.name for each in temporary(folder).iterdir()], 30)
        return False
    if code != 1:
        raise SystemExit(f"the run ended with {code}:\n{''.join(text)[-3000:]}")
    seen.complete += 1
    return True


def check(output: Path, seen: Seen, rows_before: Any, trials_before: set[str], text: str) -> None:
    began = set(re.findall(r"^start (t\d+(?: \(trial \d+\))?) ", text, re.MULTILINE))
    after = rows(output)
    group_complete = sum(row["suite"] == "shared" for row in rows_before.values()) == len(SUITES["shared"][2])
    for name, row in rows_before.items():
        again = name in {each.split()[0] for each in began}
        if row["suite"] == "shared" and not group_complete and (again or name not in after):
            seen.shared_again += 1
        elif again:
            seen.repeated.append(name)
        elif after.get(name) != row:
            seen.lost.append(name)
    seen.repeated += sorted(began & trials_before)


def left_in_engine() -> list[str]:
    """What belongs to a run whose process has ended."""
    owned = find_engine(os.environ).owned({LABEL_RUN: None})
    return [each.name for each in owned if Owner.parse(each.labels.get(LABEL_OWNER, "")).dead()]


def left_mounted() -> list[str]:
    """Natively: mounts in the engine's folder that are of no container and no volume that there is."""
    engine = find_engine(os.environ)
    if not engine.address.startswith("native://"):
        return []
    run = StateFolders(Path(engine.address.removeprefix("native://")), group=0).run
    mounts = [line.split(" ")[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    below = {path for path in map(Path, mounts) if run in path.parents}
    known = {name for each in engine.owned({}) for name in (each.name, each.id)}
    return [str(path) for path in below if not known & set(path.parts)]


def scores(output: Path) -> dict[str, Any]:
    keys = ("score", "execution_status", "trial_scores")
    return {name: [row.get(key) for key in keys] for name, row in sorted(rows(output).items())}


def figures(output: Path) -> Any:
    document = json.loads((output / "benchmark.json").read_text())
    return [document["metadata"]["planned_test_count"], document["run_summary"]["agent"]["pass_rate"]]


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--most", type=float, default=25.0)
    options = parser.parse_args()
    chance = random.Random(options.seed)  # noqa: S311 - to be repeatable
    server = ThreadingHTTPServer(("127.0.0.1", 0), Judge)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    seen, started = Seen(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kill-runs-") as name:
        folder = Path(name)
        write_project(folder, f"http://127.0.0.1:{server.server_port}/v1", options.scale)
        one_part(folder, folder / "undisturbed", Seen(), None)
        wanted = (scores(folder / "undisturbed"), figures(folder / "undisturbed"))
        print(f"undisturbed: {len(wanted[0])} rows, {time.monotonic() - started:.0f} s", flush=True)
        number, complete = 0, True
        while seen.kills < options.kills or not complete:
            number += complete
            output = folder / f"run-{number}"
            delay = chance.uniform(0, options.most) if seen.kills < options.kills else None
            complete = one_part(folder, output, seen, delay)
            print(f"{seen.kills} kills, run {number}: {len(rows(output))} rows", flush=True)
            if complete and (scores(output), figures(output)) != wanted:
                seen.wrong.append(output.name)
    left, mounted = left_behind(left_in_engine, 30), left_behind(left_mounted, 10)
    print(
        f"{seen.kills} kills, {seen.complete} complete runs, {time.monotonic() - started:.0f} s: "
        f"{len(seen.lost)} rows lost {seen.lost}, {len(seen.repeated)} tests or trials run twice {seen.repeated}, "
        f"{seen.shared_again} rows of unfinished shared workspaces run again, {len(left)} objects left {left}, "
        f"{len(mounted)} mounts {mounted}, {len(seen.temporary)} temporary folders {seen.temporary}, "
        f"runs with other scores: {seen.wrong or 'none'}"
    )
    return 1 if seen.lost or seen.repeated or seen.wrong or seen.temporary or left or mounted else 0


if __name__ == "__main__":
    raise SystemExit(main())
