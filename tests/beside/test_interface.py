"""docs/reference/agentv.md names all that AgentV knows, and nothing that it does not know."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agents.recording import FOLDER, read
from tests.agentv import agentv_version

from .interface import RECORDED, schema_keys

PAGE = (Path(__file__).parents[2] / "docs/reference/agentv.md").read_text()
STATES = ("same", "differs", "refused", "ignored", "missing")
SECTIONS = {
    "Commands and options": "commands",
    "Eval files": "eval file",
    "Configuration": "config file",
    "Kinds of targets": "providers",
    "Settings of targets": "settings",
    "Environment": "variables",
}


def rows(section: str) -> Iterator[tuple[list[str], str, str]]:
    """Names, state and reason of each row of a section."""
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `"):
            yield re.findall(r"`([^`]+)`", cells[0]), cells[1], cells[2]


def named(section: str) -> list[str]:
    names: list[str] = []
    for found, *_ in rows(section):
        if section != "Commands and options":
            names += found
        else:
            names += [f"{found[0]} {option}" for option in found[1:]] or [found[0]]
    return names


def known(section: str) -> set[str]:
    recorded = read(FOLDER / f"{RECORDED.name}.json")
    assert recorded["agentv"] == agentv_version(), "another AgentV: `make recordings NAMES=agentv-interface`"
    names = recorded[SECTIONS[section]]
    if not isinstance(names, dict):
        return set(names)
    return {f"{command} {option}" for command, options in names.items() for option in options} | {
        command for command, options in names.items() if not options
    }


@pytest.mark.parametrize("section", SECTIONS)
def test_nothing_is_missing_and_nothing_is_made_up(section: str) -> None:
    names = named(section)
    assert sorted(names) == sorted(known(section))


@pytest.mark.parametrize("section", SECTIONS)
def test_every_row_says_what_and_why(section: str) -> None:
    for names, state, reason in rows(section):
        assert state in STATES, names
        assert reason or state == "same", names


@pytest.mark.parametrize("name", ["eval", "config"])
def test_the_schemas_are_those_that_were_recorded(name: str) -> None:
    assert schema_keys(name) == read(FOLDER / f"{RECORDED.name}.json")[f"{name} file"]
