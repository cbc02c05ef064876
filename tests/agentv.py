"""AgentV itself, which ``make setup-dev`` installs: the oracle for formats and scores."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path


def agentv_modules() -> Path:
    """The ``node_modules`` that hold AgentV and bun. A test that needs them fails without: none is skipped."""
    home = Path(os.environ.get("AGENTV_HOME") or Path(sys.prefix, "agentv"))
    modules = home / "node_modules"
    assert (modules / "agentv/dist/cli.js").is_file(), (
        f"no AgentV in {home}: run `make setup-dev`, or set AGENTV_HOME to a folder in which"
        " `npm install agentv@4.42.4 bun` was run"
    )
    return modules


def agentv_command() -> list[str]:
    """AgentV's command line, run under bun as its makers do."""
    modules = agentv_modules()
    return [str(modules / ".bin/bun"), str(modules / "agentv/dist/cli.js")]


def agentv_version() -> str:
    """Of the one that is installed."""
    return str(json.loads((agentv_modules() / "agentv/package.json").read_text())["version"])
