"""Nobody passes by forging: neither ``type: pytest`` nor a grader that runs candidates in a box."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from agentv_sandbox.engines import ContainerEngine
from tests.e2e.conftest import Project
from tests.hostile.forgeries import ATTEMPTS, BESIDE, HONEST, TROJANS, WRONG

HIDDEN = """
import pytest
from solution import add

@pytest.mark.parametrize("expected, a, b", [(5, 2, 3), (0, -4, 4), ("ab", "a", "b"), ([1, 2], [1], [2])])
def test_values(expected, a, b):
    assert add(a, b) == expected

def test_one_of():
    assert add(2, 3) in (5, 5.0) and add("a", "b") in {"ab"}

def test_types():
    with pytest.raises(TypeError):
        add(1, "b")
    assert type(add(1, 2)) is int
"""
BOXED = """
import os
from agentv_sandbox.sdk import candidate, define_code_grader, run_candidate

CALLS = [([2, 3], 5), ([-4, 4], 0), (["a", "b"], "ab")]
LINE = "import sys; sys.path.insert(0, sys.argv[1]); from solution import add; print(add(20, 22))"

@define_code_grader
def grade(case):
    said = {}
    for name in sorted(os.listdir("/workspace")):
        if name[:1] not in "aht" or name[1:].strip("0123456789"):
            continue
        calls = [args for args, _ in CALLS]
        ran = run_candidate(f"/workspace/{name}/solution.py", function="add", calls=calls, timeout_s=5)
        typed = ran.ok and [type(each) for each in ran.value] == [int, int, str]
        right = typed and ran.value == [each for _, each in CALLS]
        line = candidate.run(["python3", "-I", "-c", LINE, f"/workspace/{name}"], timeout=5)
        printed = line.ok and line.stdout.splitlines()[-1:] == [b"42"]
        said[name] = [bool(right), bool(printed), ran.error or ""]
    return {"score": 1.0, "details": {"said": said}}
"""
FEW = (
    *("leaves at once", "equal to all", "prints a verdict", "answers before it is asked", "daemon"),
    *("skips as pytest does", "reads the tests", "looks at frames"),
)


def _folders(
    attempts: Sequence[str], trojans: Sequence[str], honest: Sequence[str]
) -> dict[str, dict[str, str]]:
    """Files of each candidate by its folder in the workspace."""
    wrong = {"solution.py": WRONG}
    return {
        **{f"a{number}": {"solution.py": ATTEMPTS[name]} for number, name in enumerate(attempts)},
        **{f"t{number}": {**wrong, name: TROJANS[name]} for number, name in enumerate(trojans)},
        **{f"h{number}": {**BESIDE, "solution.py": HONEST[name]} for number, name in enumerate(honest)},
    }


def _graded(
    folder: Path,
    engine: str,
    folders: Mapping[str, Mapping[str, str]],
    *,
    tests: str = HIDDEN,
    score: str = "all",
) -> dict[str, Any]:
    """Scores of graders by name; ``boxed``: what the grader with a box says of each folder."""
    project = Project(folder, engine)
    left = {f"{name}/{path}": text for name, files in folders.items() for path, text in files.items()}
    left |= TROJANS
    graders = [
        {
            "type": "pytest",
            "name": name,
            "tests": ["hidden/test_*.py"],
            "folder": name,
            "call_timeout_seconds": 5,
            "score": score,
        }
        for name in folders
    ]
    boxed = {"type": "code-grader", "name": "boxed", "command": ["python3", "graders/boxed.py"]}
    suite = {
        "name": "forging",
        "execution": {"target": "agent"},
        "tests": [{"id": "t", "criteria": "c", "input": "go", "assertions": [*graders, boxed]}],
    }
    agent = f"import os, sys\nfor path, text in {left!r}.items():\n    path = '/workspace/' + path\n"
    agent += "    os.makedirs(os.path.dirname(path), exist_ok=True)\n    open(path, 'w').write(text)\n"
    project.write(
        {
            "targets.yaml": 'targets: [{name: agent, provider: cli, command: "python3 agent.py {OUTPUT_FILE}"}]\n',
            "agent.py": agent + "open(sys.argv[1], 'w').write('done')\n",
            "hidden/test_solution.py": tests,
            "graders/boxed.py": BOXED,
            "s.eval.yaml": json.dumps(suite),
        }
    )
    done = project.run("s.eval.yaml")
    scores = {score["name"]: score for score in done.rows["t"]["scores"]}
    assert set(scores) == {*folders, "boxed"}, done.stderr[-2000:]
    assert scores["boxed"]["score"] == 1, scores["boxed"]
    return scores


def _check(scores: Mapping[str, Any], folders: Mapping[str, object]) -> None:
    said = scores["boxed"]["details"]["said"]
    assert set(said) == set(folders)
    for name in folders:
        honest = name.startswith("h")
        assert (scores[name]["score"] == 1) is honest, (name, scores[name])
        assert said[name][:2] == [honest, honest] or not honest, (name, said[name])
        assert honest or not any(said[name][:2]), (name, said[name])


LEAVES_OUT = """
import sys
import pytest
import solution
from solution import add

@pytest.mark.skipif(sys.platform == "win32", reason="not here")
def test_values():
    assert add(2, 3) == 5

@pytest.mark.skipif(sys.platform != "win32", reason="not there")
def test_elsewhere():
    assert add(2, 3) == 5

@pytest.mark.xfail(reason="known")
def test_known():
    assert add(2) == 2

@pytest.mark.skipif(not hasattr(solution, "big"), reason="optional")
def test_optional():
    assert solution.big(2) == 2

def test_asks():
    if not callable(getattr(solution, "ready", None)) or not solution.ready():
        pytest.skip("not ready")
    assert add(4, 4) == 8

def test_expects():
    try:
        got = add("a", "b")
    except NotImplementedError:
        pytest.xfail("not done")
    assert got == "ab"
"""
LEAVING_OUT = {
    "honest": (HONEST["plain"] + "\ndef big(n): return n\ndef ready(): return True\n", 1.0),
    "wrong": (WRONG + "def big(n): return n\ndef ready(): return True\n", 0.25),
    "not ready": (HONEST["plain"] + "\ndef big(n): return n\ndef ready(): return False\n", 0.75),
    "skips all that it can": (
        "def add(a, b):\n    if a == 2: return 5\n    raise NotImplementedError\ndef ready(): return False\n",
        0.25,
    ),
}
"""Candidates, and the share of the four tests of ``LEAVES_OUT`` that count."""


@pytest.mark.engine
@pytest.mark.native
@pytest.mark.xdist_group("forging-native")
def test_no_test_is_left_out_by_the_candidate(
    engine: ContainerEngine, tool_image: str, tmp_path: Path
) -> None:
    folders = {f"a{number}": {"solution.py": text} for number, (text, _) in enumerate(LEAVING_OUT.values())}
    scores = _graded(tmp_path, engine.info().kind, folders, tests=LEAVES_OUT, score="share")
    said = {name: scores[f"a{number}"] for number, name in enumerate(LEAVING_OUT)}
    assert {name: each["score"] for name, each in said.items()} == {
        name: share for name, (_, share) in LEAVING_OUT.items()
    }, said
    assert said["honest"]["details"]["skipped"] == said["wrong"]["details"]["expected"] == 1


@pytest.mark.engine
@pytest.mark.docker
@pytest.mark.xdist_group("forging-docker")
def test_some_forge_nothing_on_docker(engine: ContainerEngine, tool_image: str, tmp_path: Path) -> None:
    folders = _folders(FEW, ("json.py", "conftest.py"), ("plain", "helper"))
    _check(_graded(tmp_path, engine.info().kind, folders), folders)


@pytest.mark.engine
@pytest.mark.native
@pytest.mark.slow
@pytest.mark.long
@pytest.mark.xdist_group("forging-native")
def test_nobody_passes_but_who_is_honest(engine: ContainerEngine, tool_image: str, tmp_path: Path) -> None:
    """Every fourth; all with ``python -P -m tests.hostile.test_forging_hidden_tests [native | docker]``."""
    few = _folders(tuple(ATTEMPTS)[::4], ("json.py", "pytest.py", "pytest.ini"), tuple(HONEST)[::5])
    _check(_graded(tmp_path, engine.info().kind, few), few)


def test_there_are_as_many_as_are_said() -> None:
    assert (len(ATTEMPTS), len(TROJANS), len(HONEST)) == (51, 31, 20)


def main(engine: str = "native") -> None:
    """Put all to both graders, a few at a time."""
    names = {"attempts": tuple(ATTEMPTS), "trojans": tuple(TROJANS), "honest": tuple(HONEST)}
    for kind, all_of_it in names.items():
        for first in range(0, len(all_of_it), 7):
            some = {each: all_of_it[first : first + 7] if each == kind else () for each in names}
            folders = _folders(some["attempts"], some["trojans"], some["honest"])
            with tempfile.TemporaryDirectory() as name:
                _check(_graded(Path(name), engine, folders), folders)
            print(kind, first + len(folders), "of", len(all_of_it), "as they should be", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
