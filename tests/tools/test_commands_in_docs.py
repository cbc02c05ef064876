"""Every command that README.md and docs/ show was executed by a test, or ``commands.toml`` says why none can."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from agentv_sandbox.engines import ContainerEngine
from tests import forkserver
from tests.defined import functions

ROOT = Path(__file__).parents[2]
TABLE: dict[str, dict[str, dict[str, str]]] = tomllib.loads(
    Path(__file__).with_name("commands.toml").read_text()
)
"""By page and command: ``run``, as it stands, after the preparation that is named; ``by`` the test that runs it;
``why`` it cannot be run here."""
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
SHELLS = ("console", "sh", "bash", "shell")
PROGRAMS = re.compile(
    r"\s*(?:\$ )?(?:agentv-sandbox|docker|pip|uv|npm|make|openssl|dask|ssh|export|curl|sudo|apt\S*) "
)
SUITE = """
name: evals
execution: {target: report-agent}
tests:
  - {id: workbook, criteria: c, input: go, assertions: [{type: contains, value: yes}]}
"""
TARGETS = """
targets:
  - {name: report-agent, provider: cli, command: "sh -c 'echo made > made.txt; echo yes > {OUTPUT_FILE}'"}
"""


def shown(text: str) -> list[tuple[str, list[str]]]:
    """Each command of a page with the lines of output that stand below it."""
    commands = []
    for language, body in FENCE.findall(text):
        if language not in SHELLS:
            continue
        for step in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
            line, *output = step.rstrip("\n").split("\n")
            commands.append((re.sub(r"\s+# .*", "", line).strip(), [said for said in output if said.strip()]))
    return commands


def loose(text: str) -> list[str]:
    """Lines that look like commands in blocks that are not marked as such, or without their prompt."""
    lines = []
    for language, body in FENCE.findall(text):
        if language in SHELLS:
            first = body.split("\n")[0]
            lines += [] if first.startswith("$ ") else [first]
        elif language in ("", "text"):
            lines += [line for line in body.split("\n") if PROGRAMS.match(line)]
    return lines


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_is_run_or_says_why_not(page: Path) -> None:
    name = str(page.relative_to(ROOT))
    assert loose(page.read_text()) == [], "commands stand in a console block, each after `$ `"
    commands = [command for command, _ in shown(page.read_text())]
    assert sorted(set(commands)) == sorted(TABLE.get(name, {})), f"{name} beside tests/tools/commands.toml"


def test_blocks_without_an_entry_are_seen() -> None:
    text = "```console\n$ agentv-sandbox new one   # why\nout\n```\n```\nagentv-sandbox old\n```\n```sh\nls\n```\n"
    assert shown(text) == [("agentv-sandbox new one", ["out"])]
    assert loose(text) == ["agentv-sandbox old", "ls"]


ENTRIES = [(page, command, entry) for page, commands in TABLE.items() for command, entry in commands.items()]


@pytest.mark.parametrize(("page", "command", "entry"), ENTRIES, ids=lambda value: str(value)[:60])
def test_entries_name_tests_that_exist_and_reasons(page: str, command: str, entry: dict[str, str]) -> None:
    assert (ROOT / page).is_file()
    ((kind, value),) = entry.items()
    assert kind in ("run", "by", "why")
    if kind == "by":
        path, _, test = value.partition("::")
        assert test in functions(path), f"{page}: {command}"
    if kind == "why":
        assert len(value.split()) > 4


def sh(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """What a shell makes of ``command``; ours alone, which a shell would hand on as it stands, is forked."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**os.environ, "PATH": path, "COLUMNS": "120"}
    program, *words = shlex.split(command)
    if program == "agentv-sandbox" and not set(command) & set("*?[{~$`|&;<>()#\n"):
        return forkserver.command(*words, cwd=folder, env=env, timeout=300)
    return subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, engine: ContainerEngine) -> Path:
    """A project with one finished run, which pages take copies of."""
    folder = tmp_path_factory.mktemp("commands") / "project"
    for name in ("evals", "suites"):
        (folder / name).mkdir(parents=True)
        (folder / name / "all.eval.yaml").write_text(SUITE)
        (folder / name / "targets.yaml").write_text(TARGETS)
    done = sh("agentv-sandbox run evals --output done", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def like(line: str) -> str:
    """A pattern for a line of output: hashes and numbers may be others, and three dots stand for anything."""
    pattern = re.escape(line.rstrip())
    pattern = re.sub(r"[0-9a-f]{16,}", "[0-9a-f]+", pattern)
    return re.sub(r"\b\d+\b", r"\\d+", pattern).replace(r"\.\.\.", ".*")


@pytest.mark.engine
@pytest.mark.xdist_group("commands")
@pytest.mark.parametrize(
    "page", [page for page, known in TABLE.items() if any("run" in e for e in known.values())]
)
def test_commands_do_what_the_page_shows(page: str, project: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(project, tmp_path / "project", symlinks=True))
    for command, output in shown((ROOT / page).read_text()):
        entry = TABLE[page][command]
        if "run" not in entry:
            continue
        if entry["run"]:
            ready = sh(entry["run"], folder)
            assert ready.returncode == 0, ready.stderr
        done = sh(command, folder)
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        for line in output:
            assert re.search(like(line), done.stdout), f"{command}: {line!r} is not in\n{done.stdout}"
