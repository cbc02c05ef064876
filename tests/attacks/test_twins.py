"""The same attacks without our controls: they must work there, or the tests above show nothing."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from agentv_sandbox.machine.selfcheck import resources
from agentv_sandbox.machine.selfcheck.surface import CANARY, probe_script, probe_settings
from tests.attacks.conftest import TWINS

pytestmark = [pytest.mark.engine, pytest.mark.docker]

# Capabilities by number in /proc/self/status; those that this machine does not have cannot be given away.
CAPABILITIES = {
    "DAC_READ_SEARCH": 2,
    "NET_ADMIN": 12,
    "NET_RAW": 13,
    "SYS_MODULE": 16,
    "SYS_RAWIO": 17,
    "SYS_CHROOT": 18,
    "SYS_PTRACE": 19,
    "SYS_PACCT": 20,
    "SYS_ADMIN": 21,
    "SYS_BOOT": 22,
    "SYS_NICE": 23,
    "SYS_TIME": 25,
    "MKNOD": 27,
    "SYSLOG": 34,
}


def weakest(tmp_path: Path) -> dict[str, Any]:
    """Root with everything that an option of the engine can give. The script changes nothing with it."""
    folder = tmp_path / CANARY
    folder.mkdir()
    (folder / "secret").write_text(CANARY)
    status = Path("/proc/self/status").read_text()
    bounding = int(next(line.split()[1] for line in status.splitlines() if line.startswith("CapBnd")), 16)
    return {
        "cap_add": [name for name, bit in CAPABILITIES.items() if bounding >> bit & 1],
        "security_opt": ["seccomp=unconfined"],
        "network_mode": "host",
        "pid_mode": "host",
        "ipc_mode": "host",
        "CgroupnsMode": "host",
        "MaskedPaths": [],
        "ReadonlyPaths": [],
        "environment": {"SECRET": CANARY},
        "devices": ["/dev/kmsg"],
        "tmpfs": {"/tmp": "rw"},
        "binds": [f"{folder}:/workspace", "/sys:/sys", "/var/run/docker.sock:/var/run/docker.sock"],
        "ulimits": [
            docker.types.Ulimit(name="core", soft=-1, hard=-1),
            docker.types.Ulimit(name="nofile", soft=20000, hard=20000),
        ],
    }


def probed(naive: docker.DockerClient, image: str, **options: Any) -> list[dict[str, Any]]:
    settings = probe_settings(writable=[], inodes=20_000, open_files=1024)
    argv = ["python3", "-I", "-c", probe_script().decode(), json.dumps({**settings, "env": ["PATH"]})]
    return [json.loads(line) for line in output_of(naive, image, argv, **options).splitlines()]


def test_the_surface_without_protection(naive: docker.DockerClient, tool_image: str, tmp_path: Path) -> None:
    """As root with everything, and as a plain user of a plain container."""
    root = probed(naive, tool_image, **weakest(tmp_path))
    plain = probed(naive, tool_image, user="10001:10001")
    fired = {(row["id"], row["name"]) for row in (*root, *plain) if row["fired"]}
    silent = {
        (row["id"], row["name"]): row["detail"] for row in root if (row["id"], row["name"]) not in fired
    }
    TWINS["fires"] += len(fired)
    TWINS["blocked by the kernel"] += len(silent)
    absent = (
        "ENOSYS",
        "EAFNOSUPPORT",
        "EPROTONOSUPPORT",
        "ESOCKTNOSUPPORT",
        "ENOENT",
        "EROFS",
        "ENODEV",
        "ENXIO",
        "EACCES",
        "EPERM",
        "ENETUNREACH",
        "SIGSEGV",
        "Name or service",
        "name resolution",
        "no such",
    )
    assert not {name: detail for name, detail in silent.items() if not any(word in detail for word in absent)}
    must = {
        "E1",
        "E2",
        "E3",
        "E4",
        "E5",
        "E6",
        "E8",
        "E9",
        "E12",
        "E13",
        "E14",
        "E15",
        "E16",
        "E17",
        "E18",
        "E19",
        "E20",
        "E21",
        "E22",
        "E23",
        "E26",
        "I17",
        "N1",
        "N2",
        "N10",
        "R7",
        "R13",
        "R19",
        "R25",
        "S1",
    }
    assert must <= {case for case, _ in fired}, must - {case for case, _ in fired}


def printed(naive: docker.DockerClient, image: str, code: str, **options: Any) -> str:
    return output_of(naive, image, ["python3", "-I", "-c", code], **options)


def output_of(
    naive: docker.DockerClient,
    image: str,
    argv: list[str],
    *,
    user: str = "",
    environment: Any = None,
    **options: Any,
) -> str:
    """What ``argv`` prints. Options in capitals are the engine's own words, which its client does not know."""
    raw = {name: options.pop(name) for name in list(options) if name[0].isupper()}
    host = {**naive.api.create_host_config(**options), **raw}
    made = naive.api.create_container(image, argv, user=user, environment=environment, host_config=host)["Id"]
    try:
        naive.api.start(made)
        naive.api.wait(made, timeout=60)
        return naive.api.logs(made, stderr=False).decode()
    finally:
        naive.api.remove_container(made, force=True)


SMALL_FILL = resources.FILL.replace("range(256)", "range(40)")

# id -> (script, options of the container, what its output shows when the attack worked)
PLAIN: dict[str, tuple[str, dict[str, Any], Callable[[str], bool]]] = {
    "R1": (resources.FORK_BOMB.replace("1000", "300"), {}, lambda out: int(out) == 300),
    "R2": ("held = [bytearray(1 << 20) for _ in range(200)]; print('held')", {}, lambda out: "held" in out),
    "R6": (SMALL_FILL.format(path="/x/fill"), {"tmpfs": {"/x": ""}}, lambda out: out.endswith(" 0\n")),
    "R7": (
        resources.MANY_FILES.format(path="/x"),
        {"tmpfs": {"/x": "size=64m"}},
        lambda out: out.endswith(" 0\n"),
    ),
    "R8": (SMALL_FILL.format(path="/usr/fill"), {}, lambda out: out.endswith(" 0\n")),
    "R27": (resources.FORK_BOMB.replace("1000", "300"), {"pids_limit": 0}, lambda out: int(out) == 300),
}


@pytest.mark.parametrize("case", PLAIN)
def test_exhaustion_without_limits(case: str, naive: docker.DockerClient, tool_image: str) -> None:
    code, options, worked = PLAIN[case]
    assert worked(printed(naive, tool_image, code, **options))
    TWINS["fires"] += 1


@pytest.fixture
def running(naive: docker.DockerClient, tool_image: str) -> Iterator[Callable[..., Any]]:
    """Start a container that stays; gone at the end of the test."""
    started = []

    def start(argv: list[str], **options: Any) -> Any:
        started.append(naive.containers.run(tool_image, argv, detach=True, **options))
        return started[-1]

    yield start
    for container in started:
        container.remove(force=True)


def test_a_signal_does_not_end_a_program(running: Callable[..., Any]) -> None:
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); print('on', flush=True); time.sleep(30)"
    container = running(["python3", "-c", code])
    wait_for(lambda: b"on" in container.logs())
    container.kill(signal="SIGTERM")
    time.sleep(0.5)
    container.reload()
    assert container.status == "running"
    TWINS["fires"] += 1


def test_a_timer_inside_can_be_stopped(running: Callable[..., Any]) -> None:
    code = "kill -STOP $PPID; sleep 3; echo survived"
    container = running(["timeout", "1", "sh", "-c", code], init=True)
    wait_for(lambda: b"survived" in container.logs())
    TWINS["fires"] += 1


def test_a_daemon_outlives_the_command_that_was_executed(running: Callable[..., Any]) -> None:
    container = running(["sleep", "30"])
    container.exec_run(["python3", "-c", "import os, time\nif os.fork() == 0: time.sleep(77)"], detach=True)

    def orphans() -> list[list[str]]:
        """What the finished command left: the container's first process has adopted it."""
        shown = container.top()
        pid, parent = (shown["Titles"].index(title) for title in ("PID", "PPID"))
        [first] = [row[pid] for row in shown["Processes"] if row[-1] == "sleep 30"]
        return [row for row in shown["Processes"] if row[parent] == first]

    wait_for(orphans)
    assert len(container.top()["Processes"]) == 2
    TWINS["fires"] += 1


def test_one_user_for_all_starves_the_next(naive: docker.DockerClient, tool_image: str, running: Any) -> None:
    limit = int(Path("/proc/sys/fs/inotify/max_user_instances").read_text())
    if limit > 4096:
        TWINS["blocked by the kernel"] += 1
        return
    script = resources.INOTIFY.replace("made < 100", f"made < {limit}")
    container = running(["python3", "-c", script.format(hold=20)], user="10001:10001")
    wait_for(lambda: container.logs().strip())
    assert int(printed(naive, tool_image, script.format(hold=0), user="10001:10001")) < 100
    TWINS["fires"] += 1


def test_the_host_is_reached_through_the_bridge(naive: docker.DockerClient, tool_image: str) -> None:
    """By the default network and by one that is called internal."""
    with socket.create_server(("0.0.0.0", 0)) as server:
        port = server.getsockname()[1]
        threading.Thread(
            target=lambda: [server.accept()[0].sendall(b"inside") for _ in range(2)], daemon=True
        ).start()
        code = (
            "import socket, struct, sys\n"
            "rows = [line.split() for line in open('/proc/net/fib_trie')]\n"
            "own = socket.gethostbyname(socket.gethostname())\n"
            "gateway = own.rpartition('.')[0] + '.1'\n"
            f"print(socket.create_connection((gateway, {port}), 3).recv(9))"
        )
        assert "inside" in printed(naive, tool_image, code)
        network = naive.networks.create("agentv-attack-internal", internal=True)
        try:
            assert "inside" in printed(naive, tool_image, code, network_mode=network.name)
        finally:
            network.remove()
    TWINS["fires"] += 2


def test_the_engines_log_fills_the_hosts_disk(
    running: Callable[..., Any], naive: docker.DockerClient
) -> None:
    code = "import os\nfor _ in range(80): os.write(1, bytes(65536))"
    container = running(["python3", "-c", code], log_config=docker.types.LogConfig(type="json-file"))
    container.wait()
    size = sum(len(chunk) for chunk in container.logs(stream=True))
    assert size >= 80 * 65536
    TWINS["fires"] += 1


def wait_for(condition: Callable[[], object], seconds: float = 15) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "did not happen"
        time.sleep(0.05)
