"""What an engine says of itself, read from its own JSON."""

from __future__ import annotations

import re
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
    runtimes = {name: version for name, version in map(_podmans_runtime, components.items()) if name}
    rootless = any("rootless" in option for option in security)
    cgroup_version = int(info.get("CgroupVersion") or 1)
    # Podman without root repeats what the machine could limit. Under version 1 it then ignores every limit; under
    # version 2 it denies a limit of processor time that holds, so that what is in force in a container decides.
    ignores = podman and rootless and cgroup_version == 1
    said = {name: not ignores and info.get(name) for name in ("MemoryLimit", "PidsLimit", "CpuCfsQuota")}
    if podman and not ignores:
        said["CpuCfsQuota"] = said["CpuCfsQuota"] or None
    return EngineInfo(
        kind="podman" if podman else "docker",
        version=version.get("Version", ""),
        api_version=api_version,
        os=info.get("OSType", "linux"),
        architecture=version.get("Arch", "amd64"),
        kernel=info.get("KernelVersion", ""),
        runc=components.get("runc", runtimes.get("runc", "")),
        crun=runtimes.get("crun", ""),
        containerd=components.get("containerd", ""),
        default_runtime=info.get("DefaultRuntime", ""),
        cgroup_version=cgroup_version,
        cgroup_driver=info.get("CgroupDriver") or "",
        memory_limit=said["MemoryLimit"],
        pids_limit=said["PidsLimit"],
        cpu_quota=said["CpuCfsQuota"],
        seccomp=any("seccomp" in option for option in security),
        userns=any("userns" in option for option in security),
        rootless=rootless,
        cpus=info.get("NCPU", 1),
        memory_bytes=info.get("MemTotal", 0),
        warnings=tuple(info.get("Warnings") or ()),
        address=address,
    )


_RUNTIME = re.compile(r"OCI Runtime \((\w+)\)", re.ASCII)


def _podmans_runtime(component: tuple[str, str]) -> tuple[str, str]:
    """Name and version of the runtime in an entry such as ``OCI Runtime (crun)``, ``crun version 1.21\\ncommit: …``."""
    name, version = _RUNTIME.fullmatch(component[0]), re.search(r"version ([0-9][\w.+~-]*)", component[1])
    return (name[1], version[1]) if name and version else ("", "")
