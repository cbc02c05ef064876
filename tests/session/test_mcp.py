"""``agentv-sandbox mcp``: by the protocol's own client, by what no client says, and by its page."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from agentv_sandbox.base.errors import SandboxError
from agentv_sandbox.engines import ContainerEngine
from agentv_sandbox.session import Session
from agentv_sandbox.session.mcp import ToolServer
from tests import forkserver

_ROOT = Path(__file__).parents[2]
_MODULES = _ROOT / ".venv/agentv/node_modules"
_COMMAND = [sys.executable, "-P", "-m", "agentv_sandbox", "mcp"]
pytestmark = [pytest.mark.engine, pytest.mark.native]


def test_the_protocols_own_client_works_in_a_box(
    engine: ContainerEngine, tool_image: str, tmp_path: Path
) -> None:
    assert tool_image
    (tmp_path / "node_modules").symlink_to(_MODULES)
    script = shutil.copy(Path(__file__).parent / "mcp_client.mjs", tmp_path)
    done = subprocess.run(
        [_MODULES / ".bin/bun", script, *_COMMAND, "--engine", engine.info().kind],
        env={**os.environ, "ANTHROPIC_API_KEY": "key-of-this-machine"},
        capture_output=True,
        check=True,
        timeout=120,
    )
    said = json.loads(done.stdout)
    assert said["server"] == "agentv-sandbox" and said["tools"] == ["exec", "read", "write", "list"]
    assert said["write"] == [False, "6 characters written"]
    assert re.fullmatch(r"three\n\d{4,}\n\[exit code 3\]", said["exec"][1])
    assert said["stdin"] == [False, "given\n[exit code 0]"]
    assert said["read"] == [False, "three\n"]
    assert said["list"] == [False, "-rw-r--r--          6 data.txt"]
    assert said["odd"] == [False, "-rw-r--r--          0 a\\x0a-rw-r--r-- 1 forged"]
    assert said["missing"] == [True, "nothing cannot be read: No such file or directory"]
    assert said["late"] == [True, "[ended: it took too long]"]
    assert said["network"][1].startswith("sealed\n") and "KEY" not in said["network"][1]
    assert said["first"] == "fast\n[exit code 0]"
    assert (said["cancelled"], said["left"]) == ("cancelled", [False, "0\n[exit code 0]"])
    assert said["wrong"] == said["kind"] == -32602


def _answers(*lines: str, arguments: tuple[str, ...] = ()) -> tuple[int, list[dict[str, Any]], str]:
    text = "\n".join(lines) + "\n"
    done = forkserver.run([*_COMMAND, *arguments], input=text)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def _call(number: int, name: str, **arguments: object) -> str:
    params = {"name": name, "arguments": arguments}
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})


def test_what_no_client_says(engine: ContainerEngine, tool_image: str) -> None:
    assert tool_image
    code, answers, errors = _answers(
        "no json",
        "[" * 100_000,
        "[]",
        "1",
        '{"id": 1, "method": 5}',
        '{"id": 2, "method": "no/such"}',
        '{"id": 3, "method": "tools/call", "params": []}',
        '{"id": 4, "method": "tools/call", "params": {"name": "exec", "arguments": {"command": true}}}',
        _call(5, "exec"),
        _call(6, "exec", command="true", user="root"),
        _call(7, "read", path="../etc/passwd"),
        _call(8, "write", path="x\0y", content=""),
        _call(9, "exec", command="printf '\\033[2J'; head -c 300000 /dev/zero | tr '\\0' x"),
        _call(10, "exec", command="echo \ud800"),
        _call(11, "exec", command="cat", stdin="\udfff"),
        _call(12, "exec", command="true", timeout=float("nan")),
        _call(13, "exec", command="true", timeout=0),
        _call(14, "read", path="\ud800"),
        '{"method": "notifications/cancelled", "params": {"requestId": 77}}',
        '{"result": {}, "id": 5}',
        '{"id": "last", "method": "ping"}',
        arguments=("--engine", engine.info().kind),
    )
    assert (code, errors) == (0, "")
    codes = [answer["error"]["code"] for answer in answers if "error" in answer]
    assert sorted(codes) == sorted([-32700, -32700, -32600, -32600, -32600, -32601, *[-32602] * 9])
    texts = {answer["id"]: answer["result"] for answer in answers if "result" in answer}
    assert texts["last"] == {}
    assert texts[7]["isError"] and texts[8]["isError"]
    assert 90_000 < len(texts[9]["content"][0]["text"]) < 110_000


def test_a_box_that_cannot_be_opened_says_why_in_each_call_and_at_the_end() -> None:
    code, answers, errors = _answers(
        _call(1, "exec", command="true"), arguments=("--engine", "no-such-engine")
    )
    assert code == 2 and "no-such-engine" in errors and "Traceback" not in errors
    assert answers[0]["result"]["isError"] and "no-such-engine" in answers[0]["result"]["content"][0]["text"]


def test_calls_wait_for_a_box_that_is_still_built_when_nothing_more_is_asked() -> None:
    opening: Future[Session] = Future()
    (read_end, write_end) = os.pipe()
    with os.fdopen(read_end, "rb") as answers, os.fdopen(write_end, "wb") as writes:
        server = ToolServer(opening, io.BytesIO(_call(1, "read", path="x").encode()), writes, late_s=5.0)
        serving = threading.Thread(target=server.serve)
        serving.start()
        serving.join(0.3)
        assert serving.is_alive()
        opening.set_exception(SandboxError("the box came late", hint="Wait."))
        assert "the box came late\nWait." in json.loads(answers.readline())["result"]["content"][0]["text"]
        serving.join(5)
        assert not serving.is_alive()


def test_nobody_waits_for_a_box_whose_client_has_gone() -> None:
    opening: Future[Session] = Future()
    (read_end, write_end) = os.pipe()
    with os.fdopen(write_end, "wb") as writes:
        server = ToolServer(opening, io.BytesIO(_call(1, "read", path="x").encode()), writes)
        serving = threading.Thread(target=server.serve)
        serving.start()
        os.close(read_end)
        serving.join(5)
        assert not serving.is_alive()
        opening.set_exception(SandboxError("late"))


def test_the_page_does_what_it_says(engine: ContainerEngine, tool_image: str, tmp_path: Path) -> None:
    assert tool_image and os.environ["AGENTV_SANDBOX_ENGINE"] == engine.info().kind
    page = (_ROOT / "docs/how-to/mcp.md").read_text()
    (calls,) = re.findall(r"```jsonl\n(.*?)```", page, re.DOTALL)
    (command,) = re.findall(r"```console\n\$ (.*?)\n```", page, re.DOTALL)
    (tmp_path / "calls.jsonl").write_text(calls)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command],
        env={**os.environ, "PATH": path},
        cwd=tmp_path,
        capture_output=True,
        check=True,
        timeout=120,
    )
    text = json.loads(done.stdout.splitlines()[-1])["result"]["content"][0]["text"]
    assert re.fullmatch(r"42\nuid-\d+\n\[exit code 0\]", text)
