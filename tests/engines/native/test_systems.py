"""Whole systems of the native engine: what one container leaves the next one finds, within bounds."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentv_sandbox.archives.rooted import Disk, RootedFolder
from agentv_sandbox.base.errors import EngineError, SandboxError
from agentv_sandbox.containers.policy import ON_SYSTEM, Role
from agentv_sandbox.containers.sandbox import Sandbox
from agentv_sandbox.containers.specs import System
from agentv_sandbox.engines import LABEL_OWNER, ContainerEngine
from agentv_sandbox.engines.native.users import User, user_of
from agentv_sandbox.engines.native.volumes import NativeVolumes
from agentv_sandbox.engines.owner import Owner
from agentv_sandbox.models.container import CHANGES, MB, ContainerSpec, ExecResult, VolumeSpec

pytestmark = [pytest.mark.engine, pytest.mark.native]

Shell = Callable[..., ExecResult]


@pytest.fixture
def system(sandbox: Sandbox) -> Iterator[System]:
    with sandbox.system(sandbox.tool_image, size_bytes=64 * MB, inodes=2000) as made:
        yield made


@pytest.fixture
def shell(sandbox: Sandbox, system: System) -> Shell:
    def run(text: str, *, role: Role = Role.AGENT, on: System = system) -> ExecResult:
        return sandbox.run(role, ["sh", "-c", text], image=on.image, system=on)

    return run


def test_what_its_disk_lost_ends_a_container_though_its_program_ended_well(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is lost, tests/engines/native/test_full_disks.py finds out on a disk that is full."""

    def refuse(_volumes: NativeVolumes, name: str) -> None:
        raise EngineError(f"the disk of {name} is full")

    monkeypatch.setattr(NativeVolumes, "refuse_lost", refuse)
    with pytest.raises(EngineError, match="is full"):
        shell("true")


def test_root_keeps_what_it_did_to_the_system(sandbox: Sandbox, shell: Shell) -> None:
    done = shell(
        "id -u; echo own > /etc/motd; rm /usr/bin/tac; mkdir -p /srv/app; chown 1234:99 /srv/app; "
        "chmod 4755 /usr/bin/wc; "
        "mv /etc/ld.so.conf.d /etc/moved; rm -r /usr/share/base-files; mkdir /usr/share/base-files"
    )
    assert (done.stdout, done.stderr, done.exit_code) == (b"0\n", b"", 0)
    found = shell(
        "cat /etc/motd; ls /usr/bin/tac /etc/ld.so.conf.d; stat -c '%u:%g' /srv/app; stat -c %a /usr/bin/wc; "
        "ls /etc/moved /usr/share/base-files; echo $HOME",
        role=Role.HOOK,
    )
    assert found.stdout.decode().split() == [
        *("own", "1234:99", "4755", "/etc/moved:", "libc.conf", "x86_64-linux-gnu.conf"),
        *("/usr/share/base-files:", "/root"),
    ]
    untouched = sandbox.run(Role.AGENT, ["ls", "/usr/bin/tac"], image=sandbox.tool_image)
    assert untouched.ok  # the image is what it was


def test_bytes_and_files_are_bounded_and_the_system_lives_on(shell: Shell) -> None:
    filled = shell("head -c 300M /dev/zero > /var/big; stat -c %s /var/big; rm /var/big; echo on")
    assert b"No space left on device" in filled.stderr
    size, on = filled.stdout.split()
    assert int(size) <= 70 * MB
    assert on == b"on"
    many = shell(
        "cd /var; i=0; while true > f$i; do i=$((i+1)); done 2>/dev/null; echo $i; rm f*; true > one && echo on"
    )
    count, on = many.stdout.split()
    assert 1000 < int(count) < 3000
    assert on == b"on"


def test_a_system_over_another_one_begins_with_its_changes_and_leaves_them_alone(
    sandbox: Sandbox, system: System, shell: Shell
) -> None:
    shell("echo agent > /etc/motd; rm /usr/bin/tac")
    with sandbox.system(system.image, size_bytes=16 * MB, inodes=1000, over=system) as above:
        seen = shell("cat /etc/motd; ls /usr/bin/tac; echo above > /etc/motd; echo new > /etc/new", on=above)
        assert seen.stdout == b"agent\n"
    assert shell("cat /etc/motd; ls /etc/new").stdout == b"agent\n"


def test_collectors_see_what_changed_and_what_there_was(
    sandbox: Sandbox, system: System, shell: Shell
) -> None:
    shell("echo own > /etc/motd; rm /usr/bin/tac")
    changes, base = system.changes, system.base
    seen = sandbox.run(
        Role.COLLECTOR,
        [
            "sh",
            "-c",
            f"cd {changes.target}/{CHANGES}; find . -type c -o -type f; ls {base.target}/usr/bin/tac",
        ],
        image=sandbox.tool_image,
        mounts=[changes, base],
    )
    found = ["./etc/motd", "./usr/bin/tac", f"{base.target}/usr/bin/tac"]
    assert sorted(seen.stdout.decode().split()) == sorted(found)


def test_nothing_can_take_the_place_of_the_kernels_own_files(shell: Shell) -> None:
    seen = shell("rmdir /proc /sys /dev 2>&1; ls -d /proc /sys /dev")
    assert seen.stdout.decode().count("busy") == 3


def test_a_link_where_something_is_mounted_leads_nowhere_else(
    sandbox: Sandbox, system: System, shell: Shell
) -> None:
    shell(
        "rmdir /output /workspace; ln -s /proc/self/cwd/../../../../../../etc /output; ln -s /nowhere /workspace"
    )
    with sandbox.volumes(workspace=VolumeSpec(size_bytes=MB, inodes=100)) as volumes:
        mounts = [volumes.mount("workspace", "/workspace", read_only=False)]
        seen = sandbox.run(
            Role.AGENT, ["sh", "-c", "ls -d /nowhere; pwd"], image=system.image, system=system, mounts=mounts
        )
    assert seen.stdout == b"/nowhere\n/\n"
    assert not Path("/nowhere").exists()


def test_a_file_where_a_folder_is_to_be_mounted_is_named(
    sandbox: Sandbox, system: System, shell: Shell
) -> None:
    shell("rmdir /workspace; : > /workspace")
    with sandbox.volumes(workspace=VolumeSpec(size_bytes=MB, inodes=100)) as volumes:
        mounts = [volumes.mount("workspace", "/workspace")]
        with pytest.raises(EngineError, match=r"cannot be used any more: /workspace is not a folder"):
            sandbox.run(Role.AGENT, ["true"], image=system.image, system=system, mounts=mounts)


def test_nothing_is_left_of_a_system(sandbox: Sandbox) -> None:
    with sandbox.system(sandbox.tool_image, size_bytes=64 * MB, inodes=2000) as made:
        name = made.name
        sandbox.run(Role.AGENT, ["sh", "-c", "head -c 9M /dev/zero > /x"], image=made.image, system=made)
        assert name in Path("/proc/self/mounts").read_text()
    assert name not in Path("/proc/self/mounts").read_text()
    assert name not in {each.name for each in sandbox.engine.owned({})}


def test_an_image_stays_while_a_system_is_a_copy_of_it(sandbox: Sandbox, system: System) -> None:
    with pytest.raises(EngineError, match="is used by a container"):
        sandbox.engine.remove_image(system.image)


def test_only_what_works_or_judges_there_has_a_system_and_one_container_at_a_time(
    sandbox: Sandbox, engine: ContainerEngine, system: System
) -> None:
    for role in set(Role) - set(ON_SYSTEM):
        with pytest.raises(SandboxError, match="has no system of an agent as its root"):
            sandbox.run(role, ["true"], image=system.image, system=system)
    spec = ContainerSpec(
        image=system.image,
        argv=("true",),
        role="agent",
        user="0:0",
        system=system.name,
        labels={LABEL_OWNER: str(Owner.current())},
    )
    first = engine.create(spec)
    try:
        with pytest.raises(EngineError, match="the root of one container at a time"):
            engine.create(spec)
    finally:
        engine.remove(first)


def test_a_system_of_an_image_that_is_not_there_is_refused(engine: ContainerEngine) -> None:
    name = f"none-{secrets.token_hex(4)}"
    with pytest.raises(EngineError, match="there is no image"):
        engine.create_volume(name, VolumeSpec(image="no-such-image"), labels={})


def test_the_users_of_a_system_are_the_images(sandbox: Sandbox) -> None:
    with sandbox.system(sandbox.tool_image, size_bytes=16 * MB, inodes=1000, user="www-data") as made:
        done = sandbox.run(
            Role.AGENT, ["sh", "-c", "id -un; echo $HOME; : > /etc/x"], image=made.image, system=made
        )
    assert done.stdout == b"www-data\n/var/www\n"
    assert b"Permission denied" in done.stderr
    assert sandbox.users.uid(sandbox.tool_image, "www-data") == 33
    assert sandbox.users.uid(sandbox.tool_image, "1000:5") == 1000
    with pytest.raises(SandboxError, match="no user nobody-here"):
        sandbox.users.uid(sandbox.tool_image, "nobody-here")


@pytest.mark.parametrize(
    ("said", "user"),
    [
        ("0:0", User(0, 0)),
        ("app", User(1000, 1001, (50,))),
        ("1000", User(1000, 1001, (50,))),
        ("app:staff", User(1000, 50)),
        ("4000", User(4000, 0)),
        ("4000:7", User(4000, 7)),
    ],
)
def test_a_user_is_looked_up_in_the_images_files(tmp_path: Path, said: str, user: User) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("root:x:0:0::/root:/bin/sh\nbroken\napp:x:1000:1001::/:/bin/sh\n")
    (tmp_path / "etc/group").write_text("staff:x:50:app,other\n:::\n")
    assert user_of(tmp_path, said) == user


@pytest.mark.parametrize("said", ["nobody-here", "app:none", "70000", "huge", "1:70000"])
def test_a_user_that_the_image_cannot_have_is_refused(tmp_path: Path, said: str) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("app:x:1:1::/:/bin/sh\nhuge:x:99999999999999:1::/:/bin/sh\n")
    with pytest.raises(EngineError, match=r"no user|no group|above 65535"):
        user_of(tmp_path, said)


def test_files_of_users_that_are_none_are_no_reason_to_wait(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    os.mkfifo(tmp_path / "etc/passwd")
    (tmp_path / "etc/group").symlink_to("/etc/group")
    with pytest.raises(EngineError, match="no user app"):
        user_of(tmp_path, "app")
    with RootedFolder(tmp_path, Disk("x", "")) as folder:
        assert folder.resolved("/etc") == (["etc"], [])
