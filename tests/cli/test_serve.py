"""``run --serve``: the command's page while it goes on."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.pagedata import blocks, index_of
from tests.started import Started

SUITE = """
name: slow
execution: {target: agent, workers: 1}
tests:
  - {id: one, criteria: c, input: go, assertions: [{type: contains, value: done}]}
  - {id: two, criteria: c, input: go, assertions: [{type: contains, value: done}]}
  - {id: three, criteria: c, input: go, assertions: [{type: contains, value: done}]}
"""
TARGETS = """
targets:
  - name: agent
    provider: cli
    command: "sh -c 'sleep 4; echo from $WORD > left.txt; echo done > {OUTPUT_FILE}'"
    env: [WORD]
"""

WORD = "open-sesame-word"

pytestmark = pytest.mark.engine


def test_a_run_is_served_while_it_goes_on(tmp_path: Path) -> None:
    (tmp_path / "s.eval.yaml").write_text(SUITE)
    (tmp_path / "targets.yaml").write_text(TARGETS)
    argv = [sys.executable, "-u", "-m", "agentv_sandbox", "run", "s.eval.yaml", "--serve", "-o", "out"]
    process = Started(
        argv,
        cwd=tmp_path,
        env={**os.environ, "WORD": WORD},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:\d+/\S+/", process.stdout.readline())
        assert found is not None
        counts, refresh, end = [], "1", time.monotonic() + 300
        while refresh:
            assert time.monotonic() < end
            page = httpx.get(found[0], timeout=60)
            refresh = page.headers.get("refresh", "")
            texts = b"\n".join([page.content, *blocks(page.content).values()])
            assert WORD.encode() not in texts
            counts.append(len(index_of(page.content)["rows"]) if b"application/gzip" in page.content else 0)
            time.sleep(float(refresh or 0))
        out, errors = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, errors
    assert counts == sorted(counts)
    assert {1, 2} & set(counts), counts
    assert counts[-1] == 3
    assert b"from [redacted]" in texts
    assert "RESULT: PASS" in out
    with pytest.raises(httpx.ConnectError):
        httpx.get(found[0])
    assert found[0].split("/")[3] not in (tmp_path / "out" / "run.json").read_text()
