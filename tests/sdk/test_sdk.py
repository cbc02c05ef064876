"""The SDK as grader authors use it: as a program that reads stdin and writes stdout."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from agentv_sandbox import sdk
from agentv_sandbox.base.errors import LlmError
from agentv_sandbox.judging.llm_proxy import LlmProxy
from agentv_sandbox.models.figures import TokenUsage
from agentv_sandbox.models.suite import Target
from agentv_sandbox.models_api.records import LlmReply, LlmRequest

PAYLOAD: dict[str, Any] = {
    "criteria": "Be right",
    "expected_output": [{"role": "assistant", "content": "4"}],
    "output": "The answer is 4",
    "messages": [
        {"role": "user", "content": "2+2?"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "The answer is 4"},
                {"type": "file", "media_type": "csv", "path": "/files/0/a.csv", "original_path": "a.csv"},
            ],
        },
    ],
    "input_files": [],
    "input": [{"role": "user", "content": "2+2?"}],
    "metadata": {"camelKey": 1},
    "trace": {"event_count": 1},
    "trace_summary": {"event_count": 1, "tool_calls": {"Bash": 1}, "error_count": 0, "unknown": 1},
    "token_usage": {"input": 1, "output": 2},
    "cost_usd": 0.5,
    "duration_ms": 12,
    "file_changes": None,
    "workspace_path": "/workspace",
    "config": {"min": 3},
}


def run_script(tmp_path: Path, body: str, payload: Any = PAYLOAD, *, env: dict[str, str] | None = None):
    script = tmp_path / "grader.py"
    script.write_text(textwrap.dedent(body))
    root = str(Path(sdk.__file__).parent.parent)
    return subprocess.run(
        [sys.executable, str(script)],
        input=json.dumps(payload).encode(),
        capture_output=True,
        check=False,
        timeout=60,
        env={"PYTHONPATH": root, **(env or {})},
    )


def test_imports_nothing_but_the_standard_library(tmp_path: Path) -> None:
    (tmp_path / "agentv_sandbox").mkdir()
    (tmp_path / "agentv_sandbox" / "__init__.py").touch()
    (tmp_path / "agentv_sandbox" / "sdk.py").write_bytes(Path(sdk.__file__).read_bytes())
    done = subprocess.run(
        [sys.executable, "-S", "-c", "import agentv_sandbox.sdk"],
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


VERDICTS = [
    ("return 0.25", {"score": 0.25}),
    ("return True", {"score": 1.0}),
    ("return {'score': 1, 'details': {'a': 1}}", {"assertions": [], "score": 1.0, "details": {"a": 1}}),
    (
        "return GraderOutput(assertions=[Assertion('a', True), Assertion('b', False, 'why')])",
        {
            "assertions": [
                {"text": "a", "passed": True},
                {"text": "b", "passed": False, "evidence": "why"},
            ]
        },
    ),
    ("print('noise'); import os; os.system('echo more'); return 0.5", {"score": 0.5}),
]


@pytest.mark.parametrize(("body", "verdict"), VERDICTS)
def test_verdict_is_all_that_stdout_holds(tmp_path: Path, body: str, verdict: Any) -> None:
    done = run_script(
        tmp_path,
        f"""
        from agentv_sandbox.sdk import *

        @define_code_grader
        def grade(case):
            {body}
        """,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == verdict


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("return 7", "score must be from 0 to 1, got 7"),
        ("return {'score': '1'}", "score must be a number"),
        ("return {'score': float('nan')}", "score must be from 0 to 1"),
        ("return None", "must return"),
        ("return {'assertions': [{'passed': True}]}", "an assertion needs text"),
        ("raise ValueError('boom')", "ValueError: boom"),
    ],
)
def test_mistakes_end_with_exit_code_1_and_a_reason(tmp_path: Path, body: str, why: str) -> None:
    done = run_script(
        tmp_path,
        f"""
        from agentv_sandbox.sdk import define_code_grader
        @define_code_grader
        def grade(case):
            {body}
        """,
    )
    assert (done.returncode, done.stdout) == (1, b"")
    assert why in done.stderr.decode()


def test_context_has_every_field(tmp_path: Path) -> None:
    done = run_script(
        tmp_path,
        """
        from agentv_sandbox.sdk import define_code_grader
        @define_code_grader
        def grade(case):
            assert case.criteria == "Be right"
            assert case.answer == case.output == "The answer is 4"
            assert (case.question, case.reference_answer) == ("2+2?", "4")
            assert case.metadata == {"camelKey": 1} and case.config == {"min": 3}
            assert case.trace_summary.tool_calls == {"Bash": 1}
            assert case.token_usage.output == 2 and case.cost_usd == 0.5 and case.duration_ms == 12
            assert str(case.workspace_path) == "/workspace" and case.file_changes == ""
            assert case.files[0]["original_path"] == "a.csv"
            return 1
        """,
    )
    assert done.returncode == 0, done.stderr.decode()


def test_spilled_answer_is_read_back(tmp_path: Path) -> None:
    (tmp_path / "output.json").write_text(json.dumps("long é"))
    done = run_script(
        tmp_path,
        """
        from agentv_sandbox.sdk import define_code_grader
        @define_code_grader
        def grade(case):
            return case.answer == "long é"
        """,
        {**PAYLOAD, "output": None, "output_path": str(tmp_path / "output.json")},
    )
    assert json.loads(done.stdout) == {"score": 1.0}


def test_prompt_template(tmp_path: Path) -> None:
    done = run_script(
        tmp_path,
        """
        from agentv_sandbox.sdk import define_prompt_template
        @define_prompt_template
        def prompt(case):
            print("debug")
            return f"Judge {case.answer!r} against {case.config['min']}: {{{{ output }}}}"
        """,
    )
    assert done.stdout.decode() == "Judge 'The answer is 4' against 3: {{ output }}"


def test_script_that_is_imported_does_not_run() -> None:
    assert sdk.define_code_grader(test_prompt_template) is test_prompt_template


# -- the candidate, out of process --------------------------------------------------------------------


def candidate(tmp_path: Path, body: str) -> Path:
    file = tmp_path / "solution.py"
    file.write_text(textwrap.dedent(body))
    return file


def test_results_come_back_as_data(tmp_path: Path) -> None:
    file = candidate(tmp_path, "def add(a, b):\n    print('hi')\n    return a + b\n")
    ran = sdk.run_candidate(file, function="add", calls=[[1, 2], ["a", "b"]])
    assert (ran.ok, ran.value, ran.stdout) == (True, [3, "ab"], "hi\nhi\n")


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("import os\nos._exit(0)", "no result"),
        ("print('[3]')\nimport os\nos._exit(0)", "no result"),
        ("raise SystemExit(0)", "no result"),
        ("def add(a, b):\n    raise ValueError", "exit code 1"),
        ("class Yes:\n    def __eq__(self, o): return True\ndef add(a, b): return Yes()", "exit code 1"),
        ("import json\njson.dump = lambda *a: None\ndef add(a, b): return 1", "no result"),
        ("import time\ntime.sleep(60)", "timed out after 1 s"),
        ("import os, sys\nos.write(3, b'[1, 2]')\nos._exit(0)", "not one value for each call"),
    ],
)
def test_tricks_give_no_result(tmp_path: Path, body: str, error: str) -> None:
    patience_s = 1 if "timed out" in error else 60
    ran = sdk.run_candidate(candidate(tmp_path, body), function="add", calls=[[1, 2]], timeout_s=patience_s)
    assert ran.value is None
    assert error in (ran.error or "")


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):  # before it is opened, and before it is read
        return True


def test_candidate_sees_no_environment_and_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "x")
    file = candidate(
        tmp_path,
        """
        import os, subprocess, sys
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        def env(): return [os.environ.get("SECRET"), child.pid]
        """,
    )
    ran = sdk.run_candidate(file, function="env")
    secret, pid = ran.value[0]
    assert secret is None
    assert any(gone(pid) or time.sleep(0.05) for _ in range(100))


def test_what_needs_a_box_is_refused_where_there_is_none() -> None:
    for ask in (
        lambda: sdk.candidate.run(["true"], on="template"),
        lambda: sdk.candidate.open(["true"]),
        lambda: sdk.candidate.open(["true"], on="template"),
    ):
        with pytest.raises(sdk.CandidateError, match="there is no box"):
            ask()
    with pytest.raises(sdk.CandidateError, match="on must be one of workspace, template, and is 'elsewhere'"):
        sdk.candidate.run(["true"], on="elsewhere")


def test_programs_run_with_argv_and_stdin(tmp_path: Path) -> None:
    file = candidate(tmp_path, "import sys\nprint(sys.argv[1:], input())\nsys.exit(3)")
    ran = sdk.run_candidate(file, argv=["x"], stdin="in")
    assert (ran.exit_code, ran.stdout, ran.error) == (3, "['x'] in\n", "exit code 3")


# -- the LLM proxy ------------------------------------------------------------------------------------


@pytest.fixture
def proxy() -> Iterator[tuple[LlmProxy, str]]:
    """The host's handler behind a real HTTP server."""

    def ask(target: Target, request: LlmRequest) -> LlmReply:
        if request.user == "fail":
            raise LlmError("server is down")
        return LlmReply(
            text=f"{target.name}: {request.system}{request.user}", token_usage=TokenUsage(input=1, output=2)
        )

    other = Target(name="other", provider="openai")
    held = LlmProxy(
        target=Target(name="judge", provider="openai"), others={"other": other}, ask=ask, max_calls=5
    )

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            response = held.handle(self.command, self.path, dict(self.headers), body)
            self.send_response(response.status)
            self.end_headers()
            self.wfile.write(response.body)

        do_GET = do_POST = answer

        def log_message(self, *_args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield held, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def test_proxy_answers_within_its_budget(
    proxy: tuple[LlmProxy, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    held, url = proxy
    monkeypatch.setenv("AGENTV_TARGET_PROXY_URL", url + "/")
    monkeypatch.setenv("AGENTV_TARGET_PROXY_TOKEN", held.token)
    target = sdk.llm_target()
    assert target.info() == {
        "targetName": "judge",
        "maxCalls": 5,
        "callCount": 0,
        "availableTargets": ["judge", "other"],
    }
    assert target.invoke("q", system_prompt="s ") == "judge: s q"
    assert target.invoke("q", target="other") == "other: q"
    assert target.invoke_batch(["a", "fail"]) == ["judge: a", "Error: server is down"]
    with pytest.raises(sdk.TargetError, match=r"HTTP 429.*4 of 5"):
        target.invoke_batch(["a", "b"])
    with pytest.raises(sdk.TargetError, match=r"HTTP 502.*server is down"):
        target.invoke("fail")
    with pytest.raises(sdk.TargetError, match="HTTP 429"):
        target.invoke("q")
    assert held.token_usage == TokenUsage(input=3, output=6)


@pytest.mark.parametrize(
    ("method", "path", "token", "body", "status"),
    [
        ("GET", "/info", "wrong", b"", 401),
        ("GET", "/info", "", b"", 401),
        ("GET", "/keys", None, b"", 404),
        ("POST", "/invoke", None, b"{", 400),
        ("POST", "/invoke", None, b"[]", 400),
        ("POST", "/invoke", None, b'{"question":""}', 400),
        ("POST", "/invoke", None, b'{"question":"q","systemPrompt":3}', 400),
        ("POST", "/invoke", None, b'{"question":"q","target":"agent"}', 400),
        ("POST", "/invokeBatch", None, b'{"requests":["q"]}', 400),
        (
            "POST",
            "/invokeBatch",
            None,
            b'{"requests":[' + b",".join([b'{"question":"q"}'] * 300) + b"]}",
            400,
        ),
        ("POST", "/invoke", None, b" " * (5 << 20), 413),
        ("POST", "/invoke", None, b"[" * 100_000, 400),
    ],
)
def test_proxy_refuses(
    proxy: tuple[LlmProxy, str], method: str, path: str, token: str | None, body: bytes, status: int
) -> None:
    held, _ = proxy
    given = held.token if token is None else token
    response = held.handle(method, path, {"Authorization": f"Bearer {given}"}, body)
    assert response.status == status
    assert json.loads(response.body)["error"]
    assert held.calls == 0


def test_missing_target_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AGENTV_TARGET_PROXY_URL", raising=False)
    with pytest.raises(sdk.TargetError, match="target: true"):
        sdk.llm_target()
