"""What every engine states of a container alike. Everything is stated, nothing is left to defaults: an image's own
ENTRYPOINT, ENV, HEALTHCHECK, VOLUME or WORKDIR must not decide anything.
"""

from __future__ import annotations

import os

from agentv_sandbox.models.container import MB, ContainerSpec, VolumeSpec
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
    if spec.role == "builder" or spec.system:
        return dict(spec.env)  # root there can change what is loaded anyway, and may need what its image says
    return dict.fromkeys(LOADING_ENV, "") | dict(spec.env)


_COVER = VolumeSpec(size_bytes=MB, inodes=64)


def memory_folders_of(spec: ContainerSpec) -> dict[str, VolumeSpec]:
    """Memory-backed folders that a container has for itself, by their path: /tmp, and a cover over each volume of
    the image. Programs may be started in /tmp alone."""
    if not (spec.read_only or spec.masked_volumes):
        return {}
    limits = spec.limits
    own = VolumeSpec(size_bytes=limits.tmp_bytes, inodes=limits.tmp_inodes, mode=0o1777)
    return {TMP: own, **dict.fromkeys(spec.masked_volumes, _COVER)}


def tmpfs_options(spec: VolumeSpec) -> list[str]:
    """What the kernel's file system in memory is told of size and mode, without an owner."""
    return [f"size={spec.size_bytes}", f"nr_inodes={spec.inodes}", f"mode={spec.mode:04o}"]


def mount_flags(path: str) -> list[str]:
    """Of the memory-backed folder at ``path``."""
    return ["rw", "nosuid", "nodev", "exec" if path == TMP else "noexec"]


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
