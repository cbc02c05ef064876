"""Graders run what an agent left in a box of its own."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agentv_sandbox.engines import ContainerEngine
from tests.e2e.conftest import Project

TARGETS = 'targets: [{name: agent, provider: cli, command: "python3 agent.py {OUTPUT_FILE}"}]\n'
AGENT = """
import os, sys
left = {
    "add.py": "def add(a, b):\\n    print('hi')\\n    return a + b\\n"
              "if __name__ == '__main__':\\n    print(sum(map(int, input().split())))\\n",
    "loud.py": "import sys\\nfor line in sys.stdin:\\n    print(line.upper(), end='', flush=True)\\n",
    "floods.py": "import os\\nwhile True: os.write(1, b'x' * 65536)\\n",
    "forks.py": "import os\\nwhile True:\\n    try: os.fork()\\n    except OSError: pass\\n",
    "grows.py": "x = []\\nwhile True: x.append(b'x' * (1 << 24))\\n",
    "daemon.py": "import os, time\\nif os.fork() == 0:\\n    os.setsid(); os.close(1); os.close(2); time.sleep(600)\\n",
    "counts.py": "import os\\nprint(sum(each.isdigit() for each in os.listdir('/proc')))\\n",
    "kills.py": "import os, signal\\nos.kill(-1, 9)\\n",
    "half.py": "import time\\nprint('one\\\\nhalf', end='', flush=True); time.sleep(60)\\n",
    "spies.py": '''
import json, os, socket
def tried(what):
    try: return str(what())
    except OSError as error: return error.__class__.__name__
print(json.dumps({
    "others": [tried(lambda: os.listdir(place)) for place in ("/suite", "/grading", "/files", "/run/agentv-egress")],
    "write": tried(lambda: open("/workspace/x", "w")), "root": tried(lambda: open("/usr/x", "w")),
    "net": tried(lambda: socket.create_connection(("127.0.0.1", 3128), 1)),
    "uid": os.getuid(),
    "token": [name for name in os.environ if name.startswith("AGENTV")],
}))
''',
}
for name, text in left.items():
    open("/workspace/" + name, "w").write(text)
open(sys.argv[1], "w").write("done")
"""
CHECK = """
import json, os
from agentv_sandbox.sdk import CandidateError, candidate, define_code_grader, run_candidate

def shown(result):
    return {**vars(result), "stdout": result.stdout.decode()[:2000], "stderr": result.stderr.decode()[:300]}

def refused(**asked):
    try:
        return shown(candidate.run(**asked))
    except (CandidateError, TypeError) as error:
        return str(error)

@define_code_grader
def grade(case):
    def run(name, **options):
        return shown(candidate.run(["python3", f"/workspace/{name}.py"], **options))
    said = {"sum": run("add", stdin="1 2 3"), "spies": [run("spies"), run("spies")], "mine": os.getuid()}
    said["files"] = shown(candidate.run(["sh", "-c", "cat a/b.txt; echo x > c; pwd"], files={"a/b.txt": "given "}))
    said["call"] = vars(run_candidate(case.workspace_path / "add.py", function="add", calls=[[1, 2], ["a", "b"]]))
    open("/tmp/other.py", "w").write("def one(): return 1")
    said["elsewhere"] = vars(run_candidate("/tmp/other.py", function="one"))
    said["missing"] = shown(candidate.run(["no-such-program"]))
    said["sleeps"] = shown(candidate.run(["sleep", "60"], timeout=0.3))
    with candidate.open(["python3", "/workspace/loud.py"]) as talk:
        said["talk"] = [talk.ask("one").decode(), talk.ask("two").decode()]
        said["closed"] = shown(talk.close())
    with candidate.open(["python3", "/workspace/half.py"]) as talk:
        assert talk.read_line(timeout=60) == b"one\\n"
        try:
            said["half"] = talk.read_line(timeout=0.5).decode()
        except TimeoutError as error:
            said["half"] = str(error)
        said["ended"] = shown(talk.close(timeout=0.2))
    for name in ("floods", "kills", "daemon", "counts", "forks", "grows", "add"):
        said[name] = run(name, stdin="4 5", timeout=30 if name == "grows" else 3)
    said["out"] = [refused(argv=["true"], files={name: "x"}) for name in ("../x", "/etc/x", "", "a/../../x")]
    odd = ({"argv": []}, {"argv": ["a\\0b"]}, {"argv": ["true"], "timeout": -1}, {"argv": ["true"], "cwd": "x"})
    said["odd"] = [refused(**each) for each in odd]
    return {"score": 1.0, "details": said}
"""
SUITE = """
name: boxed
execution: {target: agent}
workspace: {env: {required_commands: [python3]}, limits: {graders: {memory: 300m}}}
tests:
  - {id: t, input: go, assert: [{type: code-grader, command: [python3, graders/check.py]}]}
"""


@pytest.fixture(scope="module")
def said(
    engine: ContainerEngine, tool_image: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    project = Project(tmp_path_factory.mktemp("boxed"), engine.info().kind)
    files = {"targets.yaml": TARGETS, "agent.py": AGENT, "s.eval.yaml": SUITE, "graders/check.py": CHECK}
    project.write(files)
    done = project.run("s.eval.yaml")
    [score] = done.rows["t"]["scores"]
    assert "details" in score, score
    details: dict[str, Any] = score["details"]
    return details


pytestmark = [pytest.mark.engine, pytest.mark.every_engine, pytest.mark.xdist_group("candidate-box")]


def test_commands_give_bytes_how_they_ended_and_what_it_took(said: dict[str, Any]) -> None:
    done = said["sum"]
    assert (done["stdout"], done["outcome"], done["exit_code"]) == ("6\n", "exited", 0)
    assert 0 < done["duration_s"] < 60 and done["stdout_total"] == 2
    assert said["files"]["stdout"].startswith("given /tmp/candidate-")
    assert said["call"]["value"] == [3, "ab"] and said["call"]["stdout"] == "hi\nhi\n"
    assert said["elsewhere"]["value"] == [1]
    assert (said["missing"]["exit_code"], said["sleeps"]["outcome"], said["sleeps"]["exit_code"]) == (
        127,
        "timeout",
        None,
    )


def test_a_candidate_is_talked_to_by_lines(said: dict[str, Any]) -> None:
    assert said["talk"] == ["ONE\n", "TWO\n"] and said["closed"]["stdout"] == "ONE\nTWO\n"
    assert said["closed"]["exit_code"] == 0
    assert said["half"] == "the candidate printed no line in 0.5 s"
    assert (said["ended"]["outcome"], said["ended"]["stdout"]) == ("timeout", "one\nhalf")


def test_a_candidate_sees_and_changes_nothing_else(said: dict[str, Any]) -> None:
    first, second = (json.loads(each["stdout"]) for each in said["spies"])
    assert set(first["others"]) <= {"[]", "FileNotFoundError"} and first["token"] == []
    assert {first["write"], first["root"]} <= {"OSError", "PermissionError"}
    assert first["net"] in ("ConnectionRefusedError", "OSError")
    assert len({said["mine"], first["uid"], second["uid"]}) == 3


def test_what_attacks_is_ended_and_the_next_call_works(said: dict[str, Any]) -> None:
    assert said["floods"]["outcome"] == "flood" and said["floods"]["stdout_total"] < 64 << 20
    assert said["forks"]["outcome"] in ("timeout", "exited", "oom")
    assert said["grows"]["outcome"] in ("oom", "exited") and said["grows"]["exit_code"] != 0
    assert said["daemon"]["outcome"] == "exited"
    assert int(said["counts"]["stdout"]) <= 4, "what a call left goes on"
    assert said["add"]["stdout"] == "9\n"


def test_what_is_asked_wrongly_is_refused(said: dict[str, Any]) -> None:
    assert all("leads out" in each for each in said["out"]), said["out"]
    assert all(isinstance(each, str) for each in said["odd"]), said["odd"]
