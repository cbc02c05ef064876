"""What steps of Dockerfiles leave in the cache folder: bounded, and removed with the rest."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentv_sandbox.building.dockerfiles.layers import StageLayers
from agentv_sandbox.building.store import clean_images
from tests.fake_engine import FakeEngine


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A cache folder with the layers 0 to 3 of ten bytes, used a second after each other."""
    folder = tmp_path / "layers"
    folder.mkdir()
    for number in range(4):
        path = folder / f"{number}.tar.zst"
        path.write_bytes(b"x" * 10)
        os.utime(path, (number + 1, number + 1))
    return tmp_path


def left(cache: Path) -> list[str]:
    return sorted(path.name.partition(".")[0] for path in (cache / "layers").iterdir())


def test_those_used_longest_ago_go_first(kept: Path) -> None:
    layers = StageLayers(kept / "layers")
    assert layers.has("0")  # is a use
    assert layers.trim(40) == 0
    assert layers.trim(25) == 2
    assert left(kept) == ["0", "3"]
    assert not layers.has("1")


def test_they_are_cleaned_by_age_with_what_registries_answered(kept: Path) -> None:
    (kept / "registry").mkdir()
    for name, age in (("old", 1), ("new", None)):
        (kept / "registry" / name).write_text("{}")
        if age:
            os.utime(kept / "registry" / name, (age, age))
    assert StageLayers(kept / "layers").has("3")
    assert clean_images(FakeEngine(), kept) == []
    assert left(kept) == ["3"]
    assert [path.name for path in (kept / "registry").iterdir()] == ["new"]
