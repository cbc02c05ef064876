"""The home of a task's user is a part of the system that tests judge, also where a coding agent's program works."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.agents.model_server import ModelServer
from tests.e2e.conftest import Project
from tests.tasks.corpus import REWARD, script

pytestmark = [pytest.mark.engine, pytest.mark.native, pytest.mark.xdist_group("tasks")]

KEY = "sk-real-home-01"
PROGRAM = """#!/usr/bin/env python3
import json, os, pathlib, sys, urllib.request
sys.stdin.read()
body = {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}
headers = {"x-api-key": os.environ["ANTHROPIC_API_KEY"], "Content-Type": "application/json"}
asked = urllib.request.Request(os.environ["ANTHROPIC_BASE_URL"] + "/v1/messages", json.dumps(body).encode(), headers)
urllib.request.urlopen(asked).read()
settings = pathlib.Path(os.environ["CLAUDE_CONFIG_DIR"])
settings.mkdir(parents=True, exist_ok=True)
(settings / "session").write_text(os.environ["ANTHROPIC_API_KEY"])
home = pathlib.Path.home()
(home / "answer.txt").write_text("42")
with (home / ".bashrc").open("a") as file:
    file.write("export SOLVED=yes")
print(json.dumps({"type": "assistant", "message": {"id": "a", "content": [{"type": "text", "text": str(home)}]}}))
print(json.dumps({"type": "result", "subtype": "success", "is_error": False, "num_turns": 1}))
"""
DOCKERFILE = """
FROM {image}
RUN mkdir -p /root /home/worker && echo 'worker:x:4321:4321::/home/worker:/bin/sh' >> /etc/passwd && \\
    chown 4321:4321 /home/worker
COPY fake /usr/local/bin/fake
RUN chmod 755 /usr/local/bin/fake
"""
OWN = """
targets:
  - {name: agent, provider: claude, executable: fake, model: claude-sonnet-4-5, base_url: "http://127.0.0.1:PORT"}
  - name: command
    provider: cli
    command: "echo 42 > ~/answer.txt; echo export SOLVED=yes >> ~/.bashrc; echo done > {OUTPUT_FILE}"
"""
SOLVE = "echo 42 > ~/answer.txt; echo export SOLVED=yes >> ~/.bashrc"


def test_what_agents_write_at_home_is_judged(tmp_path: Path, tool_image: str) -> None:
    project = Project(tmp_path, "native")
    for name, home, toml in (("root", "/root", ""), ("worker", "/home/worker", '[agent]\nuser = "worker"\n')):
        judge = f"[ $(cat {home}/answer.txt) = 42 ] && grep -q SOLVED=yes {home}/.bashrc && echo 1 > {REWARD}"
        project.write(
            {
                f"tasks/{name}/task.toml": toml,
                f"tasks/{name}/instruction.md": "Write it.\n",
                f"tasks/{name}/environment/Dockerfile": DOCKERFILE.format(image=tool_image),
                f"tasks/{name}/environment/fake": PROGRAM,
                f"tasks/{name}/solution/solve.sh": script(SOLVE),
                f"tasks/{name}/tests/test.sh": script(f"echo 0 > {REWARD}; {judge}"),
            }
        )
    targets = [word for name in ("agent", "command", "oracle", "nop") for word in ("--target", name)]
    with ModelServer({}, key=KEY) as server:
        project.write({"targets.yaml": OWN.replace("PORT", str(server.port))})
        done = project.run("tasks", *targets, env={"ANTHROPIC_API_KEY": KEY})
    rows = [json.loads(line) for line in (done.folder / "index.jsonl").read_text().splitlines()]
    solved = {(row["test_id"], row["target"]): (row["score"], row.get("error")) for row in rows}
    assert solved == {
        (name, target): (float(target != "nop"), None)
        for name in ("root", "worker")
        for target in ("agent", "command", "oracle", "nop")
    }, done.stdout + done.stderr
    for row in rows:
        if row["target"] == "agent":  # of its program's own folder nothing is left
            changed = (done.folder / row["manifest_path"]).with_name("workspace.diff").read_text()
            assert "answer.txt" in changed and ".claude" not in changed and "agentv-task" not in changed
    kept = [path for path in done.folder.rglob("*") if path.is_file()]
    assert not [path for path in kept if KEY.encode() in path.read_bytes()]
