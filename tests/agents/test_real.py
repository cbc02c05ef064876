"""Every kind's real program, once: one session with all that its tools do, and a second turn of the conversation.

What else programs do is played from recordings (``recording.py``). Here they run in their image, behind the proxy.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from agentv_sandbox.containers.policy import Role
from agentv_sandbox.containers.sandbox import Sandbox
from agentv_sandbox.engines.table import find_engine
from tests.converters.inputs import INPUTS

from .harness import INSTRUCTIONS, PACKAGES, Agent
from .model_server import CACHED, INPUT, OUTPUT, REASONING, Seen, declared
from .real import AGENTS, ENGINE, TESTS, Real
from .recording import FOLDER, read
from .scenes import KEY
from .scripts import GREETING
from .test_replay import KEYS, check_same, rows, visits_of

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("agents")]

REQUESTS = 17
"""Of a session, all answered: that of the first turn and one after each step, and two of the second turn."""
SHELL_ALONE = {"Read": "Bash", "Edit": "Bash", "Write": "Bash"}
"""Codex does all with commands."""
DONE = (
    ("Bash", "ok"),
    ("Read", "ok"),
    ("Edit", "ok"),
    ("Write", "ok"),
    ("Bash", "ok"),
    ("Bash", "ok"),
    ("Bash", "ok"),
    ("Bash", "error"),
    ("Skill", "ok"),
    ("Read", "ok"),
    ("Bash", "ok"),
    ("recite", "ok"),
    ("Bash", "ok"),
    ("Bash", "ok"),
    ("Bash", "ok"),
    ("Bash", "ok"),
)
"""What each program's tools do, in this order, and how it ends."""


@pytest.fixture(params=AGENTS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def tools_of(agent: Agent) -> list[tuple[str, str]]:
    names = {"recite": agent.recites or "Bash"}
    if agent.name == "codex":
        names |= {**SHELL_ALONE, "Skill": "Bash"}
    if agent.name == "pi":
        names |= {"Skill": "Read"}
    return [(names.get(tool, tool), status) for tool, status in DONE]


def seen_of(real: Real, kind: str) -> list[Seen]:
    return [seen for seen in real.server.seen if seen.script.startswith(f"rich-{kind}")]


def test_both_turns_are_answered_and_graded(real: Real, kind: str) -> None:
    assert real.code == 0, real.output
    row = real.rows[kind]
    assert (row["execution_status"], row["score"]) == ("ok", 1.0), row
    assert [score["score"] for score in row["scores"]] == [1.0, 1.0]
    assert "Traceback" not in real.output


def test_what_its_tools_did_stands_in_the_row(real: Real, kind: str) -> None:
    agent, calls = AGENTS[kind], real.calls(kind)
    assert [(call["tool"], call["status"]) for call in calls] == tools_of(agent)
    outputs = [json.dumps(call["output"]) for call in calls]
    outputs[4:6] = sorted(outputs[4:6])  # made at the same time
    for number, said in {1: "draft", 4: "one", 5: "two", 6: "1,2", 7: "oops", -1: "1,2"}.items():
        assert said in outputs[number], (number, outputs)
    if agent.recites is not None:
        output = outputs[11]
        assert int(output.partition("roses are red for ")[2].partition(".")[0]) >= 20_000  # its user
    assert GREETING in "".join(map(str, calls[3]["input"].values()))


def test_what_it_said_and_left_stands_in_the_row(real: Real, kind: str) -> None:
    agent = AGENTS[kind]
    *said, last = [message["content"] for message in real.messages(kind) if message.get("content")]
    assert said == ["I begin.", "Editing.", "Writing.", "Both.", "Running.", "done: all of it"]
    assert last[0] == {"type": "text", "text": "it was 1,2 first"}
    assert [block["path"] for block in last[1:]] == ["hello.py", "notes.txt", "table.csv"]
    rules = (agent.chosen, agent.chosen, "named by a tool")
    assert real.files(kind) == list(zip(("hello.py", "notes.txt", "table.csv"), rules, strict=True))
    diff = real.read(kind, "diff_path")
    assert "-draft" in diff and "+final" in diff


def test_figures_and_facts_stand_in_the_row(real: Real, kind: str) -> None:
    """Of events that the agent forged in its own file none counts."""
    row = real.rows[kind]
    usage = {"input": REQUESTS * INPUT, "output": REQUESTS * OUTPUT, "cached": REQUESTS * CACHED}
    if AGENTS[kind].settings["model"] not in ("claude-sonnet-4-5", "anthropic/claude-sonnet-4-5"):
        usage["reasoning"] = REQUESTS * REASONING
    assert row["token_usage"] == usage
    assert row["cost_usd"] > 0
    assert 0 < row["duration_ms"] < row["total_duration_ms"]
    facts = {"program": kind, "version": AGENTS[kind].version, "model": AGENTS[kind].settings["model"]}
    assert row["agent"].items() >= facts.items()
    assert PACKAGES[kind].endswith(f"@{AGENTS[kind].version}")
    first, *_ = real.read(kind, "agent_events_path").splitlines()  # forged ones follow
    assert json.loads(first)["at"] > 1e9


def test_what_it_is_given_reaches_the_model(real: Real, kind: str) -> None:
    """Instructions, skills and image of the workspace, and the target's own system prompt."""
    seen = seen_of(real, kind)
    for text in (INSTRUCTIONS, "Be brief.", "Greets people", "Let us work."):
        assert text in json.dumps(seen[0].body), text
    assert "iVBORw0KGgo" in json.dumps(seen[-1].body)
    assert [each.status for each in seen[:2]] == [500, 200]  # it asked again


def test_image_paper_workbook_and_document_reach_it_to_the_byte(real: Real, kind: str) -> None:
    first = json.dumps(seen_of(real, kind)[0].body)
    printed = json.dumps(real.calls(kind)[12]["output"])
    for name, data in INPUTS.items():
        assert f"/input/{name}" in first
        assert f"{hashlib.sha256(data).hexdigest()}  {Path(name).name}" in printed


def test_the_conversation_goes_on_in_one_session(real: Real, kind: str) -> None:
    last = json.dumps(talk_of(seen_of(real, kind)[-1].body))
    assert "done: all of it" in last and f"script:rich-{kind}-end" in last
    assert last.count("Let us work.") == 1  # it was not told again


def talk_of(body: dict[str, Any]) -> Any:
    return next(body[key] for key in ("messages", "input", "contents") if key in body)


def test_its_recordings_are_of_the_program_that_runs(real: Real, kind: str) -> None:
    """It declares the same tools, and asks the same addresses."""
    asked = next(s for s in read(FOLDER / f"{kind}.json")["sessions"] if s["test"] == "edit")["asked"][-1]
    last = seen_of(real, kind)[-1]
    assert {tool.name for tool in declared(asked["body"])} == {tool.name for tool in declared(last.body)}
    assert asked["path"].removeprefix("/<models>") == last.path


def test_the_key_is_nowhere(real: Real, kind: str) -> None:
    """The model's server got the key, and nothing else has it: no file of the run, no process, nothing that the
    engine shows, nothing that the agent finds."""
    agent, watcher = AGENTS[kind], real.watcher
    assert all(KEY in " ".join(seen.headers.values()) for seen in seen_of(real, kind))
    for path in real.folder.parent.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path
    assert KEY not in real.output
    for texts, proof in (
        (watcher.arguments, "/input/.agent/run.py"),
        (watcher.environments, f"{agent.key}="),
        (watcher.inspected, f"{agent.key}="),
    ):
        assert any(proof in text for text in texts), proof  # it was looked at
        assert not [text for text in texts if KEY in text]
    searched, printed = (call["output"] for call in real.calls(kind)[-3:-1])
    TESTS[kind].check_secrets(searched, printed)


def test_the_key_is_in_no_layer_of_the_image(real: Real) -> None:
    [image] = {row["image_id"] for row in real.rows.values()}
    assert KEY not in real.watcher.image(image)
    if "up to date" in real.output:
        return  # it was there before the key was drawn
    assert real.watcher.in_layers(image, "libnss_unknown", KEY) == {"libnss_unknown"}, image


def test_nothing_but_the_models_server_is_asked(real: Real, kind: str) -> None:
    log = [json.loads(line) for line in real.read(kind, "network_log_path").splitlines()]
    assert {(row["endpoint"], row["decision"]) for row in log} == {
        (f"127.0.0.1:{real.server.port}", "allowed")
    }


def test_each_server_is_asked_in_its_way(real: Real) -> None:
    assert (
        real.credentials().items()
        >= {
            "/v1/messages?beta=true": {"x-api-key"},
            "/v1/messages": {"x-api-key"},
            "/v1/responses": {"authorization"},
            "/v1/chat/completions": {"authorization"},
            "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse": {"x-goog-api-key"},
        }.items()
    )
    assert all(len(headers) == 1 for headers in real.credentials().values())


def test_nothing_of_copilot_is_unpacked_when_it_starts(real: Real) -> None:
    """What it would unpack is in the image, where nobody can write, and it starts without a home folder."""
    image = real.rows["copilot"]["image_id"]
    script = "head -c 2 $(command -v copilot); ls /opt/copilot/pkg/*; HOME=/nowhere copilot --version"
    engine = find_engine(os.environ, ENGINE)
    with Sandbox(engine, tool_image=image) as sandbox:
        done = sandbox.run(Role.PREPROCESSOR, ["sh", "-c", script], image=image)
    assert done.stdout.decode().startswith("#!1.0.102\nGitHub Copilot CLI 1.0.102"), done


def test_a_replay_with_the_real_programs_gives_the_same_rows(real: Real) -> None:
    """Without the server and without keys; what they ask is found, though they run anew."""
    live = rows(real.folder)
    options = ["--replay", "calls", "--target", "claude", "--target", "codex"]
    done = real.again(*options, out="replayed", without=KEYS)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no model is asked" in done.stdout
    replayed = rows(real.folder.with_name("replayed"))
    assert {target for _, target in replayed} == {"claude", "codex"}
    check_same({test: live[test] for test in replayed}, replayed)
    for row in replayed.values():
        visits = visits_of(real.folder.with_name("replayed"), row)
        assert visits and all(visit["replayed"] for visit in visits)
    files = [path for path in real.folder.with_name("calls").rglob("*") if path.is_file()]
    assert len(files) > 60
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
