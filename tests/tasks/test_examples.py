"""``examples/tasks`` does what its README says: the oracle passes each task, nobody and a trojan pass none."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

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
def test_the_oracle_passes_and_nobody_and_a_trojan_do_not(project: Project) -> None:
    done = project.run("tasks", "--target", "oracle", "--target", "nop", "--target", "trojan")
    lines = map(json.loads, (done.folder / "index.jsonl").read_text().splitlines())
    scores = {(row["test_id"].removeprefix("examples/"), row["target"]): row["score"] for row in lines}
    assert {name for (name, target), score in scores.items() if score == 1} == set(NAMES)
    assert {target for (_, target), score in scores.items() if score == 1} == {"oracle"}
    assert len(scores) == 3 * len(NAMES)


def test_there_is_an_example_of_each_part_of_the_format() -> None:
    assert len(NAMES) == 6
    told = (EXAMPLES / "README.md").read_text()
    assert all(f"`{name}`" in told for name in NAMES)
