"""Answers that attack the host: numbers without end, nesting, halves of characters."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile.harness import SECRET, run_answers

HUGE = b"1" + b"0" * 400
DIGITS = b"9" * 4300
DEEP = b"[" * 900 + b"]" * 900
ANSWERS = {
    "cost of 400 digits": b'{"text": "done", "cost_usd": %s}' % HUGE,
    "cost of 4,300 digits": b'{"text": "done", "cost_usd": %s}' % DIGITS,
    "cost beyond floats": b'{"text": "done", "cost_usd": 1e400}',
    "cost near the largest float": b'{"text": "done", "cost_usd": 1.7e308}',
    "tokens of 400 digits": b'{"text": "done", "token_usage": {"input": %s, "output": %s}}' % (HUGE, HUGE),
    "tokens of 4,300 digits": b'{"text": "done", "token_usage": {"input": %s, "output": 1}}' % DIGITS,
    "cached of 4,300 digits": b'{"text": "done", "token_usage": {"input": 1, "output": 1, "cached": %s}}'
    % DIGITS,
    "duration of 400 digits": b'{"text": "done", "duration_ms": %s}' % HUGE,
    "duration near the largest float": b'{"text": "done", "duration_ms": 1.7e308}',
    "digits in a tool call": b'{"output": [{"role": "assistant", "content": "done", "tool_calls": '
    b'[{"tool": "Read", "input": {"n": %s}, "duration_ms": %s}]}]}' % (DIGITS, HUGE),
    "digits in a message": b'{"output": [{"role": "assistant", "content": "done", "metadata": %s}]}' % DIGITS,
    "nesting in a tool call": b'{"output": [{"role": "assistant", "content": "done", "tool_calls": '
    b'[{"tool": "Read", "input": %s}]}]}' % DEEP,
    "nesting in metadata": b'{"output": [{"role": "assistant", "content": "done", "metadata": %s}]}' % DEEP,
    "halves of characters": b'{"output": [{"role": "assistant", "content": "done \\ud800", "name": "\\udfff", '
    b'"tool_calls": [{"tool": "\\ud800", "input": {"\\udc00": "\\ud800"}}]}]}',
    "a path of half a character": b'{"output": [{"role": "assistant", "content": [{"type": "file", '
    b'"media_type": "text/\\ud800", "path": "\\ud800"}]}]}',
    "times that are none": b'{"output": [{"role": "assistant", "content": "done", "start_time": %s, '
    b'"end_time": 1e999, "duration_ms": -1e999, "tool_calls": [{"tool": "Read", "start_time": 1e308}]}]}'
    % HUGE,
    "an answer with numbers": b'{"text": "{\\"a\\": {\\"b\\": %s}, \\"c\\": %s}"}' % (DIGITS, HUGE),
}


@pytest.mark.slow
def test_no_number_of_an_agent_shows_a_secret_or_a_traceback(tmp_path: Path) -> None:
    outcome = run_answers(tmp_path, list(ANSWERS.values()))
    outcome.check(len(ANSWERS))
    kinds = {row["execution_status"] for row in outcome.rows.values()}
    assert kinds <= {"ok", "quality_failure"}, [row.get("error") for row in outcome.rows.values()]
    for row in outcome.rows.values():
        assert row.get("token_usage", {}).get("input", 0) <= 10**15
        assert 0 <= row.get("cost_usd", 0) <= 10**9


@pytest.mark.parametrize("name", ["cost of 400 digits", "tokens of 4,300 digits", "duration of 400 digits"])
def test_a_number_out_of_range_is_reported_in_its_row(tmp_path: Path, name: str) -> None:
    outcome = run_answers(tmp_path, [ANSWERS[name]])
    (row,) = outcome.rows.values()
    key = {"cost": "cost_usd", "tokens": "token_usage", "duration": "duration_ms"}[name.split(maxsplit=1)[0]]
    assert any(note.startswith(f"{key} of the answer") for note in row["notes"]), row
    assert SECRET not in str(row)
