"""Would a run work here? Each check says what it found and, where it is bad, what to do."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from agentv_sandbox import masking
from agentv_sandbox.base.dataclass import dataclass
from agentv_sandbox.base.errors import NeedsNamespace, SandboxError
from agentv_sandbox.containers.policy import POLICIES, Role
from agentv_sandbox.containers.sandbox import Sandbox
from agentv_sandbox.engines import ContainerEngine
from agentv_sandbox.engines.enforcement import PROBE, declared, is_too_old, observed
from agentv_sandbox.engines.tier import tier
from agentv_sandbox.models.container import EngineInfo, ExecResult, Limits, VolumeSpec
from agentv_sandbox.models.json.wire import read_exactly
from agentv_sandbox.models.paths import WORKSPACE
from agentv_sandbox.models.suite import Suite

State = Literal["ok", "warning", "failed"]
_GB = 1 << 30
_PROCESSES = 32
_WORKSPACE = 16 << 20

# Runs as the agent role does and tries to exceed what that role is given.
_PROBE = """
import json, os, socket
status = dict(line.split(':\\t', 1) for line in open('/proc/self/status').read().splitlines() if ':\\t' in line)
children = 0
try:
    for _ in range(200):
        pid = os.fork()
        if pid == 0:
            import time; time.sleep(5); os._exit(0)
        children += 1
except OSError:
    pass
written = 0
try:
    with open('/workspace/fill', 'wb') as f:
        for _ in range(64):
            written += f.write(bytes(1 << 20)); f.flush()
except OSError:
    pass
try:
    open('/usr/probe', 'w'); readonly = False
except OSError:
    readonly = True
try:
    socket.create_connection(('192.0.2.1', 9), 1); network = True
except TimeoutError:
    network = True
except OSError:
    network = False
print(json.dumps({'caps': status['CapEff'], 'bounding': status['CapBnd'], 'nnp': status.get('NoNewPrivs'),
                  'seccomp': status.get('Seccomp'), 'children': children, 'written': written,
                  'readonly': readonly, 'network': network, 'uid': os.getuid()}))
"""


@dataclass(frozen=True, kw_only=True)
class DoctorCheck:
    name: str
    state: State
    text: str
    hint: str = ""


def engine_checks(info: EngineInfo, runtime: str | None) -> Iterator[DoctorCheck]:
    """Version, system call filter, and how strong the containers' wall is."""
    api = f" (API {info.api_version})" if info.api_version else ""
    text = f"{info.kind} {info.version}{api} at {info.address}"
    if is_too_old(info):
        yield DoctorCheck(
            name="engine", state="failed", text=text, hint="Docker Engine 20.10 or later is needed."
        )
    else:
        yield DoctorCheck(name="engine", state="ok", text=text)
    if info.seccomp:
        yield DoctorCheck(name="seccomp", state="ok", text="the engine applies our system call filter")
    else:
        yield DoctorCheck(
            name="seccomp",
            state="failed",
            text="the engine has no seccomp support",
            hint="Use an engine and a kernel with seccomp; nothing is run without it.",
        )
    yield from _limits_declared(info)
    isolation = tier(info, runtime)
    yield DoctorCheck(name="isolation", state="ok", text=isolation.summary)
    where = (
        info.systems_on
        if info.systems
        else "none with this engine and these settings: suites that ask for them do not run"
    )
    yield DoctorCheck(name="whole systems", state="ok", text=where)
    for sentence in info.runtimes:
        yield DoctorCheck(name="runtime", state="ok", text=sentence)
    if isolation.flaws:
        names = ", ".join(flaw.cve for flaw in isolation.flaws)
        yield DoctorCheck(
            name="known flaws",
            state="warning",
            text=names,
            hint="A newer engine and runtime fix them; see docs/reference/isolation.md.",
        )
    if isolation.unjudged:
        yield DoctorCheck(
            name="unknown flaws",
            state="warning",
            text=f"the engine reports no version of {', '.join(isolation.unjudged)}",
            hint="Known flaws of what has no version cannot be judged; ask your distribution.",
        )


def other_engine_checks(
    answers: Mapping[str, ContainerEngine | SandboxError], used: str, runtime: str | None
) -> Iterator[DoctorCheck]:
    """What this machine has besides the engine at the address ``used``; ``answers`` are by kind."""
    for kind, answer in answers.items():
        name = f"engine: {kind}"
        if isinstance(answer, NeedsNamespace):
            text = f"works without root (`--engine {kind}`), in namespaces of its own"
            yield DoctorCheck(name=name, state="ok", text=text)
        elif isinstance(answer, SandboxError):
            reason = " ".join(answer.message.split())
            yield DoctorCheck(name=name, state="ok", text=f"not here: {reason}")
        elif answer.address != used:
            strength = tier(answer.info(), runtime).summary
            yield DoctorCheck(name=name, state="ok", text=f"answers too (`--engine {kind}`): {strength}")


def _limits_declared(info: EngineInfo) -> Iterator[DoctorCheck]:
    """What the engine says that it enforces; the probes see whether it is true."""
    enforcement = declared(info)
    hint = "Rootless engines need cgroup v2 with systemd and delegated controllers; `run` refuses this one."
    if enforcement.missing:
        yield DoctorCheck(name="limits", state="failed", text="; ".join(enforcement.missing), hint=hint)
    elif enforcement.unknown:
        text = f"the engine does not say whether it limits {', '.join(enforcement.unknown)}"
        yield DoctorCheck(
            name="limits", state="warning", text=text, hint="What the probes below see decides."
        )
    else:
        yield DoctorCheck(
            name="limits", state="ok", text="the engine says that it limits memory, processes, time"
        )
    for text in info.warnings:
        yield DoctorCheck(name="engine's warning", state="warning", text=text)


@dataclass(frozen=True)
class _Seen:
    """What a probe saw in its container."""

    children: int
    written: int
    nnp: str
    seccomp: str
    caps: str
    bounding: str
    readonly: bool
    network: bool


def limit_checks(sandbox: Sandbox) -> Iterator[DoctorCheck]:
    """Limits that the engine accepts are tried: some kernels take them and enforce nothing."""
    probe, eater = _attempts(sandbox)
    yield _limits_in_force(sandbox)
    if not probe.ok:
        tail = masking.last(probe.stderr.decode("utf-8", "replace"), 300)
        text = f"a probe container ended with {probe.outcome}: {tail}"
        yield DoctorCheck(name="container", state="failed", text=text)
        return
    seen = read_exactly(_Seen, json.loads(probe.stdout))
    children, written = seen.children, seen.written
    nnp, seccomp = seen.nnp.strip(), seen.seccomp.strip()
    table = [
        ("processes", children < _PROCESSES, f"{children} of 200 children under a limit of {_PROCESSES}"),
        ("memory", eater.outcome == "oom", f"256 MiB under a limit of 128 MiB: {eater.outcome}"),
        ("workspace", written <= _WORKSPACE, f"{written >> 20} MiB written under a limit of 16 MiB"),
        ("system", seen.readonly, "read-only" if seen.readonly else "writable"),
        ("network", not seen.network, "reachable" if seen.network else "unreachable"),
        ("capabilities", int(seen.caps, 16) == 0 == int(seen.bounding, 16), seen.caps.strip()),
        ("privileges", nnp == "1", "no-new-privileges" if nnp == "1" else "may grow"),
        ("system calls", seccomp == "2", f"seccomp mode {seccomp}"),
    ]
    hint = "This engine or kernel does not enforce it; see docs/reference/isolation.md."
    for name, good, text in table:
        state: State = "ok" if good else "failed"
        yield DoctorCheck(name=f"limit: {name}", state=state, text=text, hint="" if good else hint)


def _attempts(sandbox: Sandbox) -> tuple[ExecResult, ExecResult]:
    """What the probe saw as an agent, and how a program ended that takes twice its memory."""
    uid = sandbox.specs.new_uid()
    limits = Limits(timeout_s=30, pids=_PROCESSES, memory_bytes=128 << 20)
    with sandbox.volumes(workspace=VolumeSpec(uid=uid, size_bytes=_WORKSPACE, inodes=100)) as volumes:
        probe = sandbox.run(
            Role.AGENT,
            ["python3", "-I", "-c", _PROBE],
            image=sandbox.tool_image,
            uid=uid,
            mounts=[volumes.mount("workspace", WORKSPACE, read_only=False)],
            workdir=WORKSPACE,
            limits=limits,
        )
    eater = sandbox.run(
        Role.AGENT,
        ["python3", "-I", "-c", "x = bytearray(b'x') * (256 << 20)"],
        image=sandbox.tool_image,
        limits=limits,
    )
    return probe, eater


def _limits_in_force(sandbox: Sandbox) -> DoctorCheck:
    inside = sandbox.run(Role.PROBE, PROBE, image=sandbox.tool_image)
    limits = observed(inside, POLICIES[Role.PROBE].limits)
    unreadable = (f"{what}: cannot be read in a container" for what in limits.unknown)
    return DoctorCheck(
        name="limits in force",
        state="failed" if limits.missing else "warning" if limits.unknown else "ok",
        text="; ".join([*limits.missing, *unreadable]) or "read in a container: as asked for",
    )


def disk_checks(cache: Path) -> Iterator[DoctorCheck]:
    """Room for packages and results on this side (the engine's own disk is usually the same one)."""
    folder = next(path for path in (cache, *cache.parents) if path.exists())
    free = shutil.disk_usage(folder).free
    text = f"{free / _GB:.1f} GiB free at {folder}"
    if free < _GB:
        yield DoctorCheck(
            name="disk",
            state="failed",
            text=text,
            hint="At least 1 GiB is needed; `agentv-sandbox clean --images` removes images and fetched files "
            "that are not used.",
        )
    elif free < 5 * _GB:
        yield DoctorCheck(
            name="disk", state="warning", text=text, hint="An image with LibreOffice alone takes 2 GiB."
        )
    else:
        yield DoctorCheck(name="disk", state="ok", text=text)


def key_checks(suites: Sequence[Suite], environ: Mapping[str, str]) -> Iterator[DoctorCheck]:
    """Keys of the LLM targets that the suites' graders use."""
    for suite in suites:
        used = _grader_targets(suite)
        for name, target in sorted(suite.targets.items()):
            if not (key := target.text("api_key_env")):
                continue
            if environ.get(key):
                yield DoctorCheck(name=f"key: {name}", state="ok", text=f"{key} is set")
            else:
                state: State = "failed" if name in used else "warning"
                yield DoctorCheck(
                    name=f"key: {name}",
                    state=state,
                    text=f"{key} is not set",
                    hint=f"export {key}=… before a run that grades with {name}.",
                )


def network_checks(urls: Sequence[str]) -> Iterator[DoctorCheck]:
    """Whether packages for new images could be fetched. Images that exist need none of it."""
    for url in urls:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        try:
            socket.create_connection((parts.hostname or "", port), timeout=5).close()
        except OSError as error:
            yield DoctorCheck(
                name=f"network: {parts.hostname}",
                state="warning",
                text=f"does not answer ({error})",
                hint="New images cannot be built; those that exist still run.",
            )
        else:
            yield DoctorCheck(name=f"network: {parts.hostname}", state="ok", text="answers")


def image_check(ensure: Callable[[], str]) -> DoctorCheck:
    """``ensure`` finds or makes the tool image and says how."""
    try:
        return DoctorCheck(name="base image", state="ok", text=ensure())
    except SandboxError as error:
        return DoctorCheck(name="base image", state="failed", text=error.message, hint=error.hint)


def leftover_check(engine: ContainerEngine, label: str) -> DoctorCheck:
    left = engine.owned({label: None})
    if not left:
        return DoctorCheck(name="leftovers", state="ok", text="no containers or volumes of earlier runs")
    return DoctorCheck(
        name="leftovers",
        state="warning",
        text=f"{len(left)} objects of other runs are in the engine",
        hint="Of runs that are going on, or kept; `agentv-sandbox clean` removes dead ones.",
    )


def _grader_targets(suite: Suite) -> set[str]:
    names = {target.grader_target for target in suite.targets.values() if target.grader_target}
    for case in suite.cases:
        names |= {
            name for spec in case.assertions if isinstance(name := getattr(spec.options, "target", None), str)
        }
    return names
