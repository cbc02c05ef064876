"""What an engine says of itself, read from its own JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentv_sandbox.models.container import EngineInfo


def engine_info(
    info: Mapping[str, Any], version: Mapping[str, Any], *, api_version: str, address: str
) -> EngineInfo:
    """``info`` and ``version`` are the answers of ``/info`` and ``/version``."""
    components = {c.get("Name", ""): c.get("Version", "") for c in version.get("Components") or ()}
    security = info.get("SecurityOptions") or []
    podman = any("podman" in name.lower() for name in components)
    return EngineInfo(
        kind="podman" if podman else "docker",
        version=version.get("Version", ""),
        api_version=api_version,
        os=info.get("OSType", "linux"),
        architecture=version.get("Arch", "amd64"),
        kernel=info.get("KernelVersion", ""),
        runc=components.get("runc", ""),
        containerd=components.get("containerd", ""),
        default_runtime=info.get("DefaultRuntime", ""),
        cgroup_version=int(info.get("CgroupVersion") or 1),
        cgroup_driver=info.get("CgroupDriver") or "",
        memory_limit=info.get("MemoryLimit"),
        pids_limit=info.get("PidsLimit"),
        cpu_quota=info.get("CpuCfsQuota"),
        seccomp=any("seccomp" in option for option in security),
        userns=any("userns" in option for option in security),
        rootless=any("rootless" in option for option in security),
        cpus=info.get("NCPU", 1),
        memory_bytes=info.get("MemTotal", 0),
        warnings=tuple(info.get("Warnings") or ()),
        address=address,
    )
