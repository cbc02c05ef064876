"""The traps of the self-check do go off when git is called on them, as a host that trusts git would."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from agentv_sandbox.machine.selfcheck.gittraps import (
    BASE_COMMIT,
    TRAPS,
    Bait,
    LinkTrap,
    Tree,
)
from tests.attacks.conftest import TWINS

COMMANDS = (
    ["status", "--porcelain"],
    ["diff"],
    ["diff", BASE_COMMIT],
    ["add", "-A"],
    ["diff", BASE_COMMIT, "--submodule=diff"],
)
HARMLESS = {"core.pager", "alias.diff", "link to a host file", "link to a host folder"}
"""git itself stands these; they are planted for programs that do not."""
SECRET = b"SECRET-OF-THE-HOST\n"


@pytest.fixture
def bait(tmp_path: Path) -> Bait:
    host = tmp_path / "host"
    host.mkdir()
    (host / "secret").write_bytes(SECRET)
    for argv in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"],
    ):
        subprocess.run(["git", *argv], cwd=host, env=environment(tmp_path), check=True)
    return Bait(str(tmp_path / "marker"), str(host), SECRET)


@pytest.mark.parametrize("name", TRAPS)
def test_a_trap_goes_off(name: str, bait: Bait, tmp_path: Path) -> None:
    place = tmp_path / "workspace"
    plant(place, TRAPS[name](bait))
    seen = set()
    for argv in COMMANDS:
        try:
            done = subprocess.run(
                ["git", *argv],
                cwd=place,
                env=environment(tmp_path),
                capture_output=True,
                timeout=4,
                check=False,
            )
        except subprocess.TimeoutExpired:
            seen.add("hangs")
            break
        if argv[0] == "diff" and b"AGENT-EDIT" not in done.stdout:
            seen.add("hides the edit")
        if SECRET.strip() in done.stdout:
            seen.add("leaks")
    if Path(bait.marker).exists():
        seen.add("runs code")
    assert bool(seen) != (name in HARMLESS), seen
    TWINS["fires" if seen else "harmless to git"] += 1


def environment(home: Path) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"}


def plant(place: Path, tree: Tree) -> None:
    shutil.rmtree(place, ignore_errors=True)
    for path, node in tree.items():
        file = place / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        if isinstance(node, bytes):
            file.write_bytes(node)
            file.chmod(0o755 if "hooks" in path else 0o644)
        elif isinstance(node, LinkTrap):
            file.symlink_to(node.target)
        else:
            os.mkfifo(file)
