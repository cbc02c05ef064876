"""``examples/tasks`` does what its README says: the oracle passes each task, nobody and a trojan pass none."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import Project

EXAMPLES = Path(__file__).parents[2] / "examples/tasks"
NAMES = sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir())


@pytest.fixture
def project(tmp_path: Path, tool_image: str) -> Project:
    """The examples on an image that is there."""
    shutil.copytree(EXAMPLES, tmp_path / "tasks")
    for dockerfile in (tmp_path / "tasks").rglob("Dockerfile"):
        dockerfile.write_text(dockerfile.read_text().replace("debian:trixie", tool_image))
    return Project(tmp_path, "native")


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.native
@pytest.mark.xdist_group("tasks-examples")
def test_the_oracle_passes_and_nobody_and_a_trojan_do_not(project: Project) -> None:
    assert {row["score"] for row in _rows(project, "tasks", "--target", "oracle").values()} == {1}
    others = Project(project.folder / "tasks", "native")
    judged = _rows(others, "not-by-its-own-word", "--target", "nop", "--target", "trojan")
    assert {target: row["score"] for (_, target), row in judged.items()} == {"nop": 0, "trojan": 0}


def _rows(project: Project, *args: str) -> dict[tuple[str, str], dict[str, Any]]:
    done = project.run(*args)
    assert done.code in (0, 1), done.stderr
    lines = map(json.loads, (done.folder / "index.jsonl").read_text().splitlines())
    return {(row["test_id"], row["target"]): row for row in lines}


def test_there_is_an_example_of_each_part_of_the_format() -> None:
    assert len(NAMES) == 6
    told = (EXAMPLES / "README.md").read_text()
    assert all(f"`{name}`" in told for name in NAMES)
