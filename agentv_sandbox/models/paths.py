"""Paths that containers see, and folder names that are left out on the way there and back."""

from __future__ import annotations

from agentv_sandbox.base.dataclass import dataclass

WORKSPACE = "/workspace"
"""The agent's working folder, of which changes are collected."""
INPUT = "/input"
"""The job's input files and the prompt, read-only."""
OUTPUT = "/output"
"""The folder in which an agent leaves its answer."""
HOME = "/home/agent"
"""The home folder of a coding agent's program: it outlives its container, but not its test."""
FILES = "/files"
"""Files that the answer names, for preprocessors and graders."""
GRADING = "/grading"
"""What graders read besides, such as the SDK."""
SUITE = "/suite"
"""The suite's project, as it is on the host."""
JUDGING = "/opt/agentv-judging"
"""Programs of ours that come first where a task's own tests judge."""
JUDGING_TOOLS = "/opt/agentv-tools"
"""A system of ours with what scripts that judge would download, read-only."""
SYSTEM = "/system"
"""Where collectors see the parts of an agent's whole system."""


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where an agent finds what is ours."""

    input: str = INPUT
    output: str = OUTPUT
    home: str = HOME
    """The folder of a coding agent's program."""
    users_home: bool = False
    """Whether ``HOME`` is the one of the system's user, and the folder of the program another."""


OF_SUITES = Places()
OF_TASKS = Places(
    input="/run/agentv-task/input",
    output="/run/agentv-task/output",
    home="/run/agentv-task/home",
    users_home=True,
)
"""On the system of a task folder, which has folders of its own at the places of a suite."""
PROGRAMS = "/run/agentv-task/programs"
"""A system of ours with the programs of coding agents and a Python, read-only, beside the task's own."""
TAKEN = "/run/agentv-task/taken"
"""Where files are put that are taken out of such a system."""
MOUNTED = (WORKSPACE, SUITE, INPUT, OUTPUT, HOME, FILES, GRADING)
TOOL_CACHES = frozenset({"__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox", ".hypothesis"})
"""Folders that tools fill beside sources: neither staged with a project nor collected from a workspace."""
VIRTUAL_ENVIRONMENTS = frozenset({".venv", "venv"})
"""Folders of Python's virtual environments, which work only where they were made."""
ETC = "/etc"
HOMES = "/home"
RUN = "/run"
"""What adding a user changes, beside."""
VAR_TMP = "/var/tmp"  # noqa: S108 - of containers
TMP = "/tmp"  # noqa: S108 - a path inside the container
