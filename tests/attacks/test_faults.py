"""Hostile images, an orchestrator that dies, an operator's configuration that leaks, graders under siege."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import docker
import pytest

from agentv_sandbox.base.errors import EngineError
from agentv_sandbox.containers.leftovers import sweep
from agentv_sandbox.containers.policy import Role
from agentv_sandbox.containers.sandbox import Sandbox
from agentv_sandbox.egress.proxy import EgressProxy
from agentv_sandbox.engines import LABEL_OWNER, LABEL_ROLE, LABEL_RUN
from agentv_sandbox.engines.docker.engine import DockerEngine
from agentv_sandbox.engines.owner import Owner
from agentv_sandbox.models.container import Command, ContainerSpec, Limits, VolumeSpec
from agentv_sandbox.models.suite import NetworkPolicy
from tests.attacks.conftest import TWINS

pytestmark = [pytest.mark.engine, pytest.mark.docker]


# -- images ------------------------------------------------------------------------------------------------
@contextmanager
def image_with(naive: docker.DockerClient, base: str, *changes: str) -> Iterator[str]:
    """An image like ``base`` with other settings, as a hostile author may have made it."""
    container = naive.api.create_container(base, ["true"])["Id"]
    try:
        made = naive.api.commit(container, repository="agentv-attack-image", changes=list(changes))["Id"]
    finally:
        naive.api.remove_container(container, force=True)
    try:
        yield made
    finally:
        naive.api.remove_image(made, force=True)


HOSTILE = (
    'ENTRYPOINT ["/bin/sh", "-c", "echo HIJACKED"]',
    'CMD ["echo", "HIJACKED"]',
    "ENV LD_PRELOAD=/tmp/evil.so",
    "ENV PYTHONPATH=/tmp",
    "ENV BASH_ENV=/tmp/evil.sh",
    "ENV PATH=/workspace:/tmp",
    "ENV PYTHONSTARTUP=/tmp/evil.py",
    'HEALTHCHECK --interval=1s CMD ["touch", "/tmp/checked"]',
    "USER 0:0",
    "VOLUME /data",
    "WORKDIR /proc/self/fd/8",
    "EXPOSE 22",
)


def test_an_images_settings_decide_nothing(
    naive: docker.DockerClient, sandbox: Sandbox, tool_image: str
) -> None:
    look = textwrap.dedent("""
        import json, os, time
        time.sleep(1.5)
        try: open('/data/x', 'wb').write(bytes(64 << 20)); filled = True
        except OSError: filled = False
        print(json.dumps([os.getcwd(), os.getuid(), filled, dict(os.environ), os.path.exists('/tmp/checked')]))
    """)
    with image_with(naive, tool_image, *HOSTILE) as image:
        result = sandbox.run(Role.AGENT, ["/usr/bin/python3", "-c", look], image=image, workdir="/")
        assert result.ok, result.stderr
        cwd, uid, filled, env, checked = json.loads(result.stdout)
        assert (cwd, filled, checked) == ("/", False, False)
        assert uid >= 200_000
        assert not {name for name in ("LD_PRELOAD", "PYTHONPATH", "BASH_ENV", "PYTHONSTARTUP") if env[name]}
        assert env["PATH"].startswith("/usr/local/sbin:")


def test_a_container_that_is_not_what_was_asked_for_is_never_started(
    naive: docker.DockerClient, engine: DockerEngine, tool_image: str
) -> None:
    with image_with(naive, tool_image, "VOLUME /data") as image:
        with pytest.raises(EngineError, match="/data is mounted though nobody asked for it"):
            engine.run(Command(spec=ContainerSpec(image=image, argv=("true",), role="agent", user="1:1")))
        assert naive.api.containers(all=True, filters={"ancestor": image}) == []


def test_the_same_settings_take_effect_without_us(naive: docker.DockerClient, tool_image: str) -> None:
    with image_with(naive, tool_image, *HOSTILE[:-2][0:1], "VOLUME /data") as image:
        assert printed(naive, image) == b"HIJACKED\n"
        script = ["-c", "dd if=/dev/zero of=/data/x bs=1M count=32 2>/dev/null && ls /data"]
        assert printed(naive, image, script, entrypoint="/bin/sh", read_only=True) == b"x\n"
    TWINS["fires"] += 2


def printed(naive: docker.DockerClient, image: str, *argv: list[str], **options: Any) -> bytes:
    """What a container printed. The library's own ``run`` leaves the volumes of an image behind."""
    container = naive.containers.run(image, *argv, detach=True, **options)
    try:
        container.wait()
        return bytes(container.logs())
    finally:
        container.remove(v=True)


@pytest.mark.parametrize("workdir", ["/proc/self/fd/7", "/proc/self/fd/8/../../../.."])
def test_a_working_folder_behind_a_leaked_descriptor(workdir: str, sandbox: Sandbox, tool_image: str) -> None:
    """CVE-2024-21626: such a folder must not lead to the host's files."""
    try:
        result = sandbox.run(Role.AGENT, ["/bin/cat", "etc/hostname"], image=tool_image, workdir=workdir)
    except EngineError:
        return
    assert not result.ok
    assert result.stdout == b""


# -- the orchestrator ----------------------------------------------------------------------------------------
ORCHESTRATOR = """
import os, sys, threading
from agentv_sandbox.engines.table import find_engine
from agentv_sandbox.engines.watchdog import Watchdog
from agentv_sandbox.containers.policy import Role
from agentv_sandbox.containers.sandbox import Sandbox
from agentv_sandbox.models.container import VolumeSpec
engine = find_engine(os.environ)
box = Sandbox(engine, tool_image=sys.argv[1])
if sys.argv[2] == 'watched':
    dog = Watchdog(engine.address, box.run_id)
with box.volumes(workspace=VolumeSpec(uid=200001)) as volumes:
    mount = volumes.mount('workspace', '/workspace', read_only=False)
    up = threading.Event()
    def run():
        argv = ['sh', '-c', 'echo up; exec sleep 300']
        print(box.run(Role.AGENT, argv, image=sys.argv[1], mounts=[mount], on_output=lambda _: up.set()))
    threading.Thread(target=run, daemon=True).start()
    up.wait()
    print('run', box.run_id, flush=True)
    sys.stdin.read()
"""


@contextmanager
def orchestrator(tool_image: str, kind: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", ORCHESTRATOR, tool_image, kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        # The log is on the same stream.
        run_id = next(line for line in process.stdout if line.startswith("run ")).split()[1]
        yield process, run_id
    finally:
        process.kill()
        process.wait()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()


@pytest.mark.parametrize("kill", [os.kill, os.killpg], ids=["alone", "with its process group"])
def test_a_killed_orchestrator_leaves_nothing(
    kill: Callable[[int, int], None], engine: DockerEngine, tool_image: str
) -> None:
    with orchestrator(tool_image, "watched") as (process, run_id):
        assert len(engine.owned({LABEL_RUN: run_id})) >= 3
        kill(process.pid, signal.SIGKILL)
        process.wait()
        wait_for(lambda: not engine.owned({LABEL_RUN: run_id}), seconds=15)


def test_the_next_run_removes_what_a_dead_one_left_and_nothing_of_a_live_one(
    engine: DockerEngine, sandbox: Sandbox, tool_image: str
) -> None:
    with orchestrator(tool_image, "alone") as (process, run_id), sandbox.volumes(workspace=VolumeSpec()):
        sweep(engine)
        assert len(engine.owned({LABEL_RUN: run_id})) >= 3  # its process lives
        process.send_signal(signal.SIGKILL)
        process.wait()
        # Nobody watched. Not a moment later: any other run on this machine removes it too when it starts.
        assert engine.owned({LABEL_RUN: run_id})
        TWINS["fires"] += 1
        sweep(engine)
        wait_for(lambda: not engine.owned({LABEL_RUN: run_id}), seconds=10)
        assert engine.owned({LABEL_RUN: sandbox.run_id})


def test_containers_that_people_start_from_our_images_are_theirs(
    engine: DockerEngine, naive: docker.DockerClient, sandbox: Sandbox, tool_image: str
) -> None:
    """They inherit the labels of the image, which was a container of a dead run once."""
    kept = sandbox.run(Role.BUILDER, ["true"], image=tool_image, limits=Limits(), keep=True).container
    image = engine.commit(kept, tag="agentv-attack-image:labels", labels={"some": "label"})
    engine.remove(kept)
    stamped = {
        LABEL_RUN: "1",
        LABEL_ROLE: "builder",
        LABEL_OWNER: str(Owner(Owner.current().boot, 2**22 + 1, 1)),
    }
    containers = [
        naive.containers.run(image, ["sleep", "60"], detach=True, labels=labels) for labels in ({}, stamped)
    ]
    try:
        assert not naive.images.get(image).labels[LABEL_OWNER]
        sweep(engine)
        for container in containers:
            container.reload()
            assert container.status == "running"
    finally:
        for container in containers:
            container.remove(force=True)
        engine.remove_image(image)


# -- the operator ------------------------------------------------------------------------------------------
def test_proxies_of_the_operators_configuration_stay_outside(
    tool_image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Docker's client gives them, password and all, to every container."""
    proxies = {"default": {"httpProxy": "http://user:canary-password@proxy.example:3128"}}
    (tmp_path / "config.json").write_text(json.dumps({"proxies": proxies}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    engine = DockerEngine(os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock"))
    with Sandbox(engine, tool_image=tool_image) as box:
        result = box.run(Role.AGENT, ["env"], image=tool_image)
    assert b"canary-password" not in result.stdout
    naive = docker.from_env()
    assert b"canary-password" in naive.containers.run(tool_image, ["env"], remove=True, use_config_proxy=True)
    naive.close()
    TWINS["fires"] += 1


def test_what_the_engine_knows_holds_no_key(
    naive: docker.DockerClient, sandbox: Sandbox, tool_image: str
) -> None:
    """Whoever may inspect containers, or read the engine's files and events, finds a token."""
    key = os.urandom(16).hex()
    secret = {"MODEL_KEY": {"host": "api.example"}}
    since = int(time.time())
    with EgressProxy({"MODEL_KEY": key}).grant(NetworkPolicy(), secret) as grant:
        run = threading.Thread(
            target=sandbox.run,
            args=(Role.AGENT, grant.wrap(["sleep", "2"])),
            kwargs={"image": tool_image, "mounts": grant.mounts, "env": grant.env},
        )
        run.start()
        known = ""

        def inspected() -> bool:
            nonlocal known
            # The first container of a sandbox is its probe of the limits.
            for row in naive.api.containers(filters={"label": f"{LABEL_RUN}={sandbox.run_id}"}):
                with suppress(docker.errors.NotFound):
                    known += json.dumps(naive.api.inspect_container(row["Id"]))
            return grant.env["MODEL_KEY"] in known

        wait_for(inspected, seconds=20)
        run.join()
    events = json.dumps(list(naive.events(since=since, until=int(time.time()) + 1, decode=True)))
    assert grant.env["MODEL_KEY"] in known
    assert key not in known + events


def test_nothing_is_ever_executed_in_a_container(
    engine: DockerEngine, naive: docker.DockerClient, sandbox: Sandbox, tool_image: str
) -> None:
    since = int(time.time())
    sandbox.run(Role.AGENT, ["true"], image=tool_image)
    with sandbox.volumes(workspace=VolumeSpec()):
        pass
    events = naive.events(since=since, until=int(time.time()) + 1, decode=True)
    mine = [e for e in events if e["Actor"]["Attributes"].get(LABEL_RUN) == sandbox.run_id]
    assert {e["Action"] for e in mine} >= {"create", "start", "destroy"}
    assert not [e for e in mine if e["Action"].startswith("exec")]


# -- graders -------------------------------------------------------------------------------------------------
TRAPS = """
import os
os.makedirs('/workspace/bin'); os.makedirs('/workspace/.local/lib/python3/site-packages')
for name in ('python3', 'sh', 'cat', 'true'):
    with open(f'/workspace/bin/{name}', 'w') as f: f.write('#!/bin/sh\\necho HIJACKED\\n')
    os.chmod(f'/workspace/bin/{name}', 0o755)
for name in ('json.py', 'pytest.py', 'sitecustomize.py', 'usercustomize.py', 'os.py'):
    open(f'/workspace/{name}', 'w').write('print("HIJACKED")')
for name in ('.bashrc', '.bash_profile', '.profile', '.bash_env', '.env'):
    open(f'/workspace/{name}', 'w').write('echo HIJACKED')
open('/workspace/secret-of-the-agent', 'w').write('x'); os.chmod('/workspace/secret-of-the-agent', 0o666)
"""

GRADERS = {
    "I2 module in the workspace": ["python3", "-c", "import json; print(json.dumps(1))"],
    "I3 user site": ["python3", "-c", "import site; assert not site.ENABLE_USER_SITE; print(1)"],
    "I4 sitecustomize": ["python3", "-c", "print(1)"],
    "I5 shell start-up files": ["sh", "-c", "echo 1"],
    "I5 login shell": ["sh", "-lc", "echo 1"],
    "I6 PATH": ["sh", "-c", "command -v python3 >/dev/null; echo 1"],
    "I7 loader": ["sh", "-c", 'test -z "$LD_PRELOAD" && test ! -e /etc/ld.so.preload && echo 1'],
    "I8 frozen copy": ["sh", "-c", "echo x > /workspace/secret-of-the-agent || echo 1"],
}


def test_graders_under_siege(sandbox: Sandbox, tool_image: str) -> None:
    uid = sandbox.specs.new_uid()
    with sandbox.volumes(workspace=VolumeSpec(uid=uid)) as volumes:
        writable = volumes.mount("workspace", "/workspace", read_only=False)
        planted = sandbox.run(
            Role.AGENT, ["python3", "-I", "-c", TRAPS], image=tool_image, uid=uid, mounts=[writable]
        )
        assert planted.ok, planted.stderr
        frozen = volumes.mount("workspace", "/workspace")
        for name, argv in GRADERS.items():
            result = sandbox.run(Role.GRADER, argv, image=tool_image, mounts=[frozen])
            assert (result.stdout, result.exit_code) == (b"1\n", 0), (name, result)


def wait_for(condition: Callable[[], object], *, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen"
        time.sleep(0.1)
