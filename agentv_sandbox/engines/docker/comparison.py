"""What an engine made of a container's configuration, compared with what was requested of it.

A limit that the engine ignores is not a limit, so a container with a difference is not started. Each check reads
the request (``HostConfig``, or the whole body for the container's own settings) and the engine's answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from agentv_sandbox.engines.docker.dialect import DOCKER, MASK, EngineDialect

_Config = Mapping[str, Any]

_EQUAL = (
    "NetworkMode",
    "Privileged",
    "ReadonlyRootfs",
    "PidsLimit",
    "Memory",
    "MemorySwap",
    "NanoCpus",
    "ShmSize",
    "IpcMode",
    "CgroupnsMode",
    "Runtime",
    "Tmpfs",
)
"""Host settings that must be exactly as requested. Engines leave some of them out when they are empty."""

_UNWANTED = (
    "Binds",
    "Devices",
    "DeviceRequests",
    "DeviceCgroupRules",
    "GroupAdd",
    "VolumesFrom",
    "Links",
    "PidMode",
    "UTSMode",
    "PortBindings",
    "PublishAllPorts",
    "OomKillDisable",
    "Sysctls",
    "StorageOpt",
)
"""Never requested: they come from the engine's own configuration, a plug-in or a proxy in front of its socket."""


def differences(config: _Config, actual: _Config, dialect: EngineDialect = DOCKER) -> list[str]:
    """Describe what the engine will not enforce as requested; empty when it will enforce everything."""
    requested, answered = config["HostConfig"], _as_docker(actual.get("HostConfig") or {}, config, dialect)
    of_host = [text for check in _HOST_CHECKS for text in check(requested, answered)]
    if dialect.says_capabilities:
        of_host = [*of_host, *_bounding_set(requested, actual)]
    return [*of_host, *_mounts(requested, actual), *_command(config, actual.get("Config") or {})]


def _as_docker(answered: _Config, config: _Config, dialect: EngineDialect) -> _Config:
    """The engine's answer without what it says otherwise than Docker where nothing is wrong."""
    as_docker = dict(answered)
    for key, values in dialect.also_answers.items():
        if answered.get(key) in values:
            as_docker[key] = ""
    if dialect.masks_by_option:
        masks = [option for option in config["HostConfig"]["SecurityOpt"] if option.startswith(f"{MASK}=")]
        as_docker["SecurityOpt"] = [*(answered.get("SecurityOpt") or ()), *masks]
    if dialect.volumes_first:  # it lists all mounts here
        wanted = {(mount["Source"], mount["Target"]) for mount in config["HostConfig"]["Mounts"]}
        binds = answered.get("Binds") or ()
        as_docker["Binds"] = [bind for bind in binds if tuple(bind.split(":")[:2]) not in wanted]
    if dialect.says_capabilities:
        as_docker["CapDrop"] = ["ALL"]
    return as_docker


def _bounding_set(requested: _Config, actual: _Config) -> Iterator[str]:
    """Capabilities by name, from an engine whose other answer lists what it took away of its own choice alone."""
    have, want = actual.get("BoundingCaps"), set(requested["CapAdd"])
    if have is None or _capability_names(have) != want:
        yield f"capabilities are {have}, asked for {sorted(want)}"


def _equal_settings(requested: _Config, answered: _Config) -> Iterator[str]:
    for key in _EQUAL:
        want, have = requested.get(key), answered.get(key)
        if key in requested and have != want and (have or want):
            yield f"{key} is {have!r}, asked for {want!r}"


def _capabilities(requested: _Config, answered: _Config) -> Iterator[str]:
    dropped = _capability_names(answered.get("CapDrop"))
    if "ALL" not in dropped:
        yield f"CapDrop is {sorted(dropped)}, asked for ALL"
    added = _capability_names(answered.get("CapAdd"))
    if added - set(requested["CapAdd"]):
        yield f"CapAdd is {sorted(added)}, asked for {requested['CapAdd']}"


def _capability_names(names: list[str] | None) -> set[str]:
    return {name.upper().removeprefix("CAP_") for name in names or ()}


def _security_options(requested: _Config, answered: _Config) -> Iterator[str]:
    options = [str(option) for option in answered.get("SecurityOpt") or ()]
    for option in requested["SecurityOpt"]:
        if not _has_option(option, options):
            yield f"SecurityOpt lacks {option[:60]}"
    if any("unconfined" in option for option in options):
        yield "SecurityOpt holds unconfined"


def _resource_limits(requested: _Config, answered: _Config) -> Iterator[str]:
    limits = {row["Name"].removeprefix("RLIMIT_").lower(): row for row in answered.get("Ulimits") or ()}
    for row in requested["Ulimits"]:
        limit = limits.get(row["Name"])
        if (limit or {}).get("Hard") != row["Hard"]:
            yield f"ulimit {row['Name']} is {limit}, asked for {row['Hard']}"


def _unwanted_settings(_requested: _Config, answered: _Config) -> Iterator[str]:
    for key in _UNWANTED:
        if answered.get(key):
            yield f"{key} is {answered[key]!r}, asked for none"
    if answered.get("UsernsMode") == "host":
        yield "UsernsMode is host, asked for the engine's own"
    if (answered.get("LogConfig") or {}).get("Type") not in ("none", None):
        yield f"LogConfig is {answered['LogConfig']!r}, asked for none: output would fill the host's disk"


def _masked_paths(requested: _Config, answered: _Config) -> Iterator[str]:
    for key in ("MaskedPaths", "ReadonlyPaths"):
        paths = answered.get(key)
        if paths is not None and (missing := set(requested[key]) - set(paths)):  # Podman does not report them
            yield f"{key} lacks {', '.join(sorted(missing)[:5])}: files of the kernel's are open"


_HOST_CHECKS: tuple[Callable[[_Config, _Config], Iterator[str]], ...] = (
    _equal_settings,
    _capabilities,
    _security_options,
    _resource_limits,
    _unwanted_settings,
    _masked_paths,
)


def _command(config: _Config, answered: _Config) -> Iterator[str]:
    """The user and the command of the container itself."""
    for key in ("User", "WorkingDir", "Cmd"):
        if answered.get(key) != config[key]:
            yield f"{key} is {answered.get(key)!r}, asked for {config[key]!r}"
    if answered.get("Entrypoint"):
        yield f"Entrypoint is {answered['Entrypoint']}, asked for none"


def _mounts(requested: _Config, actual: _Config) -> Iterator[str]:
    """Mounts that are missing, writable against the request, or brought by the image (VOLUME)."""
    wanted = {mount["Target"]: mount for mount in requested["Mounts"]}
    mounts = [(mount.get("Destination", ""), mount) for mount in actual.get("Mounts") or ()]
    for target, mount in mounts:
        if target in requested["Tmpfs"]:
            continue
        if target not in wanted:
            yield f"{target} is mounted though nobody asked for it"
        elif mount.get("RW", True) and wanted[target]["ReadOnly"]:
            yield f"{target} is writable, asked for read-only"
    missing = wanted.keys() - {target for target, _ in mounts}
    yield from (f"{target} is not mounted" for target in sorted(missing))


def _has_option(option: str, options: list[str]) -> bool:
    key, _, value = option.partition("=")
    if key == "seccomp":
        return any(other.startswith("seccomp=") and _same_json(other[8:], value) for other in options)
    return option in options or option.removesuffix(":true") in options


def _same_json(a: str, b: str) -> bool:
    try:
        return bool(json.loads(a) == json.loads(b))
    except ValueError:
        return a == b
