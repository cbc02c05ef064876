"""What is on the wire between a coordinator, the scheduler and workers: no secret, and with TLS nothing to be read."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from tests.cluster.conftest import TARGETS, Cluster, rows_of, suite
from tests.e2e.conftest import Project

pytestmark = [pytest.mark.engine, pytest.mark.native, pytest.mark.xdist_group("cluster")]

KEY = "sk-verysecretvalue-4711"
JUDGE = """
  - name: judge
    provider: openai
    base_url: http://127.0.0.1:9/v1
    model: m
    api_key: "${{ JUDGE_KEY }}"
"""


class Wire:
    """Carries connections to ``port`` and keeps every byte of both directions."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.seen = bytearray()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._to))
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    def _carry(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(1 << 16):
                self.seen += data
                other.sendall(data)
        with suppress(OSError):
            other.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self._listener.close()


@contextmanager
def on_the_wire(cluster: Cluster) -> Iterator[Wire]:
    """Between the scheduler and whoever connects to ``cluster.address`` from now on."""
    scheme, _, port = cluster.address.rpartition(":")
    with closing(Wire(int(port))) as wire:
        cluster.address = f"{scheme}:{wire.port}"
        yield wire


def test_no_secret_is_in_what_travels(project: Project, cluster: Cluster) -> None:
    project.write(
        {
            "targets.yaml": TARGETS + JUDGE,
            ".env": f"JUDGE_KEY={KEY}\n",
            "s.eval.yaml": suite(["{id: a, input: marked-input-of-the-test}"]),
        }
    )
    cluster.start_scheduler()
    with on_the_wire(cluster) as wire:
        cluster.start_worker("lacking")
        run = project.start("s.eval.yaml", "--cluster", cluster.address, "--grader-target", "judge")
        said, _ = run.communicate(timeout=300)
        assert run.returncode == 3, said
        assert "lacking" in said
        assert "is not set" in said
        cluster.start_worker("able", env={"JUDGE_KEY": KEY})
        done = project.run("s.eval.yaml", "--cluster", cluster.address, env={"JUDGE_KEY": KEY})
        assert done.code == 0, done.stdout + done.stderr
        seen = bytes(wire.seen)
    assert b"marked-input-of-the-test" in seen
    assert KEY.encode() not in seen
    assert b"sk-very" not in seen


def certificates(folder: Path) -> Mapping[str, str]:
    """Made by the commands of docs/how-to/cluster.md."""
    guide = (Path(__file__).parents[2] / "docs" / "how-to" / "cluster.md").read_text()
    commands = [line.removeprefix("$ ") for line in guide.splitlines() if line.startswith("$ ")]
    block = "\n".join(line for line in commands if line.startswith("openssl "))
    subprocess.run(["sh", "-ec", block], cwd=folder, check=True, capture_output=True)
    lines = [line for line in commands if line.startswith("export ")]
    pairs = [word.split("=") for line in lines for word in line.removeprefix("export ").split()]
    return {name: str(folder / value) for name, value in pairs}


def test_certificates_made_as_documented_close_the_cluster(
    project: Project, cluster: Cluster, tmp_path: Path
) -> None:
    project.write({"s.eval.yaml": suite(["{id: a, input: marked-input-of-the-test}"])})
    names = certificates(tmp_path)
    cluster.env = {**cluster.env, **names}
    cluster.start_scheduler("--protocol", "tls")
    assert cluster.address.startswith("tls://")
    with on_the_wire(cluster) as wire:
        cluster.start_worker("one")
        done = project.run("s.eval.yaml", "--cluster", cluster.address, env=names)
        assert done.code == 0, done.stdout + done.stderr
        assert [row["worker"] for row in rows_of(project.output)] == ["one"]
        assert len(wire.seen) > 10_000
        assert b"marked-input-of-the-test" not in wire.seen
    other = tmp_path / "other"
    other.mkdir()
    project.output.rename(tmp_path / "before")
    stranger = project.run("s.eval.yaml", "--cluster", cluster.address, env=certificates(other))
    assert stranger.code == 3
    assert "no scheduler of Dask answers" in stranger.stderr
