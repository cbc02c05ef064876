"""Runs hidden tests with pytest, away from the workspace, and counts them in pytest's own report."""

import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from agentv_sandbox.sdk import define_code_grader

HIDDEN = Path("/suite/hidden")
TESTS = 3


@define_code_grader
def grade(case):
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        subprocess.run(
            [
                sys.executable,
                "-P",
                "-m",
                "pytest",
                "--noconftest",
                "-c",
                HIDDEN / "pytest.ini",
                "--rootdir",
                HIDDEN,
                "-p",
                "no:cacheprovider",
                f"--junitxml={report}",
                HIDDEN / "checks.py",
            ],
            cwd=HIDDEN,
            check=False,
        )
        suite = ElementTree.parse(report).getroot().find("testsuite")
    failed = int(suite.get("failures")) + int(suite.get("errors")) + int(suite.get("skipped"))
    return (int(suite.get("tests")) == TESTS) and failed == 0
