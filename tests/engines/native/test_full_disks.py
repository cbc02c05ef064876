"""A disk that runs full below a whole system, whose programs hear nothing of it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentv_sandbox.base.errors import EngineError
from agentv_sandbox.engines.native import disks
from agentv_sandbox.engines.native.systems import ROOT, end_system, make_system, refuse_lost
from agentv_sandbox.kernel.kernel import unmount
from agentv_sandbox.models.container import MB, VolumeSpec

pytestmark = [pytest.mark.engine, pytest.mark.native]


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """One of 96 MiB."""
    if os.geteuid() != 0 or not disks.can_make():
        pytest.skip("needs root and loop devices")
    folder = tmp_path / "disk"
    folder.mkdir()
    disks.mount_disk(folder, size_bytes=96 * MB, inodes=1000, near=tmp_path)
    yield folder
    unmount(folder)


def test_what_a_full_disk_lost_is_said_though_it_was_written(disk: Path, tmp_path: Path) -> None:
    image, system = tmp_path / "image", tmp_path / "system"
    for folder in (image, system, system / "data"):
        folder.mkdir()
    spec = VolumeSpec(size_bytes=64 * MB, inodes=100, image="x")
    make_system(system, spec, lowers=[image], hidden=(), near=disk, first_id=0)
    try:
        (system / ROOT / "small").write_bytes(os.urandom(MB))
        refuse_lost(system, disk)
        subprocess.run(["fallocate", "-l", str(50 * MB), disk / "others"], check=True)
        (system / ROOT / "large").write_bytes(os.urandom(60 * MB))  # nothing is raised here
        with pytest.raises(EngineError, match=r"is full, so that what was written .* may be lost"):
            refuse_lost(system, disk)
        # Also when there is room again: it was lost for all that.
        (disk / "others").unlink()
        with pytest.raises(EngineError, match="is full"):
            refuse_lost(system, disk)
    finally:
        end_system(system)
        unmount(system / "data")


def test_a_layer_hides_what_was_added_to_an_image_for_mounts(disk: Path, tmp_path: Path) -> None:
    image, system = tmp_path / "image", tmp_path / "system"
    for folder in (image, system, system / "data", image / "output", image / "srv"):
        folder.mkdir(mode=0o711)
    spec = VolumeSpec(size_bytes=16 * MB, inodes=100, image="x")
    make_system(system, spec, lowers=[image], hidden=["output"], near=disk, first_id=0)
    try:
        assert sorted(path.name for path in (system / ROOT).iterdir()) == ["etc", "srv"]
        (system / ROOT / "output").mkdir()
        (system / ROOT / "output/own").touch()
        assert [path.name for path in (system / ROOT / "output").iterdir()] == ["own"]
        assert (image / "output").is_dir() and not (system / "base/output").exists()
    finally:
        end_system(system)
        unmount(system / "data")
