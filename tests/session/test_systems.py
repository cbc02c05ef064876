"""Sessions on a whole system of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

import agentv_sandbox
from agentv_sandbox import SystemSpec
from agentv_sandbox.base.errors import InputError, SandboxError
from agentv_sandbox.engines import ContainerEngine


@pytest.mark.engine
@pytest.mark.native
def test_root_of_a_system_may_change_all_of_it_and_others_nothing(
    engine: ContainerEngine, tool_image: str
) -> None:
    assert tool_image
    with agentv_sandbox.open_session(engine="native", system=SystemSpec(size_bytes=64 << 20)) as session:
        made = session.exec(
            "echo u:x:1000:1000::/home/u:/bin/sh >> /etc/passwd && mkdir -m 700 /app && id -u && pwd"
        )
        assert (made.exit_code, made.stdout) == (0, b"0\n/workspace\n"), made.stderr
        session.put({"/app/data.txt": b"kept"}, user="root")
        other = session.exec("whoami; echo $HOME; grep CapEff /proc/self/status; cat /app/data.txt", user="u")
        assert other.stdout.split() == [b"u", b"/home/u", b"CapEff:", b"0000000000000000"], other.stderr
        assert session.exec("kill -9 1; kill -STOP 1; cat /app/data.txt").stdout == b"kept"
        assert session.exec("mount -t tmpfs none /mnt; mknod /dev/x b 8 0; cat /proc/1/environ").stdout == b""
        full = session.exec("head -c 200M /dev/zero > /var/big")
        assert full.exit_code != 0 and session.exec("rm /var/big; echo there").stdout == b"there\n"


@pytest.mark.engine
@pytest.mark.docker
def test_an_engine_without_systems_opens_none(engine: ContainerEngine, tool_image: str) -> None:
    assert tool_image
    with pytest.raises(SandboxError, match="docker engine gives no agent a system"):
        agentv_sandbox.open_session(engine="docker", system=SystemSpec())


@pytest.mark.engine
@pytest.mark.native
def test_a_system_without_a_workspace_has_paths_of_its_own(
    engine: ContainerEngine, tool_image: str, tmp_path: Path
) -> None:
    assert tool_image
    (tmp_path / "in.txt").write_text("in")
    with agentv_sandbox.open_session(
        engine="native", system=SystemSpec(size_bytes=64 << 20), workspace=False, files={"srv/a": b"a"}
    ) as session:
        assert session.exec("pwd; grep -c workspace /proc/mounts; cat /srv/a").stdout == b"/\n0\na"
        session.put({"/workspace/deep/in.txt": tmp_path / "in.txt", "root/b": b"b"})
        assert session.get("workspace/deep/in.txt") == session.get("/workspace/deep/in.txt") == b"in"
        assert [each.path for each in session.list("/workspace", deep=True)] == ["deep", "deep/in.txt"]
        assert session.exec("rm -rf /workspace /root/b; cat /root/b").exit_code == 1
        for work in (session.diff, session.snapshot):
            with pytest.raises(SandboxError, match="has no workspace"):
                work()
    with pytest.raises(InputError, match="works on a system"):
        agentv_sandbox.open_session(engine="native", workspace=False)
