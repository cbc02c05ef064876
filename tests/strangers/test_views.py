"""What hooks, graders and neighbours see of a project: parts of it, each in a view of its own.

``ways.py`` is what a hostile agent leaves in its workspace; ``neighbour.py`` runs in two containers at once.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agentv_sandbox.containers.policy import Role
from agentv_sandbox.containers.sandbox import Sandbox
from agentv_sandbox.containers.volumes import StagedFile, staged_for_views
from agentv_sandbox.engines import ContainerEngine
from agentv_sandbox.engines.stream import StdioConversation
from agentv_sandbox.models.container import Mount
from tests.e2e.conftest import Done, Project

HERE = Path(__file__).parent
ISOLATION = (HERE.parents[1] / "docs/reference/isolation.md").read_text()
WAYS = re.findall(r'^    "([a-z][^"]+)": ', (HERE / "ways.py").read_text(), re.MULTILINE)

# -- forged hooks and graders ----------------------------------------------------------------------------
_PYTHON_THERE = """
import os, subprocess, sys
import tools.common
done = subprocess.run(["python3", "-c", "import json"], cwd="/workspace", env={**os.environ, "WHO": sys.argv[1]})
"""
FILES = {
    ".git/HEAD": "ref: refs/heads/main\n",
    "s.eval.yaml": """
name: views
description: CANARY-SUITE
execution: {target: agent}
workspace:
  isolation: shared
  hooks:
    before_each: {command: [python3, hooks/there.py, before]}
    after_each: {command: [python3, hooks/there.py, after]}
    after_all: {command: [python3, hooks/last.py]}
assertions:
  - {name: candidate, type: code-grader, command: [python3, check.py]}
  - {name: listed, type: code-grader, command: [python3, listed.py], files: [tests.jsonl]}
  - {name: unlisted, type: code-grader, command: [python3, listed.py]}
  - {name: judge, type: llm-grader, prompt: file://judge.md, target: judge}
tests: file://tests.jsonl
""",
    "tests.jsonl": "\n".join(
        json.dumps(test)
        for test in (
            {"id": "first", "criteria": "CANARY-CRITERIA", "input": "plant"},
            {
                "id": "second",
                "criteria": "CANARY-CRITERIA",
                "input": "fetch",
                "expected_output": [{"type": "file", "value": "expected/second.md"}],
            },
        )
    ),
    "expected/second.md": "CANARY-EXPECTED\n",
    "judge.md": "CANARY-JUDGE {{ output }}\n",
    "private/notes.txt": "CANARY-PRIVATE\n",
    "private/more.json": '"CANARY-PRIVATE"',
    "fixtures/table.csv": "1,2\n",
    "hooks/there.py": _PYTHON_THERE,
    "hooks/last.py": _PYTHON_THERE.replace("sys.argv[1]", '"last"')
    + """
import re
found = open("/workspace/loot-last.json").read()
sys.stderr.write("LAST" + str(re.findall("CANARY-[A-Z]+", found)))
"""
    + "open('private/notes.txt')\n",
    "hooks/tools/common.py": "from . import words\n",
    "hooks/tools/words.py": "WORDS = ('seen',)\n",
    "check.py": """
import glob, json, subprocess, sys
json.load(sys.stdin)
loot = {name: open(name).read() for name in glob.glob("/workspace/loot-*.json")}
careless = "import sys; sys.path.insert(0, '/workspace'); import json"
ran = subprocess.run(["python3", "-c", careless], stdin=subprocess.DEVNULL, capture_output=True, text=True)
fixture = open("fixtures/table.csv").read()
print(json.dumps({"score": 1, "details": {"loot": loot, "candidate": ran.stdout, "said": ran.stderr[-500:],
                                          "fixture": fixture}}))
""",
    "listed.py": "import json\nprint(json.dumps({'score': float('CANARY' in open('tests.jsonl').read())}))\n",
    "agent.py": """
import sys
import ways
open("/workspace/json.py", "w").write(open(ways.__file__).read())
open(sys.argv[1], "w").write("done")
""",
    "judge.py": "import sys\nopen(sys.argv[1], 'w').write('{\"score\": 1, \"assertions\": []}')\n",
    ".agentv/targets.yaml": """
targets:
  - {name: agent, provider: cli, command: "python3 agent.py {OUTPUT_FILE}"}
  - {name: judge, provider: cli, command: "python3 judge.py {OUTPUT_FILE}"}
""",
}


@pytest.fixture(scope="module")
def forged(engine: ContainerEngine, tool_image: str, tmp_path_factory: pytest.TempPathFactory) -> Done:
    """A run whose agent leaves ``ways.py`` as ``json.py`` for two tests with a shared workspace."""
    project = Project(tmp_path_factory.mktemp("forged"), engine.info().kind)
    project.write({**FILES, "ways.py": (HERE / "ways.py").read_text()})
    return project.run("s.eval.yaml")


def _score(done: Done, test: str, name: str) -> Mapping[str, Any]:
    (score,) = [score for score in done.rows[test]["scores"] if score["name"] == name]
    assert isinstance(score, dict)
    return score


def _loot(done: Done) -> Iterator[tuple[str, Mapping[str, list[str]]]]:
    """What each of those who ran the agent's module found, by way."""
    details = _score(done, "second", "candidate")["details"]
    for name, text in details["loot"].items():
        yield name, json.loads(text)
    yield "candidate", json.loads(details["candidate"])


@pytest.mark.engine
@pytest.mark.every_engine
@pytest.mark.xdist_group("views")
def test_what_an_agent_left_was_run(forged: Done) -> None:
    """Else the attacks prove nothing: by both hooks around the second test, and by the grader."""
    assert forged.code in (0, 1), forged.stdout + forged.stderr
    details = _score(forged, "second", "candidate")["details"]
    assert sorted(Path(name).name for name in details["loot"]) == ["loot-after.json", "loot-before.json"]
    assert details["candidate"].startswith('{"walks the project"'), details
    assert all(set(found) == set(WAYS) for _, found in _loot(forged))
    assert details["fixture"] == "1,2\n"  # what tests were not read from is there for graders, as in AgentV


@pytest.mark.engine
@pytest.mark.every_engine
@pytest.mark.xdist_group("views")
@pytest.mark.parametrize("way", WAYS)
def test_a_forged_module_finds_nothing(forged: Done, way: str) -> None:
    hidden = {"CANARY-SUITE", "CANARY-CRITERIA", "CANARY-EXPECTED", "CANARY-JUDGE"}
    for who, found in _loot(forged):
        secret = hidden if who == "candidate" else {*hidden, "CANARY-PRIVATE"}
        assert not secret & set(found[way]), (who, found[way])
        assert all(hit.startswith("CANARY-") for hit in found[way]), (who, found[way])


@pytest.mark.engine
@pytest.mark.every_engine
@pytest.mark.xdist_group("views")
def test_a_grader_sees_tests_where_it_lists_them_and_is_told_where_not(forged: Done) -> None:
    assert _score(forged, "first", "listed")["score"] == 1
    missed = _score(forged, "first", "unlisted")
    assert missed["score"] == 0
    said = missed["assertions"][0]["text"]
    assert "Graders do not see tests.jsonl" in said
    assert 'write under the grader: files: ["tests.jsonl"]' in said


@pytest.mark.engine
@pytest.mark.every_engine
@pytest.mark.xdist_group("views")
def test_a_hook_that_misses_a_file_is_given_the_line_to_write(forged: Done) -> None:
    said = " ".join((forged.stdout + forged.stderr).split())
    assert "LAST[]" in said  # after_all ran the agent's module, too, which found nothing
    assert 'files: ["private/notes.txt"]' in said, said[-2000:]


# -- two containers at once ------------------------------------------------------------------------------
LOAD = {
    "/proc/self/net/sockstat",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/loadavg",
    "/proc/uptime",
    "/proc/cgroups",
}
"""Files of the kernel's in which numbers of the whole machine stand: isolation.md gives the reasons."""
LOAD_BELOW = ("/sys/devices/system/node/", "/sys/devices/")


def _ask(talk: StdioConversation, order: str = "") -> Any:
    if order:
        talk.send(order.encode() + b"\n")
    said, end = b"", time.monotonic() + 60
    while not said.endswith(b"\n"):
        part = talk.receive()
        assert part is not None and time.monotonic() < end, said
        said += part
        time.sleep(0.002)
    return json.loads(said)


def _two(box: Sandbox, mount: Mount, stack: ExitStack) -> tuple[StdioConversation, StdioConversation]:
    """One that acts, one that watches, each with what ``mount`` shows."""
    script = (HERE / "neighbour.py").read_text()

    def started(role: str) -> StdioConversation:
        argv = ["python3", "-I", "-S", "-c", script, role]
        talk = stack.enter_context(
            box.conversation(Role.AGENT, argv, image=box.tool_image, mounts=[mount], uid=box.specs.new_uid())
        )
        assert _ask(talk) == "ready"
        return talk

    return started("act"), started("watch")


@pytest.fixture(scope="module")
def seen(engine: ContainerEngine, tool_image: str) -> Mapping[str, Any]:
    """What the one saw while the other acted, three times, and did not in between."""
    with Sandbox(engine, tool_image=tool_image) as box, ExitStack() as stack:
        files = [StagedFile(path="a/x.txt", data=b"hello"), StagedFile(path="y.txt", data=b"there")]
        volume = stack.enter_context(box.plain_volume(staged_for_views(files)))
        actor, watcher = _two(box, Mount(source=volume, target="/suite", kind="view"), stack)
        marked: set[str] = set()
        locked: list[str] = []
        events = 0
        for _ in range(3):
            looked = _ask(watcher, "look")
            _ask(watcher, "events")
            held = _ask(actor, "on")
            assert isinstance(held, int) and held > 600, held
            events += _ask(watcher, "events")
            marked |= set(_ask(watcher, "look")["marked"])
            locked += _ask(watcher, "locked")
            assert _ask(actor, "off") == 0
        _ask(watcher, "look")
        return {
            "files": looked["files"],
            "marked": marked,
            "locked": locked,
            "events": events,
            **_ask(watcher, "conclude"),
        }


@pytest.mark.engine
@pytest.mark.every_engine
@pytest.mark.xdist_group("views")
def test_no_act_of_a_container_shows_in_another(seen: Mapping[str, Any]) -> None:
    assert seen["files"] > 1000
    assert seen["marked"] == set()  # names, numbers of locks
    assert seen["locked"] == []
    assert seen["events"] == 0
    assert seen["times"] == []  # of files that were read


@pytest.mark.engine
@pytest.mark.every_engine
@pytest.mark.xdist_group("views")
def test_no_number_that_a_container_sets_is_read_by_another(seen: Mapping[str, Any]) -> None:
    told = [path for path in seen["told"] if path not in LOAD and not path.startswith(LOAD_BELOW)]
    assert told == []


@pytest.mark.parametrize("path", [*sorted(LOAD), "/sys/devices", "eventfd", "/proc/self/ns"])
def test_what_all_containers_share_is_listed_with_reasons(path: str) -> None:
    assert f"`{path.replace('/proc/self/net', '/proc/net')}" in ISOLATION


@pytest.mark.engine
@pytest.mark.native
@pytest.mark.xdist_group("views")
def test_a_volume_itself_would_carry_locks_and_events(engine: ContainerEngine, tool_image: str) -> None:
    """The twin without the control."""
    with Sandbox(engine, tool_image=tool_image) as box, ExitStack() as stack:
        volume = stack.enter_context(box.plain_volume([StagedFile(path="y.txt", data=b"there")]))
        actor, watcher = _two(box, Mount(source=volume, target="/suite"), stack)
        _ask(watcher, "events")
        _ask(actor, "on")
        assert _ask(watcher, "events") > 0
        assert "/suite/y.txt" in _ask(watcher, "locked")
