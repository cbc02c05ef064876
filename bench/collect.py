"""Collecting and diffing against `docker cp` plus `git diff --no-index`, on the same volume.

    python bench/collect.py [--rounds N] [--json FILE]

Two workspaces: 10,000 files of which 50 changed, and one artifact of 200 MB. Prints seconds (median) and the
ratio; below 1.0 ours is faster.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from agentv_sandbox.building.ensure import ensure_image
from agentv_sandbox.cli.inputs import cache_dir
from agentv_sandbox.containers.blobs import BlobStore
from agentv_sandbox.containers.policy import Role
from agentv_sandbox.containers.sandbox import Sandbox
from agentv_sandbox.containers.volumes import StagedFile
from agentv_sandbox.engines.table import find_engine
from agentv_sandbox.images.needs import tool_plan
from agentv_sandbox.models.case import AgentResponse
from agentv_sandbox.models.container import VolumeSpec
from agentv_sandbox.models.image import ImageConfig
from agentv_sandbox.workspace.collect import Baseline, assemble, gather

MB = 1 << 20
CHANGES = """if 1:
    import random
    rng = random.Random(2)
    for n in rng.sample(range(10_000), 50):
        with open(f"src/p{n // 100:02}/m{n:04}.py", "a") as f: f.write("changed = True\\n")
"""
ARTIFACT = """if 1:
    import random
    rng = random.Random(3)
    with open("model.bin", "wb") as f:
        for _ in range(200): f.write(rng.randbytes(1 << 20))
"""


def source_tree() -> list[StagedFile]:
    """10,000 files of 1 to 4 KB of text."""
    rng = random.Random(1)
    words = [f"name_{n}" for n in range(500)]
    files = []
    for n in range(10_000):
        lines = (f"{rng.choice(words)} = {rng.choice(words)}({n})\n" for _ in range(rng.randint(40, 150)))
        files.append(StagedFile(path=f"src/p{n // 100:02}/m{n:04}.py", data="".join(lines).encode()))
    return files


def seconds(rounds: int, *works: Callable[[Path], None]) -> list[float]:
    """Median of each, taken in turns; the folder that a work fills is made and removed outside of the clock."""
    found: list[list[float]] = [[] for _ in works]
    for _ in range(rounds):
        for work, times in zip(works, found, strict=True):
            folder = Path(tempfile.mkdtemp(prefix="bench-collect-"))
            began = time.monotonic()
            work(folder)
            times.append(time.monotonic() - began)
            shutil.rmtree(folder)
    return [statistics.median(times) for times in found]


def measure(sandbox: Sandbox, staged: list[StagedFile], change: str, rounds: int) -> dict[str, float]:
    uid = sandbox.specs.new_uid()
    size = 512 * MB
    with (
        sandbox.volumes(workspace=VolumeSpec(uid=uid, size_bytes=size)) as volumes,
        tempfile.TemporaryDirectory() as base,
    ):
        volumes.put("workspace", staged, uid=uid)
        for file in staged:
            path = Path(base, "workspace", os.fsdecode(file.path))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(file.data if isinstance(file.data, bytes) else b"")
        Path(base, "workspace").mkdir(exist_ok=True)
        writable = volumes.mount("workspace", "/workspace", read_only=False)
        done = sandbox.run(
            Role.AGENT,
            ["python3", "-I", "-c", change],
            image=sandbox.tool_image,
            mounts=[writable],
            workdir="/workspace",
            uid=uid,
        )
        assert done.ok, done
        (holder,) = sandbox._holders
        baseline = Baseline.staged(staged)

        def ours(folder: Path) -> None:
            mounts = [volumes.mount("workspace", "/workspace")]
            store = BlobStore(folder)
            found = gather(sandbox, mounts=mounts, known=baseline.entries, store=store)
            output = assemble(found, baseline=baseline, store=store, response=AgentResponse())
            assert output.changes is not None
            assert output.changes.files

        def theirs(folder: Path) -> None:
            subprocess.run(
                ["docker", "cp", f"{holder}:/volumes/workspace", str(folder)], check=True, capture_output=True
            )
            command = ["git", "diff", "--no-index", "--no-color", f"{base}/workspace", f"{folder}/workspace"]
            diff = subprocess.run(
                command, capture_output=True, check=False, env={**os.environ, "GIT_DIR": "/nonexistent"}
            )
            assert diff.returncode == 1, diff.stderr

        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        mine, other = seconds(rounds, ours, theirs)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        return {
            "ours_s": round(mine, 3),
            "docker_cp_git_diff_s": round(other, 3),
            "ratio": round(mine / other, 2),
            "memory_growth_mb": round(grown, 1),
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    engine = find_engine(os.environ)
    image = ensure_image(
        engine,
        tool_plan(ImageConfig()),
        cache_dir=cache_dir(),
        on_event=lambda _event, _keys: None,
        cancelled=lambda: False,
    )
    with Sandbox(engine, tool_image=image.id) as sandbox:
        results = {
            "10,000 files, 50 changed": measure(sandbox, source_tree(), CHANGES, options.rounds),
            "one artifact of 200 MB": measure(sandbox, [], ARTIFACT, options.rounds),
        }
    for name, row in results.items():
        print(
            f"{name:28} ours {row['ours_s']:6.2f} s   docker cp + git diff {row['docker_cp_git_diff_s']:6.2f} s"
            f"   ratio {row['ratio']:.2f}   memory +{row['memory_growth_mb']:.0f} MB"
        )
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
