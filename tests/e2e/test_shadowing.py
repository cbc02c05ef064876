"""An agent leaves a module in its workspace that graders would import in place of the standard library's."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import forkserver
from tests.e2e.conftest import Project

TARGETS = 'targets: [{name: agent, provider: cli, command: "sh agent.sh {OUTPUT_FILE}"}]\n'
AGENT = """
echo wrong > /workspace/result.txt
cat > /workspace/json.py <<'E'
import os
os.write(1, b'{"score": 1}')
os._exit(0)
E
printf 'def test_right():\\n    assert 1 + 1 == 2\\n' > /workspace/test_it.py
echo done > "$1"
"""
READ = "import json; raise SystemExit(open('/workspace/result.txt').read() != 'right')"
CHECK = """import subprocess, sys
subprocess.run([sys.executable, "-m", "json.tool"], cwd="/workspace")
"""
SUITE = f"""
name: shadows
execution: {{target: agent}}
workspace: {{env: {{required_python_modules: [pytest]}}}}
tests:
  - id: t
    input: go
    assert:
      - {{name: plain, type: code-grader, command: "cd /workspace && python3 -c \\"{READ}\\""}}
      - {{name: safe, type: code-grader, command: "cd /workspace && python3 -P -c \\"{READ}\\""}}
      - {{name: isolated, type: code-grader, command: "cd /workspace && python3 -I -c \\"{READ}\\""}}
      - {{name: honest, type: code-grader, command: "cd /workspace && python3 -P -m pytest -p no:cacheprovider -q"}}
  - id: path
    input: go
    assert: [{{name: imports, type: code-grader, command: "cd /workspace && python3 -m test_it"}}]
"""


@pytest.mark.engine
def test_the_safe_form_does_not_import_what_the_agent_left(project: Project) -> None:
    project.write({"targets.yaml": TARGETS, "agent.sh": AGENT, "s.eval.yaml": SUITE})
    done = project.run("s.eval.yaml")
    scores = {s["name"]: s["score"] for row in done.rows.values() for s in row["scores"]}
    # The last is why validate warns: nothing of ours keeps a grader from running what it names in the workspace.
    assert scores == {"plain": 0, "safe": 0, "isolated": 0, "honest": 1, "imports": 1}, done.stdout


@pytest.mark.parametrize(
    ("command", "warned"),
    [
        ("cd /workspace && python3 -c 'import json'", True),
        ('cd "$AGENTV_WORKSPACE_PATH" && python -m pytest -q', True),
        ("PYTHONPATH=/workspace python3 graders/ok.py", True),
        ("cat ok | (cd ${AGENTV_WORKSPACE_PATH} && python3 -)", True),
        ("cd /workspace && python3 -P -m pytest", False),
        ("cd /workspace && python3 -Ic 'import json'", False),
        ("cd /workspace && python3 /suite/graders/ok.py", False),
        ("python3 -c 'open(\"/workspace/a\")'", False),
        (["python3", "check.py"], True),
        (["python3", "ok.py"], False),
    ],
)
def test_validate_warns_of_python_started_in_the_workspace(
    tmp_path: Path, command: str | list[str], warned: bool
) -> None:
    grader = json.dumps({"type": "code-grader", "command": command})
    (tmp_path / "s.eval.yaml").write_text(
        f"name: s\nexecution: {{target: agent}}\ntests:\n  - id: t\n    input: go\n    assert:\n      - {grader}\n"
    )
    (tmp_path / "targets.yaml").write_text(TARGETS)
    (tmp_path / "agent.sh").write_text(AGENT)
    (tmp_path / "check.py").write_text(CHECK)
    (tmp_path / "graders").mkdir()
    for name in ("ok.py", "graders/ok.py"):
        (tmp_path / name).write_text(CHECK.replace('"-m"', '"-P", "-m"'))
    done = forkserver.command("validate", "s.eval.yaml", cwd=tmp_path)
    assert ("s.eval.yaml:7" in done.stderr and "python3 -P" in done.stderr) == warned, done.stderr
    assert done.returncode == 0
    assert not (warned and "check.py" in command) or "(check.py:2)" in done.stderr
