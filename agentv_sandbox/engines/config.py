"""A ``ContainerSpec`` as the engine's JSON; ``comparison.py`` checks what the engine made of it.

Everything is stated, nothing is left to defaults: an image's own ENTRYPOINT, ENV, HEALTHCHECK, VOLUME or
WORKDIR must not decide anything.
"""

from __future__ import annotations

from typing import Any

from agentv_sandbox.models.container import ContainerSpec
from agentv_sandbox.models.paths import TMP

_TIMER_GRACE_S = 15
"""The in-container timer fires this much after the host's: it matters only when the host's is gone."""

# Variables through which an image could change what an interpreter, a linker or a shell loads.
LOADING_ENV = (
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "LD_AUDIT",
    "PYTHONPATH",
    "PYTHONHOME",
    "PYTHONSTARTUP",
    "NODE_OPTIONS",
    "PERL5OPT",
    "PERL5LIB",
    "RUBYOPT",
    "BASH_ENV",
    "ENV",
    "PROMPT_COMMAND",
)


def container_config(spec: ContainerSpec, *, stdin: bool) -> dict[str, Any]:
    """The body of ``POST /containers/create`` (API 1.41 and later)."""
    argv = list(spec.argv)
    if spec.init_timer:
        # As PID 1 it cannot be stopped by what it watches.
        seconds = int(spec.limits.timeout_s + spec.spare_s) + _TIMER_GRACE_S
        argv = ["/usr/bin/timeout", "-s", "KILL", str(seconds), *argv]
    env = dict.fromkeys(LOADING_ENV, "") | dict(spec.env) if spec.role != "builder" else dict(spec.env)
    return {
        "Image": spec.image,
        "Entrypoint": [],
        "Cmd": argv,
        "User": spec.user,
        "WorkingDir": spec.workdir,
        "Env": [f"{key}={value}" for key, value in sorted(env.items())],
        "Hostname": "sandbox",
        "Domainname": "",
        "Tty": False,
        "OpenStdin": stdin,
        "StdinOnce": stdin,
        "AttachStdin": stdin,
        "AttachStdout": True,
        "AttachStderr": True,
        "StopSignal": "SIGKILL",
        "StopTimeout": 0,
        "Healthcheck": {"Test": ["NONE"]},
        "Labels": dict(spec.labels),
        "HostConfig": _host_config(spec),
        # Half the start-up time of a mere NetworkMode none: the engine sets up no network sandbox.
        "NetworkDisabled": True,
    }


def _host_config(spec: ContainerSpec) -> dict[str, Any]:
    limits = spec.limits
    security = ["no-new-privileges:true"] if spec.no_new_privileges else []
    if spec.seccomp is not None:
        security.append(f"seccomp={spec.seccomp}")
    tmpfs = {TMP: f"rw,nosuid,nodev,exec,size={limits.tmp_bytes},nr_inodes={limits.tmp_inodes},mode=1777"}
    for path in spec.masked_volumes:
        tmpfs[path] = "rw,nosuid,nodev,noexec,size=1048576,nr_inodes=64,mode=0755"
    host: dict[str, Any] = {
        "NetworkMode": "none",
        "Privileged": False,
        "ReadonlyRootfs": spec.read_only,
        "CapDrop": ["ALL"],
        "CapAdd": list(spec.cap_add),
        "SecurityOpt": security,
        "PidsLimit": limits.pids,
        "Memory": limits.memory_bytes,
        "MemorySwap": limits.memory_bytes,
        "OomKillDisable": False,
        "OomScoreAdj": 500,
        "NanoCpus": int(limits.cpus * 1e9),
        "ShmSize": limits.shm_bytes,
        "IpcMode": "private",
        "PidMode": "",
        "CgroupnsMode": "private",
        "Init": False,
        "AutoRemove": False,
        "RestartPolicy": {"Name": "no"},
        "Ulimits": [
            {"Name": "nofile", "Soft": limits.open_files, "Hard": limits.open_files},
            {"Name": "core", "Soft": 0, "Hard": 0},
            {"Name": "fsize", "Soft": limits.file_bytes, "Hard": limits.file_bytes},
        ],
        "Mounts": [
            {
                "Type": mount.kind,
                "Source": mount.source,
                "Target": mount.target,
                "ReadOnly": mount.read_only,
                **({"VolumeOptions": {"NoCopy": True}} if mount.kind == "volume" else {}),
            }
            for mount in spec.mounts
        ],
        "LogConfig": {"Type": "none", "Config": {}},
        "Tmpfs": tmpfs if spec.read_only or spec.masked_volumes else {},
    }
    if spec.runtime is not None:
        host["Runtime"] = spec.runtime
    return host
