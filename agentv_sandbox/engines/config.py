"""A ``ContainerSpec`` as Docker's JSON, and what of it every engine states alike; ``comparison.py`` checks what the
engine made of it.

Everything is stated, nothing is left to defaults: an image's own ENTRYPOINT, ENV, HEALTHCHECK, VOLUME or
WORKDIR must not decide anything.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agentv_sandbox.models.container import ContainerSpec, Mount
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


def command_of(spec: ContainerSpec) -> list[str]:
    """The command that becomes PID 1."""
    if not spec.init_timer:
        return list(spec.argv)
    # As PID 1 it cannot be stopped by what it watches.
    seconds = int(spec.limits.timeout_s + spec.spare_s) + _TIMER_GRACE_S
    return ["/usr/bin/timeout", "-s", "KILL", str(seconds), *spec.argv]


def environment_of(spec: ContainerSpec) -> dict[str, str]:
    """All variables that are stated; an image's own stand where none of these has their name."""
    return dict.fromkeys(LOADING_ENV, "") | dict(spec.env) if spec.role != "builder" else dict(spec.env)


def tmpfs_of(spec: ContainerSpec) -> dict[str, str]:
    """Mount options of the memory-backed folders by their path: /tmp, and a cover over each volume of the image."""
    if not (spec.read_only or spec.masked_volumes):
        return {}
    limits = spec.limits
    covers = dict.fromkeys(spec.masked_volumes, "rw,nosuid,nodev,noexec,size=1048576,nr_inodes=64,mode=0755")
    own = f"rw,nosuid,nodev,exec,size={limits.tmp_bytes},nr_inodes={limits.tmp_inodes},mode=1777"
    return {TMP: own, **covers}


def resource_limits_of(spec: ContainerSpec) -> dict[str, int]:
    """Limits that each process inherits, by their name."""
    return {"nofile": spec.limits.open_files, "core": 0, "fsize": spec.limits.file_bytes}


# Files of the kernel's that every container would share: what says something of the machine or changes it (Docker's
# and Podman's lists together), and what says what another container does or shows a number that it can set.
MASKED_PATHS = (
    "/proc/acpi",
    "/proc/asound",
    "/proc/buddyinfo",
    "/proc/diskstats",
    "/proc/fs",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/locks",
    "/proc/pagetypeinfo",
    "/proc/pressure",
    "/proc/sched_debug",
    "/proc/schedstat",
    "/proc/scsi",
    "/proc/slabinfo",
    "/proc/softirqs",
    "/proc/sys/fs/aio-nr",
    "/proc/sys/fs/dentry-state",
    "/proc/sys/fs/file-nr",
    "/proc/sys/fs/inode-nr",
    "/proc/sys/fs/inode-state",
    "/proc/sys/fs/quota",
    "/proc/sys/kernel/pty/nr",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/vmallocinfo",
    "/proc/vmstat",
    "/proc/zoneinfo",
    "/sys/dev/block",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
    "/sys/fs/btrfs",
    "/sys/fs/ext4",
    "/sys/fs/xfs",
    "/sys/kernel/debug",
    "/sys/kernel/slab",
    "/sys/kernel/tracing",
    *(f"/sys/devices/system/cpu/cpu{n}/thermal_throttle" for n in range(os.cpu_count() or 1)),
)
READ_ONLY_PATHS = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")

HOSTNAME = "sandbox"
OOM_SCORE = 500
"""The kernel ends containers before anything else of the machine."""


def container_config(
    spec: ContainerSpec, *, stdin: bool, views: Mapping[str, ViewVolume] = {}
) -> dict[str, Any]:
    """The body of ``POST /containers/create`` (API 1.41 and later). ``views``: by the path that each is seen at."""
    env = environment_of(spec)
    return {
        "Image": spec.image,
        "Entrypoint": [],
        "Cmd": command_of(spec),
        "User": spec.user,
        "WorkingDir": spec.workdir,
        "Env": [f"{key}={value}" for key, value in sorted(env.items())],
        "Hostname": HOSTNAME,
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
        "HostConfig": _host_config(spec, views),
        # Half the start-up time of a mere NetworkMode none: the engine sets up no network sandbox.
        "NetworkDisabled": True,
    }


@dataclass(frozen=True, kw_only=True)
class ViewVolume:
    """A volume of one container's own, which shows others read-only. It holds nothing: the engine makes it with the
    container, and mounts it for as long as that runs."""

    name: str
    lower: tuple[str, str]
    """Folders on the engine's machine; the files of the first hide those of the second."""
    labels: Mapping[str, str]


def _mount(mount: Mount, views: Mapping[str, ViewVolume]) -> dict[str, Any]:
    source = mount.source
    options: dict[str, Any] = {"NoCopy": True}
    if mount.kind == "view":
        view = views[mount.target]
        layers = {"type": "overlay", "device": "overlay", "o": f"lowerdir={':'.join(view.lower)}"}
        source = view.name
        options |= {"Labels": dict(view.labels), "DriverConfig": {"Name": "local", "Options": layers}}
    return {
        "Type": "bind" if mount.kind == "bind" else "volume",
        "Source": source,
        "Target": mount.target,
        "ReadOnly": mount.read_only,
        **({} if mount.kind == "bind" else {"VolumeOptions": options}),
    }


def _host_config(spec: ContainerSpec, views: Mapping[str, ViewVolume]) -> dict[str, Any]:
    limits = spec.limits
    security = ["no-new-privileges:true"] if spec.no_new_privileges else []
    if spec.seccomp is not None:
        security.append(f"seccomp={spec.seccomp}")
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
        "OomScoreAdj": OOM_SCORE,
        "NanoCpus": int(limits.cpus * 1e9),
        "ShmSize": limits.shm_bytes,
        "IpcMode": "private",
        "PidMode": "",
        "CgroupnsMode": "private",
        "Init": False,
        "AutoRemove": False,
        "RestartPolicy": {"Name": "no"},
        "Ulimits": [
            {"Name": name, "Soft": value, "Hard": value} for name, value in resource_limits_of(spec).items()
        ],
        "Mounts": [_mount(mount, views) for mount in spec.mounts],
        "MaskedPaths": list(MASKED_PATHS),
        "ReadonlyPaths": list(READ_ONLY_PATHS),
        "LogConfig": {"Type": "none", "Config": {}},
        "Tmpfs": tmpfs_of(spec),
    }
    if spec.runtime is not None:
        host["Runtime"] = spec.runtime
    return host
