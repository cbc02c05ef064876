"""What commands remove of dead runs, on the fake engine: on a shared one another command may do it meanwhile."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agentv_sandbox.base.scratch import PREFIX as SCRATCH_PREFIX
from agentv_sandbox.building.store import note_use
from agentv_sandbox.cli import app
from agentv_sandbox.cli.inputs import cache_dir
from agentv_sandbox.engines import LABEL_ENV_KEY, LABEL_KEEP, LABEL_OWNER, LABEL_RUN, LABEL_SET
from agentv_sandbox.engines.owner import Owner
from agentv_sandbox.models.container import VolumeSpec
from agentv_sandbox.workspace.projectcopies import LABEL_COPY
from tests.fake_engine import FakeEngine, only_engine
from tests.hostile.harness import answering, fake_engine, write_project

ALIVE = Owner.current()
DEAD = Owner(ALIVE.boot, ALIVE.pid, ALIVE.started + 1)


@pytest.fixture
def engine() -> Iterator[FakeEngine]:
    with closing(FakeEngine()) as made, only_engine(made):
        yield made


def test_clean_leaves_live_runs_alone_unless_asked(engine: FakeEngine) -> None:
    for name, owner in {"live": ALIVE, "dead": DEAD}.items():
        engine.create_volume(name, VolumeSpec(disk=True), labels={LABEL_RUN: name, LABEL_OWNER: str(owner)})
    for args, left in {("clean",): ["live"], ("clean", "--all"): []}.items():
        app(list(args), standalone_mode=False)
        assert [found.name for found in engine.owned({LABEL_RUN: None})] == left


COPY = "agentv-copy-begun"
"""Of a large project: a run was killed while it was made."""


@pytest.mark.parametrize(
    ("args", "left"),
    [(["run", "hostile.eval.yaml", "-o", "out"], set()), (["clean"], set()), (["doctor"], {COPY})],
    ids=["run", "clean", "doctor"],
)
def test_what_dead_runs_left_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], left: set[str]
) -> None:
    write_project(tmp_path, ["t"], graders="\n  - {type: contains, value: done}")
    # Nobody listens there: no packages for an image are fetched.
    (tmp_path / "agentv-sandbox.toml").write_text('[image]\nmirror = "http://127.0.0.1:9/debian"\n')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGENT_KEY", "k")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("AGENTV_SANDBOX_TRUST", "1")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    scratch = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX, dir=tmp_path))
    with fake_engine(commands={"agent": answering({"t": b"done"})}) as engine:
        for name, labels in {"volume": {LABEL_RUN: "dead"}, COPY: {LABEL_COPY: "begun"}}.items():
            engine.create_volume(name, VolumeSpec(disk=True), labels={**labels, LABEL_OWNER: str(DEAD)})
        app(args, standalone_mode=False)
        there = {found.name for label in (LABEL_RUN, LABEL_COPY) for found in engine.owned({label: None})}
    assert there == left
    assert scratch.exists() == (args == ["doctor"])


def test_the_workspace_that_a_live_run_keeps_is_not_removed(tmp_path: Path, engine: FakeEngine) -> None:
    stem = "agentv-0123456789abcdef-01234567"
    kept = f"docker run -v {stem}-workspace:/workspace image"
    row = {"test_id": "t", "score": 0.0, "execution_status": "quality_failure", "workspace_kept": kept}
    (tmp_path / "index.jsonl").write_text(json.dumps(row) + "\n")
    for owner, code, left in ((ALIVE, 3, 2), (DEAD, 0, 0)):
        labels = {LABEL_RUN: "r", LABEL_KEEP: "1", LABEL_SET: stem, LABEL_OWNER: str(owner)}
        for name in ("workspace", "output"):
            engine.remove_volume(f"{stem}-{name}")
            engine.create_volume(f"{stem}-{name}", VolumeSpec(disk=True), labels=labels)
        assert app(["clean", f"{tmp_path}/t"], standalone_mode=False) == code
        assert len(engine.owned({LABEL_RUN: None})) == left


def test_the_workspaces_of_all_trials_of_a_test_are_removed(tmp_path: Path, engine: FakeEngine) -> None:
    stems = [f"agentv-0123456789abcdef-0123456{number}" for number in range(3)]
    row = {"test_id": "t", "score": 0.0, "execution_status": "quality_failure"}
    trials = []
    for number, stem in enumerate(stems, 1):
        own = {**row, "trial": number, "workspace_kept": f"docker run -v {stem}-workspace:/workspace image"}
        folder = tmp_path / f"s/t/trials/{number}"
        folder.mkdir(parents=True)
        (folder / "trial.json").write_text(json.dumps(own))
        trials.append({**row, "trial": number, "artifact_dir": f"s/t/trials/{number}"})
        labels = {LABEL_RUN: "r", LABEL_KEEP: "1", LABEL_SET: stem, LABEL_OWNER: str(DEAD)}
        engine.create_volume(f"{stem}-workspace", VolumeSpec(disk=True), labels=labels)
    shown = {
        **row,
        "workspace_kept": f"docker run -v {stems[0]}-workspace:/workspace image",
        "trials": trials,
    }
    (tmp_path / "index.jsonl").write_text(json.dumps(shown) + "\n")
    assert app(["clean", f"{tmp_path}/t"], standalone_mode=False) == 0
    assert engine.owned({LABEL_RUN: None}) == []


def test_images_go_that_were_not_used_for_the_days_that_were_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: FakeEngine
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for name, days in (("new", 2), ("old", 10)):
        image = engine.commit("", tag=f"agentv-env:{name}", labels={LABEL_ENV_KEY: name})
        note_use(cache_dir(), image)
        used = time.time() - days * 86_400
        os.utime(cache_dir() / "used" / image.removeprefix("sha256:"), (used, used))
    for days, left in (("20", ["new", "old"]), ("5", ["new"]), ("1", [])):
        app(["clean", "--images", "--days", days], standalone_mode=False)
        assert [image.labels[LABEL_ENV_KEY] for image in engine.images(LABEL_ENV_KEY)] == left
