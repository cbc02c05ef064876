"""The security policy as it is stated to the engine, role by role."""

from __future__ import annotations

import io
import json
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentv_sandbox.base.deadline import Deadline
from agentv_sandbox.base.errors import Cancelled, SandboxError
from agentv_sandbox.containers.leftovers import sweep
from agentv_sandbox.containers.policy import POLICIES, Role
from agentv_sandbox.containers.sandbox import Sandbox
from agentv_sandbox.containers.volumes import StagedFile, tar_stream
from agentv_sandbox.engines import LABEL_OWNER, LABEL_RUN
from agentv_sandbox.engines.docker.comparison import differences
from agentv_sandbox.engines.docker.config import container_config, volume_options
from agentv_sandbox.engines.owner import Owner
from agentv_sandbox.models.container import ContainerSpec, Mount, VolumeSpec
from tests.fake_engine import FakeEngine

UNTRUSTED = (Role.AGENT, Role.HOOK, Role.PREPROCESSOR, Role.GRADER)


@pytest.fixture
def engine() -> Iterator[FakeEngine]:
    made = FakeEngine()
    yield made
    made.close()


@pytest.fixture
def sandbox(engine: FakeEngine) -> Sandbox:
    return Sandbox(engine, tool_image="tools")


def spec_of(sandbox: Sandbox, engine: FakeEngine, role: Role) -> ContainerSpec:
    sandbox.run(role, ["x"], image="i")
    return engine.runs[-1]


@pytest.mark.parametrize("role", UNTRUSTED)
def test_untrusted_roles_have_nothing(sandbox: Sandbox, engine: FakeEngine, role: Role) -> None:
    spec = spec_of(sandbox, engine, role)
    config = container_config(spec, stdin=False)
    host = config["HostConfig"]
    uid = int(spec.user.split(":")[0])
    assert uid >= 200_000
    assert spec.user == f"{uid}:{uid}"
    assert (host["NetworkMode"], config["NetworkDisabled"]) == ("none", True)
    assert (host["CapDrop"], host["CapAdd"], host["ReadonlyRootfs"]) == (["ALL"], [], True)
    assert host["SecurityOpt"][0] == "no-new-privileges:true"
    profile = json.loads(host["SecurityOpt"][1].removeprefix("seccomp="))
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO"
    assert host["Memory"] == host["MemorySwap"] > 0
    assert 0 < host["PidsLimit"] <= 256
    assert host["LogConfig"] == {"Type": "none", "Config": {}}
    assert "nr_inodes=" in host["Tmpfs"]["/tmp"]
    assert {row["Name"]: row["Hard"] for row in host["Ulimits"]}["core"] == 0
    assert config["Entrypoint"] == []
    assert config["Healthcheck"] == {"Test": ["NONE"]}
    assert config["Cmd"][0] == "/usr/bin/timeout"


def test_every_container_has_a_user_of_its_own(sandbox: Sandbox, engine: FakeEngine) -> None:
    users = [spec_of(sandbox, engine, Role.GRADER).user for _ in range(50)]
    assert len(set(users)) == 50


def test_nothing_of_the_hosts_environment_gets_in(
    sandbox: Sandbox, engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CANARY", "secret-canary")
    config = container_config(spec_of(sandbox, engine, Role.AGENT), stdin=False)
    assert "secret-canary" not in json.dumps(config)
    names = {entry.split("=")[0] for entry in config["Env"] if not entry.endswith("=")}
    ours = {"PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "LANG", "TZ"}
    assert names == {*ours, "PYTHONDONTWRITEBYTECODE", "PYTHONNOUSERSITE"}


@pytest.mark.parametrize(
    ("role", "target"),
    [
        (Role.GRADER, "/workspace"),
        (Role.PREPROCESSOR, "/files"),
        (Role.COLLECTOR, "/workspace"),
        (Role.AGENT, "/suite"),
        (Role.AGENT, "/input"),
        (Role.HOOK, "/suite"),
    ],
)
def test_a_role_writes_only_where_it_may(sandbox: Sandbox, role: Role, target: str) -> None:
    mount = Mount(source="v", target=target, read_only=False)
    with pytest.raises(SandboxError, match="may not write"):
        sandbox.run(role, ["x"], image="i", mounts=[mount])


def test_limits_are_positive_everywhere() -> None:
    for policy in POLICIES.values():
        for name in policy.limits.__dataclass_fields__:
            assert getattr(policy.limits, name) > 0, name


def test_a_cancelled_sandbox_starts_nothing(sandbox: Sandbox, engine: FakeEngine) -> None:
    sandbox.cancel()
    with pytest.raises(Cancelled):
        sandbox.run(Role.AGENT, ["x"], image="i")
    with pytest.raises(Cancelled), sandbox.volumes(workspace=VolumeSpec()):
        pass
    assert engine.runs == []


def test_a_cancelled_sandbox_ends_the_work_of_this_process_too(sandbox: Sandbox) -> None:
    with sandbox:
        assert Deadline().left()
        sandbox.cancel()
        with pytest.raises(Cancelled):
            Deadline().left()
    assert Deadline().left(), "what comes after the run is not its work"


def test_close_and_sweep_remove_only_what_is_theirs(engine: FakeEngine) -> None:
    mine, other = Sandbox(engine, tool_image="t"), Sandbox(engine, tool_image="t")
    dead = str(Owner(boot=Owner.current().boot, pid=2**22 - 1, started=1))
    foreign = str(Owner(boot="another machine", pid=1, started=1))
    for name, run, owner in [
        ("mine", mine.run_id, str(Owner.current())),
        ("other", other.run_id, str(Owner.current())),
        ("dead", "x", dead),
        ("foreign", "y", foreign),
    ]:
        engine.create_volume(name, VolumeSpec(disk=True), labels={LABEL_RUN: run, LABEL_OWNER: owner})
    mine.close()
    assert {o.name for o in engine.owned({LABEL_RUN: None})} == {"other", "dead", "foreign"}
    assert sweep(engine) == 1
    assert {o.name for o in engine.owned({LABEL_RUN: None})} == {"other", "foreign"}


# -- the engine's answer ------------------------------------------------------------------------------


def answer_to(config: dict[str, object]) -> dict[str, object]:
    """What a faithful engine says after a create."""
    host = json.loads(json.dumps(config["HostConfig"]))
    mounts = [
        {"Destination": m["Target"], "RW": not m["ReadOnly"], "Type": m["Type"]} for m in host["Mounts"]
    ]
    return {"Config": {**config, "Entrypoint": None}, "HostConfig": host, "Mounts": mounts}


@pytest.fixture
def config(sandbox: Sandbox, engine: FakeEngine) -> dict[str, object]:
    return container_config(spec_of(sandbox, engine, Role.AGENT), stdin=False)


def test_a_faithful_engine_is_accepted(config: dict[str, object]) -> None:
    assert differences(config, answer_to(config)) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("Memory", 0),
        ("MemorySwap", -1),
        ("PidsLimit", None),
        ("ReadonlyRootfs", False),
        ("Privileged", True),
        ("NetworkMode", "default"),
        ("CapDrop", []),
        ("CapAdd", ["SYS_ADMIN"]),
        ("SecurityOpt", []),
        ("SecurityOpt", ["no-new-privileges:true", "seccomp=unconfined"]),
        ("Ulimits", []),
        ("Tmpfs", {}),
        ("Devices", [{"PathOnHost": "/dev/kvm"}]),
        ("Binds", ["/:/host"]),
        ("PidMode", "host"),
        ("NanoCpus", 0),
        ("IpcMode", "host"),
        ("MaskedPaths", "all of them"),
    ],
)
def test_an_engine_that_does_something_else_is_refused(
    config: dict[str, object], key: str, value: object
) -> None:
    answer = answer_to(config)
    answer["HostConfig"][key] = value  # type: ignore[index]
    assert differences(config, answer), key


def test_a_volume_that_the_image_brings_is_refused(config: dict[str, object]) -> None:
    answer = answer_to(config)
    answer["Mounts"] = [{"Destination": "/data", "RW": True, "Type": "volume"}]
    assert "/data" in " ".join(differences(config, answer))


# -- tar ----------------------------------------------------------------------------------------------


def test_a_tar_has_every_parent_once_and_names_as_bytes(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(b"x" * 3_000_000)
    odd = b"a/\xff\n\xe2\x80\xae"
    staged = [
        StagedFile(path="a/b/c", data=b"1"),
        StagedFile(path=odd, data=b"2", mode=0o755),
        StagedFile(path="a/b", kind="dir"),
        StagedFile(path="l", kind="symlink", link="a/b/c"),
        StagedFile(path="n" * 300, data=tmp_path / "big"),
    ]
    data = io.BytesIO(b"".join(tar_stream(staged, uid=77)))
    with tarfile.open(fileobj=data, errors="surrogateescape") as archive:
        entries = archive.getmembers()
        big = archive.extractfile("n" * 300)
        assert big is not None
        assert big.read() == b"x" * 3_000_000
    assert [os.fsencode(e.name) for e in entries] == [b"a", b"a/b", b"a/b/c", odd, b"a/b", b"l", b"n" * 300]
    assert {e.uid for e in entries} == {77}


def test_volumes_of_an_engine_with_user_namespaces_are_opened_by_their_mode() -> None:
    first, second = (volume_options(VolumeSpec(uid=7), remapped=each)["o"] for each in (False, True))
    assert first == "size=268435456,nr_inodes=20000,mode=0755,uid=7,gid=7,nosuid,nodev"
    assert second == "size=268435456,nr_inodes=20000,mode=0777,nosuid,nodev"
