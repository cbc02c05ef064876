"""Attempts to forge a pass: none may succeed here, and each must succeed where the control is missing.

Every attempt runs through the whole command against a real engine. Its naive twin runs agent and grader as a
careless runner would: one container, root, writable, the grader in the agent's directory with the agent's
HOME and search paths, and its output read generously.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pytest

from agentv_sandbox.engines.docker.engine import DockerEngine
from tests import forkserver

pytestmark = [pytest.mark.engine, pytest.mark.long, pytest.mark.xdist_group("forge")]

PROJECT = Path(__file__).parent / "project"
ANSWER = ["python3", "graders/answer.py"]
SDK = ["python3", "graders/by_sdk.py"]
PYTEST = ["python3", "graders/by_pytest.py"]
IN_PROCESS = ["python3", "graders/in_process.py"]
BY_TEXT = ["python3", "graders/by_text.py"]
IMPORT = "import solution; assert solution.add(1, 2) == 3"
NAIVE_ANSWER = "cat /suite/graders/answer.py | python3 -"
"""A program on stdin has the working directory first in its module path, as ``python -m`` has."""


@dataclass(frozen=True)
class Attempt:
    id: str
    command: Any
    """The code-grader that judges it here."""
    twin: str
    """Shell command of the careless runner, in the agent's directory."""
    error: str = ""
    """Part of the error that must be reported; empty: a plain failing verdict, or any error."""


ATTEMPTS = [
    Attempt("conftest", PYTEST, "cp /suite/hidden/naive_checks.py . && python3 -m pytest -q naive_checks.py"),
    Attempt(
        "shadow-pytest", PYTEST, "cp /suite/hidden/naive_checks.py . && python3 -m pytest -q naive_checks.py"
    ),
    Attempt("shadow-json", ANSWER, NAIVE_ANSWER),
    Attempt("usercustomize", ANSWER, "python3 /suite/graders/answer.py"),
    Attempt("sitecustomize", ANSWER, "PYTHONPATH=/workspace python3 /suite/graders/answer.py"),
    Attempt("login-profile", "python3 graders/answer.py", "bash -lc 'python3 /suite/graders/answer.py'"),
    Attempt("path-shim", ANSWER, "PATH=/workspace/bin:$PATH python3 /suite/graders/answer.py"),
    Attempt("replaced-binary", ANSWER, "python3 /suite/graders/answer.py"),
    Attempt("rewritten-grader", ANSWER, "python3 /suite/graders/answer.py"),
    Attempt("spy", ANSWER, "EXPECTED=4711 python3 /suite/graders/from_environment.py"),
    Attempt("hidden-answer", ANSWER, "python3 /suite/graders/answer.py"),
    Attempt("import-and-leave", SDK, "python3 /suite/graders/in_process.py"),
    Attempt("exit-code-zero", SDK, f"python3 -c '{IMPORT}'"),
    Attempt("patched-json", SDK, "python3 /suite/graders/in_process.py"),
    Attempt("equal-to-all", SDK, "python3 /suite/graders/in_process.py"),
    Attempt("cleared-cases", SDK, "python3 /suite/graders/in_process.py"),
    Attempt("write-to-parent", SDK, "python3 /suite/graders/unguarded.py"),
    Attempt("read-the-cases", SDK, "python3 /suite/graders/unguarded.py"),
    # Careless graders, whose verdict is only saved by how their output is read.
    Attempt("first-line", IN_PROCESS, "python3 /suite/graders/in_process.py", "ambiguous verdict"),
    Attempt("last-line", IN_PROCESS, "python3 /suite/graders/in_process.py", "ambiguous verdict"),
    Attempt("open-string", IN_PROCESS, "python3 /suite/graders/in_process.py", "ambiguous verdict"),
    Attempt("nan", BY_TEXT, "python3 /suite/graders/by_text.py", "NaN is not JSON"),
    Attempt("true", BY_TEXT, "python3 /suite/graders/by_text.py", "got true"),
    Attempt("seven", BY_TEXT, "python3 /suite/graders/by_text.py", "got 7"),
    Attempt("text-score", BY_TEXT, "python3 /suite/graders/by_text.py", 'got "1"'),
    Attempt("duplicate-key", BY_TEXT, "python3 /suite/graders/by_text.py", "duplicate key"),
    Attempt(
        "stale-result",
        ["python3", "graders/result_file.py"],
        "RESULT_DIR=/workspace python3 /suite/graders/result_file.py 2>/dev/null; cat result.json",
        "exited with code 1",
    ),
    Attempt("flood", ["python3", "graders/echo.py"], "python3 /suite/graders/echo.py", "output"),
]
HONEST = {
    "honest-sdk": SDK,
    "honest-chatty": SDK,
    "honest-pytest": PYTEST,
    "honest-in-process": IN_PROCESS,
    "honest-answer": ANSWER,
    "honest-login": "python3 graders/answer.py",
    "honest-exit-code": ["python3", "-c", f"import sys; sys.path.insert(0, '/workspace'); {IMPORT}"],
    "honest-score": BY_TEXT,
    "honest-echo": ["python3", "graders/echo.py"],
    "honest-result": ["python3", "graders/result_file.py"],
}


@dataclass(frozen=True)
class Forge:
    """What came of the one run."""

    rows: dict[str, dict[str, Any]]
    image: str
    project: Path


@pytest.fixture(scope="module")
def forge(tmp_path_factory: pytest.TempPathFactory, engine: DockerEngine, tool_image: str) -> Forge:
    folder = tmp_path_factory.mktemp("forge")
    project = folder / "project"
    shutil.copytree(PROJECT, project)
    graders = {**{attempt.id: attempt.command for attempt in ATTEMPTS}, **HONEST}
    suite = {
        "name": "forge",
        "workspace": {"env": {"required_python_modules": ["pytest"]}},
        "execution": {"target": "agent"},
        "tests": [
            {
                "id": test_id,
                "criteria": "Solve the task",
                "input": "Solve the task",
                "assertions": [{"type": "code-grader", "name": "check", "command": command}],
            }
            for test_id, command in graders.items()
        ],
    }
    (project / "forge.eval.yaml").write_text(json.dumps(suite))
    command = "python3 agent.py {EVAL_ID} {OUTPUT_FILE}"
    targets = {"targets": [{"name": "agent", "provider": "cli", "command": command}]}
    (project / "targets.yaml").write_text(json.dumps(targets))
    env = {k: v for k, v in os.environ.items() if not k.startswith("AGENTV_")}
    argv = ("run", "forge.eval.yaml", "-o", str(folder / "out"))
    done = forkserver.command(*argv, cwd=project, env=env, timeout=900)
    index = folder / "out" / "index.jsonl"
    assert index.exists(), done.stderr[-3000:]
    rows = {row["test_id"]: row for row in map(json.loads, index.read_text().splitlines())}
    return Forge(rows, next(iter(rows.values()))["image_id"], project)


def generous(stdout: bytes, code: int) -> float:
    """How a careless runner takes a verdict."""
    text = stdout[: 1 << 20].decode("utf-8", "replace").strip()
    try:
        verdict = json.loads(text)
    except ValueError:
        return float(code == 0)
    if not isinstance(verdict, dict):
        return float(code == 0)
    if "score" not in verdict:
        assertions = verdict.get("assertions", [])
        return sum(bool(a["passed"]) for a in assertions) / len(assertions)
    return max(0.0, min(1.0, float(verdict["score"])))


@pytest.fixture(scope="module")
def client() -> Iterator[docker.DockerClient]:
    made = docker.from_env()
    yield made
    made.close()


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda a: a.id)
def test_no_attempt_passes(forge: Forge, attempt: Attempt) -> None:
    row = forge.rows[attempt.id]
    [score] = row["scores"]
    assert row["execution_status"] == "quality_failure", row
    assert score["verdict"] == "fail"
    assert row["score"] < 0.8
    text = " ".join(a["text"] for a in score["assertions"])
    assert attempt.error in text


@pytest.mark.parametrize("test_id", HONEST)
def test_honest_solutions_pass(forge: Forge, test_id: str) -> None:
    row = forge.rows[test_id]
    assert row["execution_status"] == "ok", row["scores"]


@pytest.mark.parametrize("attempt", ATTEMPTS, ids=lambda a: a.id)
def test_the_naive_twin_is_fooled(
    forge: Forge, client: docker.DockerClient, tmp_path: Path, attempt: Attempt
) -> None:
    project = tmp_path / "project"
    shutil.copytree(forge.project, project)
    stdout, code = run_weakly(client, forge.image, project, attempt)
    assert generous(stdout, code) >= 0.8, (code, stdout[:500])


def run_weakly(client: docker.DockerClient, image: str, project: Path, attempt: Attempt) -> tuple[bytes, int]:
    """Output and exit code of the careless grader, told by the script itself: other users of the engine may
    remove a container that has just ended, and one that was removed too early is run again."""
    script = (
        "mkdir -p /workspace && cd /workspace && export HOME=/workspace && "
        f"python3 /suite/agent.py {attempt.id} /tmp/response.json; hash -r; {attempt.twin}; printf '\n%d' $?"
    )
    for _ in range(3):
        made = client.containers.create(
            image,
            ["bash", "-c", script],
            user="0:0",
            network_mode="none",
            working_dir="/",
            mem_limit="512m",
            pids_limit=128,
            volumes={str(project): {"bind": "/suite", "mode": "rw"}},
        )
        try:
            stream = made.attach(stdout=True, stderr=False, stream=True)
            made.start()
            stdout, _, code = b"".join(stream).rpartition(b"\n")
        finally:
            with suppress(docker.errors.APIError):
                made.remove(force=True, v=True)
        if code:
            return stdout, int(code)
    raise AssertionError("the container never got to its end")
