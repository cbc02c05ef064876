"""Tests with Inspect AI itself. They need its package, which the project's own environment does not have: there,
nothing of this folder is collected, and `make test-inspect` runs it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

collect_ignore_glob = ["*"] if find_spec("inspect_ai") is None else []


def pytest_addoption(parser: pytest.Parser) -> None:
    if find_spec("inspect_ai") is not None:
        parser.addoption("--box-engine", choices=("native", "docker"), default="native")


ALONE = """
import importlib.metadata as metadata

import tiktoken

found = metadata.entry_points


def entry_points(**asked):
    if asked.get("group") != "inspect_ai":
        return found(**asked)
    return [each for each in found(**asked) if each.name != "inspect_evals"]


class Words:
    def encode(self, text, **_):
        return text.split()


metadata.entry_points = entry_points
tiktoken.get_encoding = lambda _name: Words()
"""
"""How each Python starts: without tasks of others, which take a minute to import, and without a table of tokens that
Inspect would fetch to count them."""


@pytest.fixture
def alone(tmp_path: Path) -> dict[str, str]:
    """Variables of an Inspect whose only extension is ours."""
    folder = tmp_path / "start"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(ALONE)
    return {**os.environ, "PYTHONPATH": str(folder)}


@pytest.fixture(scope="session", autouse=True)
def kind(request: pytest.FixtureRequest) -> Iterator[str]:
    """The engine of all boxes, as an operator chooses it."""
    kind = str(request.config.getoption("--box-engine"))
    os.environ["AGENTV_SANDBOX_ENGINE"] = kind
    yield kind
