"""Opens a run folder of ours with AgentV's own commands; fails when one of them does not understand it.

    python tests/report/agentv_readers.py [RUN_FOLDER] [--agentv DIR]

Without RUN_FOLDER one is made from hand-made results. ``--agentv DIR`` is a folder in which
``npm install agentv@4.42.4 bun`` was run; without it that is done in a temporary folder (needs Node and a network),
which is why this is a script and not a test.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from agentv_sandbox.models.suite import Suite
from agentv_sandbox.report.rows import read_rows
from agentv_sandbox.report.runfolder import RunFolder
from tests.report.made_results import make_case, make_error, make_result

PACKAGES = ("agentv@4.42.4", "bun")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run_folder", nargs="?", type=Path)
    parser.add_argument("--agentv", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="agentv-readers-") as temporary:
        home = options.agentv or install(Path(temporary) / "agentv")
        project = Path(temporary) / "project"
        project.mkdir()
        folder = options.run_folder or make_run_folder(project)
        return check(AgentV(home.resolve(), project), folder.resolve())


def install(home: Path) -> Path:
    home.mkdir()
    subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--prefix", home, *PACKAGES], check=True)
    return home


def make_run_folder(project: Path) -> Path:
    suite = Suite(
        path=project / "reports.eval.yaml", project_root=project, search_roots=(project,), name="reports"
    )
    results = (
        make_result("q1"),
        make_result("q2", 0.25),
        make_error("q9"),
        make_result("q1", 0.5, target="other"),
    )
    with RunFolder.create(None, project, matrix=True) as folder:
        for result in results:
            folder.write_case(result, make_case(result.case_id), suite)
        folder.finish()
    return folder.path


class AgentV:
    """AgentV's command line, run under bun as its makers do."""

    def __init__(self, home: Path, cwd: Path) -> None:
        modules = home / "node_modules"
        self._argv = [str(modules / ".bin/bun"), str(modules / "agentv/dist/cli.js")]
        self._cwd = cwd

    def __call__(self, *arguments: str | Path) -> str:
        done = subprocess.run(
            [*self._argv, *map(str, arguments)],
            cwd=self._cwd,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        print(f"{'ok  ' if done.returncode == 0 else 'FAIL'} agentv {' '.join(map(str, arguments))}")
        if done.returncode != 0:
            raise SystemExit(done.stdout + done.stderr)
        return done.stdout


def check(agentv: AgentV, folder: Path) -> int:
    rows = read_rows(folder).rows
    first = rows[0]["test_id"]
    validated = agentv("results", "validate", folder)
    assert "0 error(s)" in validated, validated
    summary = json.loads(agentv("results", "summary", folder))
    assert summary["total"] == len(rows), summary
    failed = json.loads(agentv("results", "failures", folder))
    passing = sum(1 for row in rows if row["execution_status"] == "ok")
    assert len(failed) == len(rows) - passing, failed
    shown = json.loads(agentv("results", "show", folder, "--test-id", first))
    assert shown["test_id"] == first and shown["score"] == rows[0]["score"], shown
    assert f"{len(rows)} tests" in agentv("inspect", "show", folder)
    assert "latency_s" in agentv("inspect", "stats", folder)
    assert first in agentv("inspect", "filter", folder)
    targets = {row["target"] for row in rows}
    compared = agentv("compare", folder) if len(targets) > 1 else agentv("compare", folder, folder)
    assert first in compared
    agentv("results", "export", folder, "--out", folder.parent / f"{folder.name}-export")
    agentv("results", "report", folder, "--out", folder.parent / f"{folder.name}.html")
    print(f"AgentV's readers understand {len(rows)} rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
