"""Processor seconds that a task of Harbor's format takes over what its own scripts take, natively, with its oracle.

    python bench/tasks.py [--tasks 40] [--workers 2] [--rounds 3] [--image debian:trixie-slim]

Tasks on one image, half of them with a separate verifier, after a run that makes the image. Counted are the command
and all processes below it, which need no quiet machine to be counted but one to be compared; the scripts are run once
more by themselves, on this machine, and taken off. Prints the median of the rounds. Needs root and the native engine.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOLVE = "#!/bin/sh\nmkdir -p /tmp/app\nfor n in 1 2 3 4 5; do echo $n; done > /tmp/app/done\n"
TEST = """#!/bin/sh
if [ "$(wc -l < /tmp/app/done)" = 5 ]; then echo 1; else echo 0; fi > "${LOGS:-/logs/verifier}/reward.txt"
"""
TOML = """artifacts = ["/tmp/app"]
[environment]
docker_image = "{image}"
[verifier]
environment_mode = "{mode}"
"""


def write_tasks(folder: Path, tasks: int, image: str) -> None:
    (folder / ".git").mkdir()
    for number in range(tasks):
        mode = "separate" if number % 2 else "shared"
        files = {
            "instruction.md": f"Write five lines ({number}).\n",
            "task.toml": TOML.format(image=image, mode=mode),
            "solution/solve.sh": SOLVE,
            "tests/test.sh": TEST,
        }
        for name, text in files.items():
            path = folder / f"task-{number}" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(0o755)


def spent(argv: list[str], folder: Path, env: dict[str, str]) -> tuple[float, float]:
    """Processor seconds of ``argv`` and all below it, and seconds by the clock."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(argv, cwd=folder, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(
            f"{' '.join(argv)} ended with {done.returncode}:\n{done.stderr[-2000:]}{done.stdout[-2000:]}"
        )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, time.monotonic() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tasks", type=int, default=40)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--image", default="debian:trixie-slim")
    options = parser.parse_args()
    env = {**os.environ, "AGENTV_SANDBOX_ENGINE": "native"}
    with tempfile.TemporaryDirectory(prefix="agentv-bench-") as name:
        folder = Path(name)
        write_tasks(folder, options.tasks, options.image)
        command = [sys.executable, "-P", "-m", "agentv_sandbox", "run", "--target", "oracle"]
        command += ["--workers", str(options.workers)]
        spent([*command, "task-0", "-o", "first"], folder, env)
        rows = []
        for number in range(options.rounds):
            whole, clock = spent([*command, ".", "-o", f"out-{number}"], folder, env)
            one, _ = spent([*command, "task-0", "-o", f"one-{number}"], folder, env)
            rows.append((whole, one, clock))
        alone = "; ".join(
            "sh task-0/solution/solve.sh; sh task-0/tests/test.sh" for _ in range(options.tasks)
        )
        scripts, _ = spent(["sh", "-c", alone], folder, {**env, "LOGS": name})
    whole, one, clock = (statistics.median(column) for column in zip(*rows, strict=True))
    print(f"{options.tasks} tasks: {whole:.1f} s of a processor, {clock:.1f} s by the clock")
    print(f"scripts by themselves: {scripts / options.tasks * 1000:.0f} ms a task")
    print(f"over them: {(whole - scripts) / options.tasks:.2f} s a task, with the start of the command")
    print(f"one task: {one:.1f} s; each further one: {(whole - one) / (options.tasks - 1):.2f} s")


if __name__ == "__main__":
    main()
