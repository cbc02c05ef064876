"""A whole run over an agent that leaves traps and floods: it goes on, and the results say what was left out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.forkserver import python_bytes

AGENT = r"""
import json, os, sys
if sys.argv[1] == "hostile":
    os.mkfifo("report.csv"); os.symlink("/etc/passwd", "passwd")
    with open("huge", "wb") as f: f.truncate(250 << 20)
    with open("huge2", "wb") as f: f.truncate(250 << 20)
    with open("huge3", "wb") as f: f.truncate(250 << 20)
    for name in (b"new\nline\x1b[31m", b"caf\xe9", "\u202etxt.exe".encode(), "u\u2028v".encode(), b'"q\\', b"-rf"):
        open(name, "wb").write(b"odd\n")
    os.makedirs(".git/hooks"); open(".git/hooks/post-checkout", "w").write("#!/bin/sh\ntouch /tmp/FIRED")
    for n in range(300): os.mkdir("d"); os.chdir("d")
paths = ["report.csv", "passwd", "huge3", "/etc/shadow", "../../x", "caf\udce9", "new\nline\x1b[31m"]
blocks = [{"type": "text", "text": "done"}]
if sys.argv[1] == "hostile":
    blocks += [{"type": "file", "media_type": "text/plain", "path": p} for p in paths]
open(sys.argv[2], "w").write(json.dumps({"output": [{"role": "assistant", "content": blocks}]}))
"""
SUITE = """
name: odd
tests:
  - id: hostile
    criteria: c
    input: hostile
    assertions: [{type: llm-grader, name: reads, prompt: "{{ output }}"}, {type: contains, value: done}]
  - id: honest
    criteria: c
    input: honest
    assertions: [{type: contains, value: done}]
"""
TARGETS = """
targets:
  - {name: default, provider: cli, command: "python3 agent.py {EVAL_ID} {OUTPUT_FILE}", grader_target: canned}
  - {name: canned, provider: mock, response: '{"score": 1.0, "assertions": [{"text": "t", "passed": true}]}'}
"""


@pytest.mark.engine
def test_the_run_goes_on(tmp_path: Path) -> None:
    files = {"odd.eval.yaml": SUITE, ".agentv/targets.yaml": TARGETS, "agent.py": AGENT}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    out = tmp_path / "out"
    argv = ("-m", "agentv_sandbox", "run", "odd.eval.yaml", "-o", str(out))
    done = python_bytes(*argv, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr.decode()
    assert b"\x1b[31m" not in done.stdout + done.stderr
    rows = (out / "index.jsonl").read_bytes().split(b"\n")
    assert [len(json.loads(row)["scores"]) for row in sorted(rows[:-1], key=len)] == [1, 2]
    case = out / "odd" / "hostile"
    skipped: dict[str, str] = {
        row["path"]: row["reason"] for row in json.loads((case / "skipped.json").read_text())
    }
    assert skipped["report.csv"] == "named pipe"
    assert skipped["passwd"] == "symbolic link to /etc/passwd, not followed"
    assert skipped[".git"] == "folder .git is not collected"
    assert skipped["huge3"].startswith("all files together are more than")
    assert "deeper than 128 folders" in skipped.values()
    notes = _notes(case)
    assert {note["path"]: note["reason"] for note in notes} == {
        "report.csv": "not collected: named pipe",
        "passwd": "not collected: a symbolic link",
        "huge3": f"not collected: {skipped['huge3']}",
        "/etc/shadow": "not collected: outside of the workspace",
        "../../x": "not collected: outside of the workspace",
    }
    names = {entry["path"] for entry in json.loads((case / "manifest.json").read_text())["workspace"]}
    assert {"new\\x0aline\\x1b[31m", "caf\\xe9", "\\u202etxt.exe", "u\\u2028v", '"q\\', "-rf"} <= names
    everything = list(out.rglob("*"))
    assert not any(".git" in path.parts[len(out.parts) :] for path in everything)
    assert all(path.is_dir() or not path.stat().st_mode & 0o111 for path in everything)
    assert sum(path.stat().st_blocks * 512 for path in everything) < 100 << 20
    assert not any(b"root:x:0:0" in path.read_bytes() for path in everything if path.is_file())


def _notes(case: Path) -> list[dict[str, Any]]:
    graders = json.loads((case / "grading.json").read_text())["graders"]
    (notes,) = [g["details"]["preprocessing"] for g in graders if g["name"] == "reads"]
    return list(notes)
