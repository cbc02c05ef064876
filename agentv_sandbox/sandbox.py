"""THE security policy: what each role's container may touch. Nothing else starts a container.

Every container is single-use. Order, limits and mounts are decided here and in the callers' mount lists;
`engines/config.py` states them to the engine and refuses when the engine's answer differs.
"""

from __future__ import annotations

import os
import secrets
import tarfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import Literal

from agentv_sandbox.engines import LABEL_KEEP, LABEL_OWNER, LABEL_ROLE, LABEL_RUN, ContainerEngine, OnOutput
from agentv_sandbox.engines.binds import check_bind
from agentv_sandbox.engines.owner import Owner
from agentv_sandbox.errors import Cancelled, EngineError, SandboxError
from agentv_sandbox.logs import get_logger
from agentv_sandbox.models.container import ContainerSpec, ExecResult, Limits, Mount
from agentv_sandbox.models.suite import LimitOverrides

log = get_logger()


class Role(StrEnum):
    AGENT = "agent"
    HOOK = "hook"
    PREPROCESSOR = "preprocessor"
    GRADER = "grader"
    COLLECTOR = "collector"
    SEALER = "sealer"
    BUILDER = "builder"
    HOLDER = "holder"


_SUITES_OWN = frozenset({Role.AGENT, Role.HOOK, Role.PREPROCESSOR, Role.GRADER})
_MB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Policy:
    """What a role gets beyond the command, the mounts and the environment that its caller names."""

    limits: Limits
    root: bool = False
    """uid 0 (without capabilities unless ``cap_add`` says so); otherwise a uid of its own."""
    cap_add: tuple[str, ...] = ()
    sealed: bool = True
    """Read-only root, no-new-privileges, our seccomp profile, ``timeout`` as PID 1."""
    may_write: frozenset[str] = frozenset()
    """Mount targets that may be writable."""


POLICIES: Mapping[Role, Policy] = {
    Role.AGENT: Policy(limits=Limits(timeout_s=1200), may_write=frozenset({"/workspace", "/output"})),
    Role.HOOK: Policy(limits=Limits(timeout_s=60), may_write=frozenset({"/workspace"})),
    Role.PREPROCESSOR: Policy(limits=Limits(timeout_s=60, memory_bytes=512 * _MB)),
    Role.GRADER: Policy(limits=Limits(timeout_s=300)),
    # Reads what the agent made unreadable to others; the tool image's own Python, nothing of the agent's.
    Role.COLLECTOR: Policy(
        limits=Limits(timeout_s=120, memory_bytes=512 * _MB, stdout_bytes=64 << 10, flood_bytes=1 << 40),
        root=True,
        cap_add=("DAC_READ_SEARCH",),
    ),
    # Makes the dead agent's files readable for graders, which run as somebody else.
    Role.SEALER: Policy(
        limits=Limits(timeout_s=120, memory_bytes=256 * _MB, tmp_bytes=16 * _MB),
        root=True,
        cap_add=("DAC_READ_SEARCH", "FOWNER"),
        may_write=frozenset({"/workspace"}),
    ),
    Role.BUILDER: Policy(
        limits=Limits(timeout_s=1800, memory_bytes=4 << 30, cpus=4.0, pids=2048, file_bytes=8 << 30,
                      open_files=65536, flood_bytes=1 << 30),
        root=True,
        cap_add=("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETUID", "SETGID", "SETFCAP", "SYS_CHROOT"),
        sealed=False,
        may_write=frozenset({"/cache", "/out"}),
    ),
    Role.HOLDER: Policy(
        limits=Limits(timeout_s=86_400, memory_bytes=64 * _MB, pids=8, cpus=0.1, tmp_bytes=_MB, tmp_inodes=16)
    ),
}  # fmt: skip

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
ENV = {"PATH": PATH, "HOME": "/tmp", "TMPDIR": "/tmp", "LANG": "C.UTF-8", "TZ": "UTC",  # noqa: S108
        "PYTHONDONTWRITEBYTECODE": "1", "PYTHONNOUSERSITE": "1"}  # fmt: skip

_BUILD_NETWORK = "bridge"
_VOLUME_TAG = "agentv"


@dataclass(frozen=True, kw_only=True)
class StagedFile:
    """One entry to put into a volume. ``path`` is relative and was checked by the caller."""

    path: str | bytes
    data: bytes | Path = b""
    mode: int = 0o644
    kind: Literal["file", "dir", "symlink"] = "file"
    link: str = ""


@dataclass(frozen=True, kw_only=True)
class VolumeSpec:
    size_bytes: int = 256 * _MB
    inodes: int = 20_000
    uid: int = 0
    """Owner of the volume's root directory."""
    mode: int = 0o755
    disk: bool = False
    """On the engine's disk: no bound on the sum of bytes or the number of files holds there."""


class VolumeSet:
    """Size- and inode-limited volumes that live as long as the block that opened them."""

    def __init__(self, engine: ContainerEngine, names: Mapping[str, str], holder: str) -> None:
        self._engine = engine
        self._names = names
        self._holder = holder
        self.kept = False
        """Set it to leave the volumes and their holder behind, for a look inside."""

    @property
    def holder(self) -> str:
        """Name or id of the container that holds the volumes below ``/volumes``; no untrusted code ran in it."""
        return self._holder

    def mount(self, name: str, target: str, *, read_only: bool = True) -> Mount:
        return Mount(source=self._names[name], target=target, read_only=read_only)

    def put(self, name: str, staged: Iterable[StagedFile], *, uid: int = 0) -> None:
        """Unpack ``staged`` into the volume, owned by ``uid``. Only before untrusted code has written there:
        the engine follows links that it finds."""
        self._engine.put(self._holder, f"/volumes/{name}", tar_stream(staged, uid=uid))


class Sandbox:
    """Every container, volume and network of one run. Close it, or use it as a context manager."""

    def __init__(
        self,
        engine: ContainerEngine,
        *,
        tool_image: str = "",
        runtime: str | None = None,
        may_keep: bool = False,
        ceiling: LimitOverrides = LimitOverrides(),  # noqa: B008 - frozen
    ) -> None:
        self.engine = engine
        self.run_id = secrets.token_hex(8)
        self.tool_image = tool_image
        """Trusted image with Python for collectors and volume holders; set before the first volume."""
        self.runtime = runtime
        self._ceiling = ceiling
        """The operator's: no container of the suite's own commands gets more."""
        self._may_keep = may_keep
        """Volumes may outlive the run (``VolumeSet.kept``) until ``agentv-sandbox clean`` removes them."""
        self._kept: set[str] = set()
        self.info = engine.info()
        self._owner = str(Owner.current())
        self._stop = threading.Event()
        self._uids = _uid_range(remapped=self.info.userns or self.info.rootless)
        self._uid_lock = threading.Lock()
        self._holders: set[str] = set()
        self._volumes_of: dict[str, tuple[str, ...]] = {}
        self._seccomp = _seccomp_profile(self.info.architecture) if self.info.seccomp else None

    # -- life -----------------------------------------------------------------------------------------
    def __enter__(self) -> Sandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def cancel(self) -> None:
        """End all running containers; every later call raises Cancelled."""
        self._stop.set()

    def cancelled(self) -> bool:
        return self._stop.is_set()

    def close(self) -> None:
        """Remove everything that this run still owns."""
        for obj in self.engine.owned({LABEL_RUN: self.run_id}):
            if obj.id not in self._kept:
                with suppress(EngineError):
                    self.engine.destroy(obj)

    def new_uid(self) -> int:
        """A uid that no other container of this run has: kernel limits count per uid, not per container."""
        with self._uid_lock:
            return next(self._uids)

    # -- containers -----------------------------------------------------------------------------------
    def run(
        self,
        role: Role,
        argv: Sequence[str],
        *,
        image: str,
        mounts: Sequence[Mount] = (),
        workdir: str = "/",
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        limits: Limits | None = None,
        uid: int | None = None,
        on_output: OnOutput | None = None,
        network: bool = False,
        keep: bool = False,
    ) -> ExecResult:
        """Run ``argv`` in a fresh container of ``role`` and remove it.

        ``limits`` None: the role's default; ``uid`` None: one of its own. ``network`` is for the builder's
        fetch phase alone; ``keep`` leaves the stopped container, for ``commit``.
        """
        if self.cancelled():
            raise Cancelled
        spec = self._spec(role, argv, image=image, mounts=mounts, workdir=workdir, env=env, limits=limits,
                          uid=uid, network=network)  # fmt: skip
        result = self.engine.run(spec, stdin=stdin, on_output=on_output, cancelled=self.cancelled, keep=keep)
        if result.outcome == "cancelled":
            raise Cancelled
        if result.outcome == "exited" and result.exit_code == 137:
            result = self._blame_engine(result)
        log.debug("container.done", role=role.value, outcome=result.outcome, exit_code=result.exit_code,
                  seconds=round(result.duration_s, 3))  # fmt: skip
        return result

    def _spec(
        self, role: Role, argv: Sequence[str], *, image: str, mounts: Sequence[Mount], workdir: str,
        env: Mapping[str, str] | None, limits: Limits | None, uid: int | None, network: bool,
    ) -> ContainerSpec:  # fmt: skip
        policy = POLICIES[role]
        limits = self._bounded(limits or policy.limits, role)
        check_positive(limits)
        for mount in mounts:
            if not mount.read_only and mount.target not in policy.may_write:
                raise SandboxError(f"policy: a {role} container may not write {mount.target}")
            if mount.kind == "bind":
                check_bind(mount)
        if network and role is not Role.BUILDER:
            raise SandboxError(f"policy: a {role} container has no network")
        user = "0:0" if policy.root else f"{uid or self.new_uid()}"
        if not policy.root:
            user = f"{user}:{user}"
        return ContainerSpec(
            image=image,
            argv=tuple(argv),
            role=role.value,
            user=user,
            workdir=workdir,
            env={"PATH": PATH} if role is Role.BUILDER else {**ENV, **(env or {})},
            mounts=tuple(mounts),
            limits=limits,
            network=_BUILD_NETWORK if network else "none",
            read_only=policy.sealed,
            cap_add=policy.cap_add,
            seccomp=self._seccomp if policy.sealed else None,
            no_new_privileges=policy.sealed,
            init_timer=policy.sealed and role is not Role.HOLDER,
            runtime=self.runtime,
            masked_volumes=self._declared_volumes(image),
            labels=self._labels(role),
        )

    def _declared_volumes(self, image: str) -> tuple[str, ...]:
        """What the image declares as VOLUME: writable host disk without a bound, were it not covered."""
        if image not in self._volumes_of:
            info = self.engine.image(image)
            self._volumes_of[image] = info.volumes if info is not None else ()
        return self._volumes_of[image]

    def _bounded(self, limits: Limits, role: Role) -> Limits:
        """``limits`` under what the machine has (the engine refuses more CPUs than there are) and, for commands
        of a suite, under the operator's ceiling."""
        limits = replace(limits, cpus=min(limits.cpus, float(self.info.cpus or 1)))
        if role not in _SUITES_OWN:
            return limits
        top = self._ceiling
        return replace(
            limits,
            memory_bytes=min(limits.memory_bytes, top.memory_bytes or limits.memory_bytes),
            cpus=min(limits.cpus, top.cpus or limits.cpus),
            pids=min(limits.pids, top.pids or limits.pids),
            timeout_s=min(limits.timeout_s, top.timeout_s or limits.timeout_s),
            stdout_bytes=min(limits.stdout_bytes, top.output_bytes or limits.stdout_bytes),
        )

    def _blame_engine(self, result: ExecResult) -> ExecResult:
        """Exit code 137 that neither our timer nor the kernel explains: the engine may have been restarted,
        which also ended our volume holders."""
        if any(not self.engine.running(holder) for holder in list(self._holders)):
            return replace(result, outcome="engine")
        return result

    # -- volumes --------------------------------------------------------------------------------------
    @contextmanager
    def volumes(self, **specs: VolumeSpec) -> Iterator[VolumeSet]:
        """tmpfs volumes, kept alive by one holder container that sleeps; removed at the end."""
        if self.cancelled():
            raise Cancelled
        stem = f"{_VOLUME_TAG}-{self.run_id}-{secrets.token_hex(4)}"
        names = {name: f"{stem}-{name}" for name in specs}
        holder = ""
        made: VolumeSet | None = None
        try:
            for name, spec in self._under_ceiling(specs).items():
                check_positive(spec, "size_bytes", "inodes")
                self.engine.create_volume(
                    names[name],
                    options=_volume_options(spec, remapped=self.info.userns),
                    labels=self._labels(Role.HOLDER),
                )
            holder = self._hold(names)
            for name, spec in specs.items():
                if spec.disk:
                    self._open_to_all(names[name])
            made = VolumeSet(self.engine, names, holder)
            yield made
        finally:
            self._holders.discard(holder)
            if made is not None and made.kept and self._may_keep:
                self._kept |= {holder, *names.values()}
            else:
                if holder:
                    self.engine.remove(holder)
                for name in names.values():
                    self.engine.remove_volume(name)

    def _open_to_all(self, volume: str) -> None:
        """A plain volume belongs to root, who may change its mode; nobody but this case's containers sees it."""
        mount = Mount(source=volume, target="/workspace", read_only=False)
        result = self.run(
            Role.SEALER, ["/usr/bin/chmod", "0777", "/workspace"], image=self.tool_image, mounts=[mount]
        )
        if not result.ok:
            raise SandboxError(
                f"a workspace on disk cannot be made: {result.stderr.decode('utf-8', 'replace')}"
            )

    def _under_ceiling(self, specs: Mapping[str, VolumeSpec]) -> Mapping[str, VolumeSpec]:
        """The operator's bounds are those of what an agent may fill; the other volumes are ours."""
        if (space := specs.get("workspace")) is None:
            return specs
        top = self._ceiling
        size = min(space.size_bytes, top.workspace_bytes or space.size_bytes)
        inodes = min(space.inodes, top.workspace_inodes or space.inodes)
        return {**specs, "workspace": replace(space, size_bytes=size, inodes=inodes)}

    def _hold(self, names: Mapping[str, str]) -> str:
        mounts = tuple(
            Mount(source=volume, target=f"/volumes/{name}", read_only=False) for name, volume in names.items()
        )
        spec = self._spec(Role.HOLDER, ("/usr/bin/sleep", "infinity"), image=self.tool_image, mounts=(),
                          workdir="/", env=None, limits=None, uid=None, network=False)  # fmt: skip
        holder = self.engine.start(replace(spec, mounts=mounts))
        self._holders.add(holder)
        return holder

    @contextmanager
    def plain_volume(self, staged: Iterable[StagedFile]) -> Iterator[str]:
        """A disk volume filled once and only ever mounted read-only; yields its name."""
        name = f"{_VOLUME_TAG}-{self.run_id}-{secrets.token_hex(4)}-data"
        self.engine.create_volume(name, options={}, labels=self._labels(Role.HOLDER))
        try:
            spec = self._spec(Role.HOLDER, ("/usr/bin/true",), image=self.tool_image, mounts=(),
                              workdir="/", env=None, limits=None, uid=None, network=False)  # fmt: skip
            mount = Mount(source=name, target="/volumes/data", read_only=False)
            filler = self.engine.create(replace(spec, mounts=(mount,)))
            try:
                self.engine.put(filler, "/volumes/data", tar_stream(staged, uid=0))
            finally:
                self.engine.remove(filler)
            yield name
        finally:
            self.engine.remove_volume(name)

    def _labels(self, role: Role) -> dict[str, str]:
        labels = {LABEL_RUN: self.run_id, LABEL_ROLE: role.value, LABEL_OWNER: self._owner}
        return {**labels, LABEL_KEEP: "1"} if self._may_keep and role is Role.HOLDER else labels


def check_positive(bounds: Limits | VolumeSpec, *names: str) -> None:
    """Raise SandboxError for a bound of 0 or less (or that is no number): the engine takes it for none."""
    for name in names or bounds.__dataclass_fields__:
        if not getattr(bounds, name) > 0:
            raise SandboxError(f"policy: {name} is {getattr(bounds, name)}, which would mean no limit")


def _volume_options(spec: VolumeSpec, *, remapped: bool) -> dict[str, str]:
    if spec.disk:
        return {}
    # An engine with user namespaces mounts with the host's numbers, so an owner would be nobody inside. Only this
    # case's containers see the volume, and those that must not write have it read-only.
    owner = "mode=0777" if remapped else f"uid={spec.uid},gid={spec.uid},mode={spec.mode:04o}"
    options = f"size={spec.size_bytes},nr_inodes={spec.inodes},{owner},nosuid,nodev"
    return {"type": "tmpfs", "device": "tmpfs", "o": options}


def sweep(engine: ContainerEngine) -> int:
    """Remove what runs of dead processes of this machine left; returns how many objects. Objects of live runs,
    of other machines that share the engine, and what a user asked to keep are not touched."""
    removed = 0
    for obj in engine.owned({LABEL_RUN: None}):
        if LABEL_KEEP not in obj.labels and Owner.parse(obj.labels.get(LABEL_OWNER, "")).dead():
            with suppress(EngineError):
                engine.destroy(obj)
                removed += 1
    return removed


_END = b"\0" * (2 * tarfile.BLOCKSIZE)


def tar_stream(staged: Iterable[StagedFile], *, uid: int) -> Iterator[bytes]:
    """A tar of ``staged``, produced piece by piece, with entries for all parent directories (the engine would
    make missing ones owned by root)."""
    now = int(time.time())
    made: set[str] = set()
    for item in staged:
        name = os.fsdecode(item.path)
        for parent in reversed(PurePosixPath(name).parents[:-1]):
            if str(parent) not in made:
                made.add(str(parent))
                yield _tar_dir(str(parent), uid, now)
        if item.kind == "dir":
            made.add(name)
        info = tarfile.TarInfo(name)
        info.uid = info.gid = uid
        info.mode = item.mode
        info.mtime = now
        if item.kind == "dir":
            info.type, info.mode = tarfile.DIRTYPE, item.mode | 0o111
            yield info.tobuf(tarfile.GNU_FORMAT, errors="surrogateescape")
        elif item.kind == "symlink":
            info.type, info.linkname = tarfile.SYMTYPE, item.link
            yield info.tobuf(tarfile.GNU_FORMAT, errors="surrogateescape")
        elif isinstance(item.data, bytes):
            info.size = len(item.data)
            yield info.tobuf(tarfile.GNU_FORMAT, errors="surrogateescape")
            yield item.data + b"\0" * (-info.size % tarfile.BLOCKSIZE)
        else:
            yield from _tar_file(info, item.data)
    yield _END


def _tar_dir(name: str, uid: int, now: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.uid, info.gid, info.mtime = tarfile.DIRTYPE, 0o755, uid, uid, now
    return info.tobuf(tarfile.GNU_FORMAT, errors="surrogateescape")


def _tar_file(info: tarfile.TarInfo, source: Path) -> Iterator[bytes]:
    with source.open("rb") as handle:
        info.size = left = os.fstat(handle.fileno()).st_size
        yield info.tobuf(tarfile.GNU_FORMAT, errors="surrogateescape")
        while left > 0:
            chunk = handle.read(min(left, 1 << 20))
            if not chunk:
                raise SandboxError(f"{source} became shorter while it was read")
            left -= len(chunk)
            yield chunk
    yield b"\0" * (-info.size % tarfile.BLOCKSIZE)


def _uid_range(*, remapped: bool) -> Iterator[int]:
    # A remapped engine knows 65,536 ids; elsewhere ids that no person or service of the host has.
    low, high = (20_000, 60_000) if remapped else (200_000, 265_000)
    start = low + secrets.randbelow(high - low)
    while True:
        yield start
        start = start + 1 if start + 1 < high else low


def _seccomp_profile(architecture: str) -> str:
    profile = files("agentv_sandbox") / "data" / "seccomp" / f"{architecture}.json"
    if not profile.is_file():
        raise SandboxError(
            f"there is no seccomp profile for {architecture}",
            hint="Profiles exist for amd64 and arm64. Untrusted code is not run under the engine's own, which "
            "leaves io_uring, vsock and ptrace open on many versions.",
        )
    return profile.read_text()
