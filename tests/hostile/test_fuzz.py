"""Answers and rows by chance: no traceback, no secret, a complete run folder, bounded time.

``AGENTV_FUZZ_EXAMPLES=2000`` makes it long (about ten minutes on an idle machine).
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentv_sandbox.report.page import render
from agentv_sandbox.report.views.junit import junit
from agentv_sandbox.rows.reader import Run
from agentv_sandbox.rows.rowfile import read_rows
from tests.hostile.harness import SECRET, run_answers
from tests.memory import peak_growth
from tests.pagedata import details_of, index_of

EXAMPLES = int(os.environ.get("AGENTV_FUZZ_EXAMPLES", "1"))
LONG = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), database=None)
SECONDS = 120
MEMORY = 200 << 20
"""Beside what the program itself takes."""

NUMBERS = st.sampled_from(
    [
        "0",
        "-0.0",
        "1e308",
        "1e400",
        "-1e999",
        "NaN",
        "-Infinity",
        "1" + "0" * 400,
        "9" * 4300,
        "9" * 5000,
        "1e-400",
    ]
)
TEXTS = st.one_of(
    st.text(max_size=30).map(json.dumps),
    st.sampled_from([r'"\ud800"', r'"\udcff/\u0000"', r'"\u202e\u001b[31m"', '"done"', json.dumps(SECRET)]),
)
SCALARS = NUMBERS | TEXTS | st.sampled_from(["null", "true", "false"]) | st.integers().map(str)


def lists(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(inner, max_size=4).map(lambda items: f"[{','.join(items)}]")


def objects(keys: list[str], inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    named = st.dictionaries(st.sampled_from(keys), inner, max_size=len(keys))
    return named.map(lambda pairs: "{" + ",".join(f"{json.dumps(k)}:{v}" for k, v in pairs.items()) + "}")


NESTED = st.integers(1, 980).map(lambda n: "[" * n + "]" * n)
VALUES = (
    st.recursive(SCALARS, lambda inner: lists(inner) | objects(["a", "b", "c", SECRET], inner), max_leaves=8)
    | NESTED
)
BLOCKS = lists(objects(["type", "text", "path", "media_type", "source"], TEXTS | SCALARS))
CALL_KEYS = ["tool", "input", "output", "id", "status", "start_time", "end_time", "duration_ms"]
MESSAGES = objects(
    ["content", "tool_calls", "name", "metadata", "start_time"],
    TEXTS | BLOCKS | lists(objects(CALL_KEYS, VALUES)) | VALUES,
)
OUTPUT = lists(MESSAGES.map(lambda text: '{"role":"assistant"' + ("," + text[1:] if text != "{}" else "}")))
USAGE = objects(["input", "output", "cached"], VALUES)


def answer(said: str, usage: str, cost: str, duration: str) -> bytes:
    key = "output" if said.startswith("[") else "text"
    return f'{{"{key}":{said},"token_usage":{usage},"cost_usd":{cost},"duration_ms":{duration}}}'.encode()


ANSWERS = st.builds(answer, TEXTS | OUTPUT, USAGE | VALUES, VALUES, VALUES) | st.binary(max_size=200)


@pytest.mark.slow
@given(st.lists(ANSWERS, min_size=6, max_size=6))
@LONG
def test_any_answers_give_a_complete_folder(answers: list[bytes]) -> None:
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, peak_growth() as grown:
        run_answers(Path(folder), answers, files={"key": SECRET.encode()}).check(len(answers))
        assert grown() < MEMORY
    assert time.monotonic() - started < SECONDS


ROW_KEYS = [
    "score",
    "threshold",
    "scores",
    "execution_status",
    "duration_ms",
    "total_duration_ms",
    "cost_usd",
    "token_usage",
    "trial",
    "error",
    "artifact_dir",
    "answer_path",
    "notes",
    "suite",
    "target",
    "timestamp",
]
SCORES = lists(objects(["name", "score", "assertions", "error", "details", "verdict"], VALUES))
ROWS = st.tuples(objects(ROW_KEYS, VALUES | SCORES), st.sampled_from(["1", "0.5", "1e400", "9" * 5000])).map(
    lambda p: (
        '{"test_id":"t","execution_status":"quality_failure","score":'
        + p[1]
        + ("," + p[0][1:] if p[0] != "{}" else "}")
    ).encode()
) | st.binary(max_size=80)


@pytest.mark.slow
@given(st.lists(ROWS, max_size=6))
@settings(LONG, max_examples=40 * EXAMPLES)
def test_any_rows_can_be_read_back(rows: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "index.jsonl").write_bytes(b"\n".join(rows))
        assert junit(read_rows(folder).rows).startswith(b"<?xml")
        page = b"".join(render([Run.open(folder)]))
        assert len(details_of(page)) == len(index_of(page)["rows"])
