"""What the policy refuses before any container exists, and what it reads in the engine's answer."""

from __future__ import annotations

import copy
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agentv_sandbox.base.errors import SandboxError
from agentv_sandbox.containers.policy import POLICIES, Role
from agentv_sandbox.containers.sandbox import Sandbox
from agentv_sandbox.engines.bindcheck import SHARED_PREFIX, check_bind
from agentv_sandbox.engines.docker.comparison import differences
from agentv_sandbox.engines.docker.config import container_config
from agentv_sandbox.engines.owner import Owner
from agentv_sandbox.models.container import (
    Command,
    ContainerSpec,
    ExecResult,
    LimitOverrides,
    Limits,
    Mount,
    VolumeSpec,
)
from tests.fake_engine import FakeEngine
from tools import seccomp_profiles

ROOT = Path(__file__).parents[2]


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder as egress makes it."""
    with tempfile.TemporaryDirectory(prefix=SHARED_PREFIX) as name:
        folder = Path(name, "shared")
        folder.mkdir()
        yield folder


def bind(source: object, *, read_only: bool = True) -> Mount:
    return Mount(source=str(source), target="/run/x", kind="bind", read_only=read_only)


def test_the_folder_of_egress_may_be_mounted(shared: Path) -> None:
    check_bind(bind(shared))


@pytest.mark.parametrize(
    "source",
    [
        "/",
        "/etc",
        "/root",
        "/home",
        "/proc",
        "/sys",
        "/dev",
        "/run",
        "/var/run",
        "/var/lib/docker",
        "/var/run/docker.sock",
        "/run/docker.sock",
        "/tmp",
        "/boot",
        "",
        ".",
        "relative/shared",
        "/tmp/agentv-egress-absent/shared",
        "/tmp/../etc/shared",
        "//etc//shared",
        "/tmp/x\0/shared",
    ],
)
def test_host_paths_that_no_container_may_see(source: str) -> None:
    with pytest.raises(SandboxError, match="no container may see"):
        check_bind(bind(source))


def test_links_writable_and_open_folders_are_refused(shared: Path, tmp_path: Path) -> None:
    parent = shared.parent
    (parent / "other").symlink_to("/etc")
    cases = [
        bind(shared, read_only=False),
        bind(parent),
        bind(parent / "other"),
        bind(f"{parent}/./shared"),
        bind(f"{shared}/"),
    ]
    shared.rmdir()
    shared.symlink_to("/etc")
    cases.append(bind(shared))
    for mount in cases:
        with pytest.raises(SandboxError):
            check_bind(mount)
    shared.unlink()
    shared.mkdir()
    parent.chmod(0o755)
    with pytest.raises(SandboxError):
        check_bind(bind(shared))


SPEC = ContainerSpec(
    image="sha256:1",
    argv=("true",),
    role="agent",
    user="200001:200001",
    seccomp='{"defaultAction": "x"}',
    mounts=(Mount(source="v", target="/workspace", read_only=False), Mount(source="s", target="/suite")),
)


def answer(config: dict[str, Any]) -> dict[str, Any]:
    """What an honest engine says of ``config``."""
    mounts = [{"Destination": m["Target"], "RW": not m["ReadOnly"]} for m in config["HostConfig"]["Mounts"]]
    return {
        "HostConfig": copy.deepcopy(config["HostConfig"]),
        "Config": copy.deepcopy(config),
        "Mounts": mounts,
    }


TAMPERED: dict[str, tuple[str, object]] = {
    "Privileged": ("HostConfig.Privileged", True),
    "writable system": ("HostConfig.ReadonlyRootfs", False),
    "network": ("HostConfig.NetworkMode", "bridge"),
    "no limit of processes": ("HostConfig.PidsLimit", 0),
    "no limit of memory": ("HostConfig.Memory", 0),
    "swap": ("HostConfig.MemorySwap", -1),
    "capabilities kept": ("HostConfig.CapDrop", []),
    "capability added": ("HostConfig.CapAdd", ["SYS_ADMIN"]),
    "privileges may grow": ("HostConfig.SecurityOpt", ['seccomp={"defaultAction": "x"}']),
    "other filter": ("HostConfig.SecurityOpt", ["no-new-privileges:true", 'seccomp={"defaultAction": "y"}']),
    "no filter": ("HostConfig.SecurityOpt", ["no-new-privileges:true", "seccomp=unconfined"]),
    "tmpfs without bound": ("HostConfig.Tmpfs", {"/tmp": ""}),
    "core dumps": ("HostConfig.Ulimits", []),
    "device": ("HostConfig.Devices", [{"PathOnHost": "/dev/kvm"}]),
    "GPU": ("HostConfig.DeviceRequests", [{"Driver": "x"}]),
    "bind": ("HostConfig.Binds", ["/:/host"]),
    "host's processes": ("HostConfig.PidMode", "host"),
    "host's IPC": ("HostConfig.IpcMode", "host"),
    "host's cgroups": ("HostConfig.CgroupnsMode", "host"),
    "host's users": ("HostConfig.UsernsMode", "host"),
    "kernel files open": ("HostConfig.MaskedPaths", []),
    "log on disk": ("HostConfig.LogConfig", {"Type": "json-file"}),
    "never killed": ("HostConfig.OomKillDisable", True),
    "group": ("HostConfig.GroupAdd", ["docker"]),
    "root": ("Config.User", "0:0"),
    "entrypoint": ("Config.Entrypoint", ["/evil"]),
    "command": ("Config.Cmd", ["/evil"]),
    "folder": ("Config.WorkingDir", "/proc/self/fd/7"),
    "writable suite": (
        "Mounts",
        [{"Destination": "/workspace", "RW": True}, {"Destination": "/suite", "RW": True}],
    ),
    "image's volume": (
        "Mounts",
        [{"Destination": d, "RW": False} for d in ("/workspace", "/suite", "/data")],
    ),
    "mount missing": ("Mounts", [{"Destination": "/suite", "RW": False}]),
}


def test_an_honest_answer_is_accepted() -> None:
    config = container_config(SPEC, stdin=False)
    assert differences(config, answer(config)) == []


@pytest.mark.parametrize("what", TAMPERED)
def test_an_answer_that_differs_is_seen(what: str) -> None:
    config = container_config(SPEC, stdin=False)
    actual = answer(config)
    path, value = TAMPERED[what]
    *parents, key = path.split(".")
    place = actual
    for parent in parents:
        place = place[parent]
    place[key] = value
    assert differences(config, actual)


def test_every_container_has_a_user_of_its_own() -> None:
    with Sandbox(FakeEngine()) as sandbox:
        users = [sandbox.specs.new_uid() for _ in range(1000)]
    assert len(set(users)) == 1000
    assert all(200_000 <= uid < 265_000 for uid in users)


@pytest.mark.parametrize("role", [role for role in Role if role is not Role.BUILDER])
def test_roles_cannot_be_given_more(role: Role) -> None:
    with Sandbox(FakeEngine()) as sandbox:
        for extra in (
            {"mounts": [Mount(source="v", target="/suite", read_only=False)]},
            {"mounts": [Mount(source="/etc", target="/etc", kind="bind")]},
        ):
            with pytest.raises(SandboxError, match="policy"):
                sandbox.run(role, ["true"], image="x", **extra)


class Recorder(FakeEngine):
    """Keeps what it is asked for instead of running it."""

    def run(self, command: Command) -> ExecResult:
        self.spec = command.spec
        return ExecResult(outcome="exited", exit_code=0, stdout=b"", stderr=b"")


UNTRUSTED = (Role.AGENT, Role.HOOK, Role.PREPROCESSOR, Role.GRADER)


@pytest.mark.parametrize("role", UNTRUSTED)
def test_a_suite_cannot_ask_for_more_than_the_operator_allows(role: Role) -> None:
    """Wherever a limit was written: this is the last place before the engine."""
    greedy = Limits(timeout_s=1e9, memory_bytes=1 << 50, cpus=1e6, pids=1 << 30, stdout_bytes=1 << 40)
    top = LimitOverrides(timeout_s=60, memory_bytes=1 << 30, cpus=0.5, pids=100, output_bytes=1 << 20)
    engine = Recorder()
    with Sandbox(engine, ceiling=top) as sandbox:
        sandbox.run(role, ["true"], image="x", limits=greedy)
    got = engine.spec.limits
    assert (got.timeout_s, got.memory_bytes, got.cpus, got.pids) == (60, 1 << 30, 0.5, 100)
    assert got.stdout_bytes == 1 << 20


@pytest.mark.parametrize("name", Limits.__dataclass_fields__)
@pytest.mark.parametrize("value", [0, -1, float("nan")])
def test_no_limit_can_be_switched_off(name: str, value: float) -> None:
    with Sandbox(FakeEngine()) as sandbox, pytest.raises(SandboxError, match="no limit"):
        sandbox.run(Role.AGENT, ["true"], image="x", limits=replace(Limits(), **{name: value}))


@pytest.mark.parametrize("bounds", [{"size_bytes": 0}, {"inodes": 0}, {"size_bytes": -1}])
def test_no_volume_is_without_bounds(bounds: dict[str, int]) -> None:
    with (
        Sandbox(FakeEngine()) as sandbox,
        pytest.raises(SandboxError, match="no limit"),
        sandbox.volumes(workspace=VolumeSpec(**bounds)),
    ):
        pass


def test_untrusted_roles_hold_nothing() -> None:
    trusted = {Role.COLLECTOR, Role.SEALER, Role.BUILDER, Role.SESSION, Role.USERS_SESSION, Role.RESTORER}
    for role in set(POLICIES) - trusted:
        policy = POLICIES[role]
        assert (policy.root, policy.cap_add, policy.sealed) == (False, (), True)
    assert POLICIES[Role.COLLECTOR].may_write == frozenset()


@pytest.mark.parametrize(("machine", "name"), [("x86_64", "amd64"), ("aarch64", "arm64")])
def test_the_seccomp_profiles_are_what_their_table_says(machine: str, name: str) -> None:
    shipped = json.loads((ROOT / f"agentv_sandbox/data/seccomp/{name}.json").read_text())
    assert shipped == seccomp_profiles.profile(machine)
    assert shipped["defaultAction"] == "SCMP_ACT_ERRNO"
    assert len(shipped["architectures"]) == 1
    builders = json.loads((ROOT / f"agentv_sandbox/data/seccomp/{name}-builder.json").read_text())
    assert builders == seccomp_profiles.profile(machine, builder=True)
    more = {"chroot", "mknodat"} | ({"mknod"} if machine == "x86_64" else set())
    assert freely_allowed(builders) - freely_allowed(shipped) == more


def freely_allowed(profile: dict[str, Any]) -> set[str]:
    """Calls with whatever arguments."""
    return {name for rule in profile["syscalls"] if not rule["args"] for name in rule["names"]}


def test_an_owner_of_another_process_namespace_is_never_taken_for_dead() -> None:
    mine = Owner.current()
    gone = Owner(mine.boot, 2**22 + 1, 1)
    assert gone.dead()
    assert not mine.dead()
    assert not Owner(f"{mine.boot.split('/')[0]}/4026530000", gone.pid, gone.started).dead()
    assert str(os.getpid()) in str(mine)
