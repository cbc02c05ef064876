"""What a run on workers keeps of the promises of one on this machine: tier, recording, secrets, bounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentv_sandbox.engines.table import CHOICE
from tests.cluster.conftest import Cluster, rows_of, suite
from tests.e2e.conftest import Project
from tests.llm.servers import Answer, Asked, Server, stream_of

pytestmark = [pytest.mark.engine, pytest.mark.native, pytest.mark.xdist_group("cluster")]

KEY = "sk-verysecretvalue-4711"
HERS = "a-word-of-the-worker-alone"


def model(server: Server, more: str = "") -> str:
    settings = f"provider: openai, model: m, api_key: '${{{{ K }}}}', base_url: {server.url}{more}"
    return f"targets: [{{name: agent, {settings}}}]\n"


def echo(asked: Asked) -> Answer:
    return stream_of(asked, f"done for {asked.headers['authorization']}")


def test_tier_and_secrets_hold_on_workers_and_bounds_of_each_are_named(
    project: Project, cluster: Cluster
) -> None:
    cluster.start_scheduler()
    cluster.start_worker("other", env={"K": HERS, CHOICE: "docker"})  # where root inside is root outside
    with Server([echo]) as server:
        targets = model(server, ", max_concurrency: 2")
        project.write({"targets.yaml": targets, "s.eval.yaml": suite(["{id: a, input: go}"])})
        start = ("s.eval.yaml", "--cluster", cluster.address)
        refused = project.run(*start, "--require-tier", "userns", env={"K": KEY})
        assert refused.code == 3
        assert "userns is required" in refused.stderr
        assert not project.output.exists()
        done = project.run(*start, env={"K": KEY})
    assert "max_concurrency and requests_per_minute of agent hold for each worker" in done.stdout
    assert done.code == 3
    assert "a secret whose value only worker other has" in done.rows["a"]["error"], done.stdout
    files = [path for path in project.output.rglob("*") if path.is_file()]
    assert not [path for path in files if HERS.encode() in path.read_bytes()]


def test_a_recording_is_replayed_on_workers_without_the_server(project: Project, tmp_path: Path) -> None:
    with Server([lambda asked: stream_of(asked, "done as recorded")]) as server:
        project.write({"targets.yaml": model(server), "s.eval.yaml": suite(["{id: a, input: go}"])})
        assert project.run("s.eval.yaml", "--record", "kept", env={"K": KEY}).code == 0
    project.output.rename(tmp_path / "first")
    done = project.run("s.eval.yaml", "--replay", "kept", "--cluster", "local:1")
    assert done.code == 0, done.stdout + done.stderr
    [row] = rows_of(project.output)
    assert (row["worker"], row["score"]) == ("local-1", 1.0)
