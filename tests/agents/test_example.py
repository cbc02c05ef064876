"""``examples/real-agents`` as it is: two coding agents and a model have one task; what models say is scripted."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pagedata import index_of

from .harness import ENV, KEY
from .model_server import ModelServer, do, say

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("agents-too")]

EXAMPLE = Path(__file__).parents[2] / "examples/real-agents"
REPAIR = """python3 - <<'EOF'
text = open("prices.py").read()
open("prices.py", "w").write(text.replace("prices[1:]", "prices").replace("result * 1 + tax", "result * (1 + tax)"))
EOF"""
SAID = "The first price was left out, and the tax was added once instead of in proportion."


def repaired(source: str) -> str:
    return source.replace("prices[1:]", "prices").replace("result * 1 + tax", "result * (1 + tax)")


def test_the_example_compares_two_agents_and_a_model(tmp_path: Path, tool_image: str) -> None:
    folder = tmp_path / "real-agents"
    shutil.copytree(EXAMPLE, folder)
    suite, targets = folder / "bugfix.eval.yaml", folder / "targets.yaml"
    # The versions that tests here know, in the image that they share; and the model's server.
    suite.write_text(
        suite.read_text().replace("{template: template}", f"\n  template: template\n  env:{ENV}")
    )
    text, count = re.subn(r"(provider: \w+),", r"\1, base_url: '${{ MODELS }}',", targets.read_text())
    targets.write_text(text)
    assert count == 3
    agent = [
        say("I look.", do("run", command="cat prices.py")),
        say("", do("run", command=REPAIR)),
        say(SAID),
    ]
    source = (folder / "template/prices.py").read_text()
    with ModelServer({"": agent}, key=KEY, plain=f"{SAID}\n\n```python\n{repaired(source)}```\n") as server:
        env = {**os.environ, "MODELS": server.url, "ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY}
        argv = [sys.executable, "-m", "agentv_sandbox", "run", str(folder), "-o", str(tmp_path / "out")]
        done = subprocess.run(
            argv, cwd=folder, env=env, capture_output=True, text=True, timeout=400, check=False
        )
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    rows = {r["target"]: r for r in map(json.loads, (tmp_path / "out/index.jsonl").read_text().splitlines())}
    assert {name: row["score"] for name, row in rows.items()} == dict.fromkeys(
        ("claude", "codex", "model"), 1.0
    )
    for name in ("claude", "codex"):
        manifest = json.loads((tmp_path / "out" / rows[name]["manifest_path"]).read_text())
        assert [(f["path"], f["rule"]) for f in manifest["files"]] == [("prices.py", "outputs")]
    lines = [line.split() for line in done.stdout.splitlines()]
    for name in rows:
        [line] = [line for line in lines if line[:3] == [name, "1/1", "1.00"]]
        assert line[4] == ("1,050" if name == "model" else "3,150")
    usages = [row["tokens"] for row in index_of(tmp_path / "out/report.html")["rows"]]
    assert sorted(usages) == [1050, 3150, 3150]
    first = next(seen for seen in server.seen if seen.script == "" and "tools" not in seen.body)
    assert "prices[1:]" in json.dumps(first.body)  # inlined for the model
