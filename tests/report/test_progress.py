from __future__ import annotations

import io
import os
import pty
from types import SimpleNamespace

import pytest
from rich.console import Console

from agentv_sandbox.report import progress as module
from agentv_sandbox.report.progress import Progress
from agentv_sandbox.rows.redact import Redactor
from tests.report.made_results import make_error, make_output, make_result, row_of


def events(progress: Progress, label: str = "q1") -> None:
    progress.on_event("run.started", total=2, folder="/runs/1")
    progress.on_event("fetch.done", files=3, seconds=0.42)
    progress.on_event("case.started", case_id=label, suite="reports", target="agent", trial=0)
    progress.on_event("case.stage", case_id=label, suite="reports", target="agent", trial=0, stage="grade")
    progress.on_event("case.finished", row=row_of(make_result(label)))
    progress.on_event("case.finished", row=row_of(make_error("q9", "no \x1b[2J hunter2-hunter2")))
    progress.on_event("note", message="base image: \x1b[31mlocal")


def test_plain_lines_one_an_event_without_control_codes() -> None:
    stream = io.StringIO()
    with Progress(
        Console(file=stream, force_terminal=False, width=40), redactor=Redactor(["hunter2-hunter2"])
    ) as p:
        events(p)
    lines = stream.getvalue().rstrip("\n").split("\n")
    assert lines == [
        "running 2 tests, results in /runs/1",
        "fetch.done: files 3, seconds 0.42",
        "start q1 · agent",
        "pass  [1/2] q1  1.00  2.0 s",
        "ERROR [2/2] q9  2.0 s  agent: no \\x1b[2J [redacted] (agent_exit)",
        "base image: \\x1b[31mlocal",
    ]


def test_live_display_shows_what_is_running() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, color_system=None, width=80, height=20)
    with Progress(console, live=True, sentence=lambda event, keys: f"building {keys['tag']}") as progress:
        progress.on_event("install.start", tag="x")
        with console.capture() as capture:
            console.print(progress._render())
        assert "building x  0 s" in capture.get()
        progress.on_event("run.started", total=3, folder="/runs/1")
        progress.on_event("case.started", case_id="a", suite="s", target="t", trial=0)
        progress.on_event("case.stage", case_id="a", suite="s", target="t", trial=0, stage="agent")
        progress.on_event("case.started", case_id="b", suite="s", target="t", trial=2)
        progress.on_event("case.started", case_id="c", suite="s", target="t", trial=0)
        progress.on_event("case.finished", row=row_of(make_result("c", 0.1, suite="s", target="t")))
        with console.capture() as capture:
            console.print(progress._render())
    shown = capture.get()
    for part in ("a · t", "agent", "b (trial 2) · t", "1/3 tests", "1 FAIL"):
        assert part in shown
    assert "c · t" not in shown
    assert "c" in stream.getvalue()


def test_a_running_test_is_timed_from_its_start_and_comes_before_building(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 0.0
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    console = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=80, height=20)
    with Progress(console, live=True, sentence=lambda event, _keys: event) as progress:
        progress.on_event("run.started", total=1, folder="/runs/1")
        progress.on_event("case.started", case_id="a", suite="s", target="t", trial=0)
        now = 5.0
        progress.on_event("case.stage", case_id="a", suite="s", target="t", trial=0, stage="agent")
        progress.on_event("install.start")
        now = 72.0
        with console.capture() as capture:
            console.print(progress._render())
    assert "a · t  agent  72 s" in capture.get()
    assert "1:12" in capture.get()
    assert "install.start" not in capture.get()


def test_the_live_display_says_what_is_left_and_what_it_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now))
    console = Console(file=io.StringIO(), force_terminal=True, color_system=None, width=120, height=9)
    with Progress(console, live=True) as progress:
        progress.on_event("run.started", total=40, folder="/r", done=[row_of(make_result("old"))])
        for n in range(12):
            progress.on_event("case.started", case_id=f"t{n}", suite="s", target="t", trial=0)
            progress.on_event("case.stage", case_id=f"t{n}", suite="s", target="t", trial=0, stage="agent")
            now += 0.5
        progress.on_event("case.stage", case_id="t11", suite="s", target="t", trial=0, stage="grading")
        now = 160.0
        for n in range(3):
            row = row_of(make_result(f"t{n}", suite="s", target="t", output=make_output(cost_usd=0.5)))
            progress.on_event("case.finished", row=row)
        page = io.StringIO()
        Console(file=page, width=120, height=9).print(progress._render())
    lines = page.getvalue().splitlines()
    assert [line.split()[0] for line in lines[:5]] == ["t3", "t4", "t5", "t6", "t7"]
    assert lines[5].strip() == "now: 8 agent, 1 grading  (4 more tests running)"
    # Three in a minute; the one of the earlier part does not count for the rate.
    assert "4/40 tests  4 pass  1:00  3 a minute  about 12:00 left  $1.5000" in lines[6]
    assert len(lines) == 7


@pytest.mark.parametrize("label", ["\x1b]0;owned\x07", "\u202eevil", "\x9b31m", "a\nb\rc"])
def test_a_terminal_gets_no_sequence_from_a_name(label: str) -> None:
    main, side = pty.openpty()
    with os.fdopen(side, "w") as terminal:
        console = Console(file=terminal, width=80, color_system=None, force_terminal=True)
        with Progress(console, live=False) as progress:
            events(progress, label)
        terminal.flush()
        data = os.read(main, 65536).decode()
    os.close(main)
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(data)
    assert all(line.count("\r") <= 1 for line in data.split("\n"))


@pytest.mark.parametrize(
    ("on_terminal", "environ", "live"),
    [
        (True, {"TERM": "xterm"}, True),
        (True, {"TERM": "dumb"}, False),
        (True, {"TERM": "xterm", "CI": "true"}, False),
        (False, {"TERM": "xterm", "FORCE_COLOR": "1"}, False),
    ],
)
def test_only_a_person_gets_the_live_display(
    on_terminal: bool, environ: dict[str, str], live: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TERM", "CI", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    reader, writer = pty.openpty() if on_terminal else os.pipe()
    with (
        os.fdopen(reader, "rb"),
        os.fdopen(writer, "w") as stream,
        Progress(Console(file=stream)) as progress,
    ):
        assert (progress._live is not None) is live
