"""Real programs on task folders: in a system without Python and Node.js that no package can be added to, as root and
as the task's user, with its server of tools and its skills. Their programs are those of ``real.py``, in a layer."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from agentv_sandbox.models.json.value import Json
from tests.e2e.conftest import Done, Project
from tests.tasks.corpus import REWARD, script

from .model_server import ModelServer, do, say
from .real import AGENTS
from .scenes import KEY
from .scripts import SKILL

pytestmark = [pytest.mark.engine, pytest.mark.native, pytest.mark.xdist_group("agents")]

OTHER = """FROM {image}
RUN echo 'worker:x:4321:4321::/home/worker:/bin/sh' >> /etc/passwd && mkdir -p /home/worker /skills/greet \\
    && rm -f /usr/bin/python3* /usr/local/bin/python* && sed -i 's/^ID=.*/ID=other/' /etc/os-release
COPY SKILL.md /skills/greet/
COPY --chmod=755 poems /usr/local/bin/
WORKDIR /app
RUN echo draft > notes.txt && chown -R 4321:4321 /app /home/worker
"""
_ABOUT = {
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "poems", "version": "1"},
    "protocolVersion": "VERSION",
}
_TOOL = {"name": "recite", "description": "Recites", "inputSchema": {"type": "object", "properties": {}}}
POEMS = f"""#!/bin/sh
answer() {{ echo "{{\\"jsonrpc\\": \\"2.0\\", \\"id\\": $id, \\"result\\": $1}}"; }}
while read -r line; do
    id=$(echo "$line" | sed -n 's/.*"id": *\\([0-9]*\\).*/\\1/p')
    version=$(echo "$line" | sed -n 's/.*"protocolVersion": *"\\([^"]*\\)".*/\\1/p')
    case $line in
    *'"initialize"'*) answer "$(echo '{json.dumps(_ABOUT)}' | sed "s/VERSION/$version/")" ;;
    *'"tools/list"'*) answer '{json.dumps({"tools": [_TOOL]})}' ;;
    *'"tools/call"'*) answer '{{"content": [{{"type": "text", "text": "roses are red"}}]}}' ;;
    *) [ -z "$id" ] || answer '{{}}' ;;
    esac
done
"""
"""An MCP server that needs nothing but a shell."""
TOML = """
[agent]
user = "{user}"
[environment]
skills_dir = "/skills"
[[environment.mcp_servers]]
name = "poems"
transport = "stdio"
command = "poems"
"""
WORK = [
    say("I begin.", do("read", path="/app/notes.txt")),
    say("Editing.", do("edit", path="/app/notes.txt", old="draft", new="final")),
    say("Writing.", do("write", path="/app/made.txt", content="made\n")),
    say("Running.", do("run", command="{ id -un; which node python3; } > who.txt; touch ~/was")),
    say("", do("skill", skill="greet", folder="/skills")),
    say("", do("recite")),
    say("done: all of it"),
]
JUDGE = (
    "grep -q final notes.txt && grep -q made made.txt && [ $(cat who.txt) = {user} ] && [ -f ~{user}/was ]"
)


@pytest.fixture(scope="module", params=[("claude", "root"), ("codex", "worker")], ids=["claude", "codex"])
def solved(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, tool_image: str
) -> tuple[str, Done]:
    kind, user = request.param
    project = Project(tmp_path_factory.mktemp("on-tasks"), "native")
    judge = JUDGE.format(user=user)
    files = {
        "task.toml": TOML.format(user=user),
        "instruction.md": "Please do script:work\n",
        "environment/Dockerfile": OTHER.format(image=tool_image),
        "environment/SKILL.md": SKILL,
        "environment/poems": POEMS,
        "tests/test.sh": script(f"cat who.txt; {judge} && echo 1 > {REWARD} || echo 0 > {REWARD}"),
    }
    project.write({f"tasks/one/{path}": text for path, text in files.items()})
    targets: list[Mapping[str, Json]] = [
        # All programs are in one layer, which is the image that others here share.
        {
            **agent.settings,
            "base_url": "${{ MODELS }}",
            "name": each,
            "fallback_targets": [other for other in AGENTS if other != each],
            "env": ["ENABLE_TOOL_SEARCH"],
        }
        for each, agent in AGENTS.items()
    ]
    project.write({"targets.yaml": json.dumps({"targets": targets})})
    keys = {agent.key: KEY for agent in AGENTS.values()}
    with ModelServer({"work": WORK}, key=KEY) as server:
        # Else Claude Code looks tools of servers up before it declares them to the model.
        environ = {"MODELS": server.url, "ENABLE_TOOL_SEARCH": "false", **keys}
        return kind, project.run("tasks", "--target", kind, env=environ)


def test_an_agent_solves_a_task_with_all_tools_of_its_program(solved: tuple[str, Done]) -> None:
    kind, done = solved
    row = done.rows["one"]
    assert (row["score"], row.get("error")) == (1, None), done.stdout + done.stderr
    assert row["agent"].items() >= {"program": kind, "version": AGENTS[kind].version}.items()
    calls = (done.folder / row["transcript_path"]).read_text()
    used = {"claude": "Launching skill: greet", "codex": "Say hello."}[kind]
    assert "roses are red" in calls and used in calls, calls
    diff = (done.folder / row["manifest_path"]).with_name("workspace.diff").read_text()
    assert "+final" in diff and "agentv-task" not in diff and "bin/node" not in diff, diff


def test_the_key_is_in_no_file_of_the_run(solved: tuple[str, Done]) -> None:
    kept = [path for path in solved[1].folder.rglob("*") if path.is_file()]
    assert kept and not [path for path in kept if KEY.encode() in path.read_bytes()]
