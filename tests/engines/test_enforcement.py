"""Engines that accept limits and do not enforce them, as rootless ones without control groups do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer
from structlog.testing import capture_logs

from agentv_sandbox.base.errors import SandboxError
from agentv_sandbox.containers.policy import Role
from agentv_sandbox.containers.sandbox import Sandbox
from agentv_sandbox.engines import ContainerEngine
from agentv_sandbox.engines.docker.engine import DockerEngine
from agentv_sandbox.engines.enforcement import Enforcement, declared, observed
from agentv_sandbox.machine.doctor import engine_checks, limit_checks
from agentv_sandbox.models.container import ContainerSpec, ExecResult, Limits
from tests.fake_engine import FakeEngine, FakeRun, finished, in_force, only_engine

ROOTLESS = "Running in rootless-mode without cgroups. You need to boot the system with systemd."
LIMITS = Limits(memory_bytes=256 << 20, pids=64, cpus=0.5)

LACKING: Mapping[str, dict[str, Any]] = {
    "cgroup driver": {"cgroup_driver": "none"},
    "limit of memory": {"memory_limit": False},
    "limit of processes": {"pids_limit": False},
    "limit of processor time": {"cpu_quota": False},
    "without cgroups": {"warnings": (ROOTLESS,)},
    "No memory limit support": {"warnings": ("WARNING: No memory limit support",)},
    "API 1.40": {"api_version": "1.40"},
}


@pytest.fixture
def fake() -> Iterator[FakeEngine]:
    made = FakeEngine()
    yield made
    made.close()


@pytest.mark.parametrize("what", LACKING)
def test_what_the_engine_says_that_it_lacks_ends_a_run(what: str, fake: FakeEngine) -> None:
    fake.reported = LACKING[what]
    with Sandbox(fake, tool_image="t") as box, pytest.raises(SandboxError, match=what) as caught:
        box.run(Role.AGENT, ["x"], image="i")
    assert "doctor" in caught.value.hint
    assert fake.runs == []
    checks = [check for check in engine_checks(fake.info(), None) if check.state == "failed"]
    assert any(what in check.text for check in checks)


@pytest.mark.slow
def test_run_and_doctor_agree(
    fake: FakeEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only doctor noticed; an agent with 64 processes and 256 MiB allowed had 300 and 600 MiB."""
    suite = tmp_path / "a.eval.yaml"
    suite.write_text("tests: [{id: a, input: x, assertions: [{type: contains, value: x}]}]\n")
    (tmp_path / ".agentv").mkdir()
    (tmp_path / ".agentv" / "targets.yaml").write_text(
        "targets: [{name: default, provider: cli, command: 'echo {OUTPUT_FILE}'}]\n"
    )
    monkeypatch.chdir(tmp_path)
    fake.address = "unix:///nowhere"
    fake.reported = {"cgroup_driver": "none", "memory_limit": False}
    run_command, doctor_command = (import_module(f"agentv_sandbox.cli.{name}") for name in ("run", "doctor"))
    with only_engine(fake):
        for command, paths in ((run_command.run, [suite]), (doctor_command.doctor, [])):
            with pytest.raises(typer.Exit) as caught:
                command(paths)
            assert caught.value.exit_code == 3
            output = capsys.readouterr()
            assert "cgroup driver: none" in "".join([output.out, output.err]).replace("\n", " ")


@pytest.mark.parametrize(
    ("path", "value", "what"),
    [
        ("memory.max", "max", "limit of memory is none"),
        ("memory/memory.limit_in_bytes", "9223372036854771712", "limit of memory is none"),
        ("memory.max", str(257 << 20), "limit of memory"),
        ("pids.max", "max", "limit of processes"),
        ("pids/pids.max", "65", "limit of processes is 65"),
        ("cpu.max", "max 100000", "limit of processor time"),
        ("cpu.max", "60000 100000", "limit of processor time is 0.6"),
        ("cpu/cpu.cfs_quota_us", "-1", "limit of processor time"),
    ],
)
def test_limits_are_read_where_they_hold(path: str, value: str, what: str) -> None:
    text = f"==> /sys/fs/cgroup/{path} <==\n{value}\n\n==> /sys/fs/cgroup/cpu/cpu.cfs_period_us <==\n100000\n"
    (missing,) = observed(finished(text.encode()), LIMITS).missing
    assert what in missing
    assert observed(finished(in_force(LIMITS)), LIMITS) == Enforcement()


def test_both_versions_of_control_groups_are_understood() -> None:
    one = (
        "==> /sys/fs/cgroup/memory/memory.limit_in_bytes <==\n268435456\n\n==> /sys/fs/cgroup/pids/pids.max <==\n64\n\n"
        "==> /sys/fs/cgroup/cpu/cpu.cfs_quota_us <==\n50000\n\n==> /sys/fs/cgroup/cpu/cpu.cfs_period_us <==\n100000\n"
    )
    seen = observed(finished(one.encode()), LIMITS)
    assert seen.missing == ()
    assert set(seen.unknown) == {"the filter of system calls", "no new privileges", "no capabilities"}


@pytest.mark.parametrize("status", [{"Seccomp": "0"}, {"NoNewPrivs": "0"}, {"CapBnd": "00000000a80425fb"}])
def test_a_wall_that_is_not_there_is_seen(status: dict[str, str]) -> None:
    (missing,) = observed(finished(in_force(LIMITS, **status)), LIMITS).missing
    assert next(iter(status)) in missing


def test_unknown_enforcement_is_reported_and_not_assumed(
    fake: FakeEngine,
) -> None:
    fake.reported = {"memory_limit": None}
    assert declared(fake.info()).unknown == ("memory",)
    assert "limits" in [c.name for c in engine_checks(fake.info(), None) if c.state == "warning"]
    fake.commands = {"probe": lambda _run: finished(b"", exit_code=1)}
    with Sandbox(fake, tool_image="t") as box, capture_logs() as said:
        box.run(Role.AGENT, ["x"], image="i")
        assert "memory" in box.check_enforced().unknown
    (line,) = [line for line in said if line["event"] == "limits.unseen"]
    assert "memory" in line["what"]


def test_the_first_container_reads_what_is_in_force_and_only_it(fake: FakeEngine) -> None:
    order: list[str] = []

    def probe(run: FakeRun) -> ExecResult:
        order.append("probe")
        assert run.spec.image == "t"
        return finished(in_force(run.spec.limits))

    def agent(_run: FakeRun) -> ExecResult:
        order.append("agent")
        return finished()

    fake.commands = {"probe": probe, "agent": agent}
    with Sandbox(fake, tool_image="t") as box:
        for _ in range(3):
            box.run(Role.AGENT, ["x"], image="i")
    assert order == ["probe", "agent", "agent", "agent"]


class Limitless(DockerEngine):
    """Accepts every limit, repeats it, and enforces none."""

    def _create(self, spec: ContainerSpec, *, stdin: bool) -> str:
        none = replace(spec.limits, memory_bytes=0, pids=0, cpus=0)
        return super()._create(replace(spec, limits=none), stdin=stdin)


@pytest.mark.engine
@pytest.mark.docker
def test_an_engine_that_lies_is_found_out_by_the_first_container(
    engine: DockerEngine, tool_image: str
) -> None:
    lying = Limitless(engine.address)
    with Sandbox(lying, tool_image=tool_image) as box, pytest.raises(SandboxError) as caught:
        box.run(Role.AGENT, ["true"], image=tool_image)
    for what in ("memory", "processes", "processor time"):
        assert f"limit of {what} is none" in caught.value.message
    with Sandbox(lying, tool_image=tool_image, must_enforce=False) as box:
        assert box.run(Role.AGENT, ["true"], image=tool_image).ok  # what happened before
        failed = {check.name for check in limit_checks(box) if check.state == "failed"}
    assert failed >= {"limits in force", "limit: processes", "limit: memory"}


@pytest.mark.engine
@pytest.mark.usefixtures("each_umask")
def test_an_engine_that_enforces_is_believed_after_a_look(engine: ContainerEngine, tool_image: str) -> None:
    with Sandbox(engine, tool_image=tool_image) as box:
        assert box.check_enforced() == Enforcement()
