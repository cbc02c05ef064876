"""The Python interface, as a program uses it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

import agentv_sandbox
from agentv_sandbox import masking
from agentv_sandbox.base.errors import Cancelled, InputError
from tests.llm.servers import Answer, Server, chat

SUITE = """
name: small
execution: {target: canned}
tests:
  - {id: good, criteria: c, input: go, assert: [{type: contains, value: yes}]}
  - {id: poor, criteria: c, input: go, assert: [{type: contains, value: never}]}
"""
TARGETS = "targets: [{name: canned, provider: mock, response: yes it is}]\n"

pytestmark = pytest.mark.engine


@pytest.fixture(autouse=True)
def _redaction_ends() -> Iterator[None]:
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()
    masking.forget()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "s.eval.yaml").write_text(SUITE)
    (tmp_path / "targets.yaml").write_text(TARGETS)
    return tmp_path


def test_a_run_returns_rows_and_prints_nothing(
    folder: Path, tool_image: str, capsys: pytest.CaptureFixture[str]
) -> None:
    events: list[str] = []
    report = agentv_sandbox.run(
        folder / "s.eval.yaml",
        output=folder / "out",
        cwd=folder,
        on_event=lambda event, **_keys: events.append(event),
    )
    assert {row["test_id"]: row["score"] for row in report.rows} == {"good": 1.0, "poor": 0.0}
    assert (report.exit_code, report.failure, report.planned) == (1, None, 2)
    assert (report.folder / "report.html").is_file()
    assert events.count("case.finished") == 2 and "run.started" in events
    assert capsys.readouterr() == ("", "")


def test_a_set_event_ends_the_run(folder: Path, tool_image: str) -> None:
    stop = threading.Event()

    def on_event(event: str, **_keys: object) -> None:
        if event == "run.started":
            stop.set()

    report = agentv_sandbox.run(
        folder / "s.eval.yaml", output=folder / "out", cwd=folder, stop=stop, on_event=on_event
    )
    assert isinstance(report.failure, Cancelled)
    assert report.exit_code == 130


def test_bad_input_is_raised_before_anything_happens(folder: Path) -> None:
    (folder / "s.eval.yaml").write_text(SUITE.replace("assert", "asert"))
    with pytest.raises(InputError) as raised:
        agentv_sandbox.run(
            folder / "s.eval.yaml", output=folder / "out", cwd=folder, environ={"DOCKER_HOST": "unix:///no"}
        )
    assert [problem.line for problem in raised.value.problems] == [5, 6]
    assert not (folder / "out").exists()


MODEL = "targets: [{name: canned, provider: openai, model: m, api_key: '${{ A_KEY }}', base_url: '%s', SETTINGS}]\n"
SETTINGS = "stream: false, max_retries: 1, retry_initial_delay_ms: 1"


def test_a_recording_answers_trials_and_retries_in_their_order(folder: Path, tool_image: str) -> None:
    """Without the server and without its key."""
    suite = SUITE.replace("{target: canned}", "{target: canned, trials: {count: 3, strategy: mean}}")
    (folder / "s.eval.yaml").write_text(suite)
    poor, good = chat("no"), chat("yes")
    with Server([poor, Answer(status=500), good, poor]) as server:
        (folder / "targets.yaml").write_text(MODEL.replace("SETTINGS", SETTINGS) % server.url)

        def trials(name: str, **tape: Path) -> list[float]:
            environ = {"A_KEY": "k"} if "record" in tape else {}
            (row,) = agentv_sandbox.run(
                folder / "s.eval.yaml",
                output=folder / name,
                cwd=folder,
                test_ids=["good"],
                environ=environ,
                **tape,
            ).rows
            assert (row["execution_status"], row.get("error")) == ("quality_failure", None)
            return [trial["score"] for trial in row["trials"]]

        live = trials("live", record=folder / "calls")
    assert live == trials("replayed", replay=folder / "calls")
    assert (live.count(1.0), len(server.asked)) == (1, 4)
