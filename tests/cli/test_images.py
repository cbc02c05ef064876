"""``images`` as a newcomer sees it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.forkserver import command

pytestmark = pytest.mark.engine


def test_images_of_others_are_listed_as_never_used(tmp_path: Path, tool_image: str) -> None:
    env = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    done = command("images", cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()  # other tests may have kept snapshots, which have a line of their own
    first = next(
        n for n, line in enumerate(lines) if line.split() == ["image", "for", "size", "last", "used"]
    )
    del lines[: first + 1]
    rows = [line.split() for line in lines[: lines.index("")]]
    assert rows and all(row[-1] == "never" for row in rows)
    assert {"suite", "base"} <= {row[1] for row in rows}
    assert "suite: what a suite's tests run in" in done.stdout
