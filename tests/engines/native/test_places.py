"""Where the native engine keeps what lives, and who may have been there before."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from agentv_sandbox.base.errors import EngineError
from agentv_sandbox.kernel import namespaceentry
from agentv_sandbox.kernel.layout import StateFolders, memory_folder

ROOT = "/dev/vda / ext4 rw 0 0"
SHARED = "tmpfs /dev/shm tmpfs rw,nosuid 0 0"


@pytest.mark.parametrize(
    ("mounts", "folder"),
    [
        ((ROOT, "tmpfs /run tmpfs rw,nosuid 0 0", SHARED), "/run"),
        ((ROOT, SHARED), "/dev/shm"),
        ((ROOT, "overlay /run overlay rw 0 0", SHARED), "/dev/shm"),
        ((ROOT, "tmpfs /run/lock tmpfs rw 0 0", "/dev/vda /dev/shm ext4 rw 0 0"), "/run"),
        ((), "/run"),
    ],
)
def test_what_lives_is_in_memory_where_there_is_a_place(mounts: tuple[str, ...], folder: str) -> None:
    assert memory_folder("\n".join(mounts)) == Path(folder)


def test_a_folder_that_somebody_put_there_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(namespaceentry.FOLDER_VARIABLE, str(tmp_path))
    victim, taken = tmp_path / "victim", tmp_path / "run"
    victim.mkdir(mode=0o755)
    before = victim.stat()
    places = StateFolders(tmp_path / "state", group=7)

    taken.symlink_to(victim)
    with pytest.raises(EngineError, match="somebody else made it"):
        places.make()
    taken.unlink()
    taken.mkdir()
    os.chown(taken, 12345, 12345)
    with pytest.raises(EngineError, match="somebody else made it"):
        places.make()
    taken.rmdir()
    taken.write_text("")
    with pytest.raises(EngineError, match="cannot be made"):
        places.make()

    assert victim.stat() == before
    assert not (tmp_path / "state").exists()
    taken.unlink()
    places.make()
    assert taken.stat().st_gid == 7


def test_folders_in_memory_of_a_state_that_is_gone_are_removed_by_the_next_engine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(namespaceentry.FOLDER_VARIABLE, str(tmp_path))
    gone, used, kept, new = (
        StateFolders(tmp_path / name, group=0) for name in ("gone", "used", "kept", "new")
    )
    for places in (gone, used, kept):
        places.make()
    (used.containers / "still-there").mkdir()
    for places in (gone, used):
        shutil.rmtree(places.root)
    new.make()
    assert [places.run.exists() for places in (gone, used, kept, new)] == [False, True, True, True]
    assert (used.containers / "still-there").is_dir()
    gone.make()
    assert gone.containers.is_dir()
