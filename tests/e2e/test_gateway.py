"""The model gateway in a whole run: an agent of one's own, its budget, what it may not ask, and what its row says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests import forkserver
from tests.agents.model_server import INPUT, OUTPUT, ModelServer
from tests.forkserver import command
from tests.gateway.test_rate_limits import Busy, serving

pytestmark = pytest.mark.engine

KEY = "sk-real-gateway-01"
AGENT = """
import json, os, sys, urllib.error, urllib.request
def ask(path, **more):
    body = {"model": "small", "messages": [{"role": "user", "content": "hello"}], **more}
    headers = {"Authorization": "Bearer " + os.environ["MY_KEY"], "Content-Type": "application/json"}
    request = urllib.request.Request(os.environ["MY_URL"] + path, json.dumps(body).encode(), headers)
    try:
        return urllib.request.urlopen(request).status
    except urllib.error.HTTPError as error:
        return error.code
chat = "/v1/chat/completions"
said = [ask(chat), ask(chat, model="dear"), ask("/v1/files"), ask(chat, stream=True), ask(chat), ask(chat)]
answer = {"text": json.dumps(said), "token_usage": {"input": 1, "output": 1}, "cost_usd": 0.0}
open(sys.argv[1], "w").write(json.dumps(answer))
"""
SUITE = """
execution: {targets: [agent], BUDGET}
workspace: {template: template, env: {required_commands: [python3]}}
tests:
  - id: one
    input: go
    assertions: [{type: token-usage, max_total: 10000}, {type: cost, budget: 1}, {type: contains, value: "403"}]
"""
TARGETS = """
targets:
  - name: agent
    provider: cli
    command: python3 agent.py {OUTPUT_FILE}
    secrets: {MY_KEY: {host: "HOST", scheme: http, base_url_env: MY_URL, model_server: true}}
    gateway: {models: [small], prices: {small: {input: 1, output: 1}}, BOUND}
"""
CALL_USD = (INPUT + OUTPUT) / 1e6


def run(
    folder: Path, *, bound: str, budget: str = "", agent: str = AGENT, before: Sequence[str] = ()
) -> tuple[dict[str, Any], ModelServer, str]:
    (folder / "template").mkdir()
    (folder / "template/agent.py").write_text(agent)
    (folder / "s.eval.yaml").write_text(SUITE.replace("BUDGET", budget))
    with ModelServer({}, key=KEY) as server:
        targets = TARGETS.replace("HOST", f"127.0.0.1:{server.port}").replace("BOUND", bound)
        (folder / "targets.yaml").write_text(targets)
        argv = [sys.executable, "-m", "agentv_sandbox", "run", "s.eval.yaml", "-o", "out"]
        environ = {**os.environ, "MY_KEY": KEY}
        if before:
            done = subprocess.run(
                [*before, *argv],
                cwd=folder,
                env=environ,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
        else:
            done = forkserver.run(argv, cwd=folder, env=environ, timeout=300)
    lines = (folder / "out/index.jsonl").read_text().splitlines()
    assert len(lines) == 1, done.stdout + done.stderr
    return json.loads(lines[0]), server, done.stdout + done.stderr


def test_a_row_has_what_the_gateway_counted_and_refused(tmp_path: Path) -> None:
    row, server, output = run(tmp_path, bound="max_calls: 3")
    answer = (tmp_path / "out" / row["answer_path"]).read_text()
    assert json.loads(answer) == [200, 403, 404, 200, 200, 403], output
    assert len(server.seen) == 3
    usage = {"input": 3 * INPUT, "output": 3 * OUTPUT}
    assert usage.items() <= row["token_usage"].items()
    assert row["cost_usd"] == pytest.approx(3 * CALL_USD)
    assert row["claimed"] == {"token_usage": {"input": 1, "output": 1}, "cost_usd": 0.0}
    assert (row["model_calls"]["calls"], row["model_calls"]["without_price"]) == (3, 0)
    assert [score["score"] for score in row["scores"]] == [1.0, 1.0, 1.0]
    notes = " ".join(row["notes"])
    for said in ("'dear' is not one of this target's", "POST /v1/files", "max_calls is 3"):
        assert said in notes
    calls = [json.loads(line) for line in (tmp_path / "out" / row["model_log_path"]).read_text().splitlines()]
    assert [call["status"] for call in calls] == [200, 200, 200]
    assert [call.get("repeats_messages", 0) for call in calls] == [0, 1, 1]
    kept = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    assert not [path for path in kept if KEY.encode() in path.read_bytes()]


def test_the_suites_budget_stops_a_test_that_is_under_way(tmp_path: Path) -> None:
    row, server, output = run(tmp_path, bound="max_calls: 9", budget=f"budget_usd: {1.5 * CALL_USD}")
    assert len(server.seen) == 2, output
    assert "the budget of this suite is spent" in " ".join(row["notes"])


GIVES_UP = AGENT.replace(
    "        return error.code\n", "        sys.exit(f'the server refused: {error.code}')\n"
)


@pytest.mark.parametrize(
    ("bound", "budget"), [("max_calls: 1", ""), ("max_calls: 9", f"budget_usd: {0.5 * CALL_USD}")]
)
def test_an_agent_that_its_budget_stops_has_that_fault(tmp_path: Path, bound: str, budget: str) -> None:
    """Its exit status is the same as that of one that broke."""
    asks_on = GIVES_UP.replace('ask(chat, model="dear"), ask("/v1/files"), ', "")
    row, server, output = run(tmp_path, bound=bound, budget=budget, agent=asks_on)
    assert (row["fault"], row["execution_status"]) == ("budget_exceeded", "execution_error"), output
    assert len(server.seen) == 1 and "is spent" in row["error"]


SLOW_SUITE = """
execution: {targets: [agent]}
workspace: {template: template, env: {required_commands: [python3]}}
tests:
  - {id: one, input: go, assertions: [{type: contains, value: "200"}]}
  - {id: two, input: go, assertions: [{type: contains, value: "200"}]}
"""
SLOW_AGENT = AGENT.replace(", ask(chat, model=", ", 0]\nx = [ask(chat, model=")
SLOW_AGENT = SLOW_AGENT[: SLOW_AGENT.index("x = ")] + SLOW_AGENT[SLOW_AGENT.index("answer = ") :]


def run_two(
    folder: Path, busy: Busy, *, bound: str = "", more: str = "", agent: str = SLOW_AGENT
) -> list[Any]:
    """Rows of two tests that run at once and ask ``busy``; ``bound`` and ``more`` are of the target."""
    (folder / "template").mkdir()
    (folder / "template/agent.py").write_text(agent)
    (folder / "s.eval.yaml").write_text(SLOW_SUITE)
    targets = TARGETS.replace("HOST", f"127.0.0.1:{busy.port}").replace(", BOUND", bound)
    (folder / "targets.yaml").write_text(targets + more)
    argv = ("run", "s.eval.yaml", "-o", "out", "--workers", "2")
    done = command(*argv, cwd=folder, env={**os.environ, "MY_KEY": KEY}, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return [json.loads(line) for line in (folder / "out/index.jsonl").read_text().splitlines()]


ONE_BY_ONE = SLOW_AGENT.replace(
    "said = [ask(chat), 0]",
    'import time; time.sleep(1.5 * (os.environ["AGENTV_EVAL_ID"] == "two")); said = [ask(chat), 0]',
)
"""One of two has its answer before the other asks."""
assert ONE_BY_ONE != SLOW_AGENT


def test_a_wait_for_a_rate_limit_is_not_the_agents_time(tmp_path: Path) -> None:
    """Agents with 5 s have them although the server makes both wait for 8 s; it says so to one of them alone."""
    first_only = Busy(lambda number: (429, {"Retry-After": "8"}) if number == 0 else (200, {}))
    with serving(first_only) as busy:
        rows = run_two(tmp_path, busy, more="    limits: {timeout_seconds: 5}\n", agent=ONE_BY_ONE)
    assert busy.statuses() == [429, 200, 200]
    assert busy.answers[1][0] - busy.answers[0][0] >= 7.9
    calls = [row["model_calls"] for row in rows]
    assert sorted(call["rate_limited"] for call in calls) == [0, 1]
    assert max(call["rate_limit_wait_ms"] for call in calls) >= 7900
    assert all(row["duration_ms"] < 5000 < row["total_duration_ms"] for row in rows)


ONCE_AND_TWICE = SLOW_AGENT.replace(
    "said = [ask(chat), 0]",
    'said = [ask(chat) for _ in range(1 if os.environ["AGENTV_EVAL_ID"] == "one" else 2)]',
)


def test_the_suites_budget_knows_what_an_earlier_part_of_the_run_has_spent(tmp_path: Path) -> None:
    (tmp_path / "template").mkdir()
    (tmp_path / "template/agent.py").write_text(ONCE_AND_TWICE)
    budget = f"execution: {{targets: [agent], budget_usd: {1.5 * CALL_USD}}}"
    (tmp_path / "s.eval.yaml").write_text(SLOW_SUITE.replace("execution: {targets: [agent]}", budget))
    with ModelServer({}, key=KEY) as server:
        targets = TARGETS.replace("HOST", f"127.0.0.1:{server.port}").replace(", BOUND", "")
        (tmp_path / "targets.yaml").write_text(targets)
        for args in (("--test-id", "one"), ("--resume",)):
            argv = ("run", "s.eval.yaml", "-o", "out", *args)
            command(*argv, cwd=tmp_path, env={**os.environ, "MY_KEY": KEY}, timeout=300)
        assert len(server.seen) == 2


AT_ONCE = SLOW_AGENT.replace(
    "said = [ask(chat), 0]",
    "import concurrent.futures\n"
    "with concurrent.futures.ThreadPoolExecutor(3) as pool:\n    said = list(pool.map(ask, [chat] * 3))",
)


def test_all_agents_together_ask_no_more_at_once_than_their_target_says(tmp_path: Path) -> None:
    with serving(Busy(lambda _: (200, {}), wait_s=0.3)) as busy:
        run_two(tmp_path, busy, bound=", max_concurrency: 1", agent=AT_ONCE)
    assert busy.statuses() == [200] * 6
    assert busy.most_running == 1


def test_containers_that_cannot_see_our_sockets_are_reached_over_a_relay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine's machine has another folder under the name of ours, as one in a virtual machine has."""
    own = tmp_path / ("a folder with a long name " * 4)  # a socket's address has 107 bytes
    own.mkdir()
    monkeypatch.setenv("TMPDIR", str(own))
    hides = 'mount -t tmpfs none "$TMPDIR" && exec "$@"'
    row, server, output = run(
        tmp_path, bound="max_calls: 3", before=["unshare", "--mount", "sh", "-c", hides, "sh"]
    )
    answer = (tmp_path / "out" / row["answer_path"]).read_text()
    assert json.loads(answer) == [200, 403, 404, 200, 200, 403], output
    assert (len(server.seen), row["model_calls"]["calls"]) == (3, 3)
    network = (tmp_path / "out" / row["network_log_path"]).read_text().splitlines()
    assert [json.loads(line)["status"] for line in network] == [200, 403, 404, 200, 200, 403]
    assert not [line for line in output.splitlines() if "ended early" in line]


def test_a_listed_server_that_cannot_be_used_is_named_though_the_test_passes(tmp_path: Path) -> None:
    asks_more = 'try: urllib.request.urlopen("https://missing.invalid/")\nexcept OSError: pass\n'
    agent = AGENT.replace("chat = ", f"{asks_more}chat = ")
    row, _, output = run(
        tmp_path, bound="max_calls: 3}\n    network: {allow: ['missing.invalid:443']", agent=agent
    )
    assert row["execution_status"] == "ok", output
    assert (
        "on the network: missing.invalid:443 could not be used: missing.invalid does not resolve"
        in " ".join(row["notes"])
    )
