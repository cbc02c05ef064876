"""Containers by the policy of their role (``containers/policy.py``). Nothing else starts a container.

Every container is single-use. Limits and mounts are decided by the policy and the callers' mount lists;
``engines/`` state them to the engine, which is refused when its answer differs.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from copy import copy
from dataclasses import replace
from typing import Unpack

from agentv_sandbox.base.deadline import cancelled_by
from agentv_sandbox.base.errors import Cancelled, EngineError, SandboxError
from agentv_sandbox.base.logs import get_logger
from agentv_sandbox.containers.policy import (
    POLICIES,
    Role,
    check_positive,
)
from agentv_sandbox.containers.specs import Inside, Specs, System
from agentv_sandbox.containers.startqueue import StartQueue
from agentv_sandbox.containers.times import seen_here
from agentv_sandbox.containers.users import ImageUsers
from agentv_sandbox.containers.volumes import (
    DeferredVolumes,
    StagedFile,
    Tar,
    VolumeSet,
)
from agentv_sandbox.engines import (
    LABEL_RUN,
    LABEL_SET,
    ContainerEngine,
)
from agentv_sandbox.engines.enforcement import PROBE, Enforcement, declared, demand, observed
from agentv_sandbox.engines.stream import StdioConversation
from agentv_sandbox.engines.tier import WITHOUT_SYSTEMS, Systems, refuse_unseen, with_systems
from agentv_sandbox.models.container import (
    Command,
    ContainerSpec,
    ExecResult,
    LimitOverrides,
    Mount,
    OnOutput,
    Stdin,
    VolumeSpec,
    not_put_off,
)
from agentv_sandbox.models.paths import SYSTEM, WORKSPACE

log = get_logger()


_VOLUME_TAG = "agentv"
_DATA = "/volumes/data"
_TAKE_TURNS = frozenset({Role.COLLECTOR, Role.PREPROCESSOR, Role.GRADER})
"""What is to be done with an answer. What leads to one never waits for it."""


class Sandbox:
    """Every container and volume of one run. Close it, or use it as a context manager."""

    def __init__(
        self,
        engine: ContainerEngine,
        *,
        tool_image: str = "",
        runtime: str | None = None,
        may_keep: bool = False,
        ceiling: LimitOverrides = LimitOverrides(),  # noqa: B008 - frozen
        must_enforce: bool = True,
        whole_systems: Systems = "bounded",
        stop: threading.Event | None = None,
    ) -> None:
        """``must_enforce``: refuse to run anything where limits are not enforced; False is for finding out."""
        self.engine = engine
        self.run_id = secrets.token_hex(8)
        self.tool_image = tool_image
        """Trusted image with Python for collectors and volume holders; set before the first volume."""
        self.runtime = runtime
        self._may_keep = may_keep
        """Volumes may outlive the run (``VolumeSet.kept``) until ``agentv-sandbox clean`` removes them."""
        self._kept: set[str] = set()
        self.info = with_systems(engine.info(), whole_systems)
        self.specs = Specs(
            engine, self.info, run_id=self.run_id, runtime=runtime, may_keep=may_keep, ceiling=ceiling
        )
        self._stop = threading.Event()
        self._stop_of_caller = stop or self._stop
        self._ends_before: Callable[[], bool] = self.cancelled
        """What ended host work before this sandbox was entered."""
        self._holders: set[str] = set()
        self.users = ImageUsers(engine, self.run)
        self._must_enforce = must_enforce
        self._enforcement: Enforcement | None = None
        self._probe_lock = threading.Lock()
        self._turns = StartQueue(self.info.cpus)

    # -- life -----------------------------------------------------------------------------------------
    def __enter__(self) -> Sandbox:
        self._ends_before = cancelled_by(self.cancelled)
        return self

    def __exit__(self, *_: object) -> None:
        cancelled_by(self._ends_before)
        self.close()

    def cancel(self) -> None:
        """End all running containers; every later call raises Cancelled."""
        self._stop.set()

    def cancelled(self) -> bool:
        return self._stop.is_set() or self._stop_of_caller.is_set()

    def close(self) -> None:
        """Remove everything that this run still owns."""
        for obj in self.engine.owned({LABEL_RUN: self.run_id}):
            if obj.id not in self._kept:
                with suppress(EngineError):
                    self.engine.destroy(obj)
        self.engine.release()

    def under(self, ceiling: LimitOverrides | None) -> Sandbox:
        """This sandbox, whose containers of a suite's own commands get at most ``ceiling`` instead; None: as before."""
        if ceiling is None:
            return self
        bounded = copy(self)
        bounded.specs = self.specs.under(ceiling)
        return bounded

    # -- containers -----------------------------------------------------------------------------------
    def run(
        self,
        role: Role,
        argv: Sequence[str],
        *,
        stdin: Stdin = b"",
        on_output: OnOutput | None = None,
        on_errors: OnOutput | None = None,
        keep: bool = False,
        steps_after: str | None = None,
        added_s: Callable[[], float] | None = None,
        spare_s: float = 0.0,
        **inside: Unpack[Inside],
    ) -> ExecResult:
        """Run ``argv`` in a fresh container of ``role`` and remove it.

        ``keep`` leaves the stopped container, for ``commit`` or for more steps. ``steps_after``: the container that did
        the steps before these, whose files it takes over, empty before the first; None: no steps. ``added_s``: seconds
        by which its time limit is put off so far, at most ``spare_s``.
        """
        if self.cancelled():
            raise Cancelled
        if self._must_enforce and role is not Role.PROBE:
            self.check_enforced(inside["image"])
        spec = self.specs.container(role, argv, **inside)
        if added_s is not None:
            spec = replace(spec, spare_s=spare_s)
        if steps_after is not None:
            spec = replace(spec, continues=steps_after, tells_changes=True)
        result = self._in_turn(
            role,
            Command(
                spec=spec,
                stdin=stdin,
                on_output=on_output,
                on_errors=on_errors,
                cancelled=self.cancelled,
                keep=keep,
                added_s=added_s or not_put_off,
            ),
        )
        if result.outcome == "cancelled":
            if keep:  # nobody learns its name
                self.engine.remove(result.container)
            raise Cancelled
        if result.outcome == "exited" and result.exit_code == 137:
            result = self._blame_engine(result)
        log.debug(
            "container.done",
            role=role.value,
            outcome=result.outcome,
            exit_code=result.exit_code,
            seconds=round(result.duration_s, 3),
        )
        return result

    def _in_turn(self, role: Role, command: Command) -> ExecResult:
        """Run ``command`` when the test that this thread works for may go on; the test remembers it."""
        seen = seen_here()
        since = seen.since if seen else 0.0
        turn = self._turns.turn(since, self.cancelled) if role in _TAKE_TURNS else nullcontext()
        with turn:
            begun = time.monotonic()
            result = self.engine.run(command)
        if seen is not None:
            seen.add(role.value, begun, result.outcome)
        return result

    @contextmanager
    def conversation(
        self,
        role: Role,
        argv: Sequence[str],
        **inside: Unpack[Inside],
    ) -> Iterator[StdioConversation]:
        """A container that is talked to for as long as the block lasts."""
        if self.cancelled():
            raise Cancelled
        if self._must_enforce:
            self.check_enforced()
        spec = self.specs.container(role, argv, **inside)
        talk = self.engine.converse(spec)
        try:
            yield talk
        finally:
            talk.close()
            self.engine.remove(talk.container)

    def check_enforced(self, image: str = "") -> Enforcement:
        """What the engine enforces, found out once: by what it says, and by the first container, which reads what is
        in force for it. ``image`` is used where there is no tool image; without either the engine's word is all.

        Raises SandboxError where limits are missing.
        """
        with self._probe_lock:
            if self._enforcement is None:
                refuse_unseen(self.info, self.runtime)
                demand(declared(self.info))
                if not (image := self.tool_image or image):
                    return declared(self.info)
                result = self.run(Role.PROBE, PROBE, image=image)
                enforcement = observed(result, self.specs.bounded(POLICIES[Role.PROBE].limits, Role.PROBE))
                demand(enforcement)
                if enforcement.unknown:
                    log.warning("limits.unseen", what=", ".join(enforcement.unknown))
                self._enforcement = enforcement
            return self._enforcement

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
        volumes: VolumeSet | None = None
        try:
            for name, spec in self.specs.volumes(specs).items():
                check_positive(spec, "size_bytes", "inodes")
                self.engine.create_volume(
                    names[name],
                    spec,
                    labels={**self.specs.labels(Role.HOLDER), LABEL_SET: stem},
                )
            holder = self._hold(names, stem)
            for name, spec in specs.items():
                if spec.disk:
                    self._open_to_all(names[name])
            volumes = VolumeSet(self.engine, names, holder)
            yield volumes
        finally:
            self._holders.discard(holder)
            if volumes is not None and volumes.kept and self._may_keep:
                for name in names.values():
                    self.engine.keep_volume(name)
                self._kept |= {holder, *names.values()}
            else:
                if holder:
                    self.engine.remove(holder)
                for name in names.values():
                    self.engine.remove_volume(name)

    @contextmanager
    def unheld_workspace(self, spec: VolumeSpec) -> Iterator[str]:
        """The name of an empty tmpfs volume for a workspace, which lasts as long as a container mounts it."""
        if self.cancelled():
            raise Cancelled
        spec = self.specs.volumes({"workspace": spec})["workspace"]
        check_positive(spec, "size_bytes", "inodes")
        name = f"{_VOLUME_TAG}-{self.run_id}-{secrets.token_hex(4)}-workspace"
        try:
            self.engine.create_volume(name, spec, labels=self.specs.labels(Role.SESSION))
            yield name
        finally:
            self.engine.remove_volume(name)

    @contextmanager
    def deferred_volumes(self, **specs: VolumeSpec) -> Iterator[DeferredVolumes]:
        """The same, made when the first container needs one of them."""
        with ExitStack() as stack:
            yield DeferredVolumes(lambda: stack.enter_context(self.volumes(**specs)))

    def _open_to_all(self, volume: str) -> None:
        """A plain volume belongs to root, who may change its mode; nobody but this case's containers sees it."""
        mount = Mount(source=volume, target=WORKSPACE, read_only=False)
        result = self.run(
            Role.SEALER, ["/usr/bin/chmod", "0777", WORKSPACE], image=self.tool_image, mounts=[mount]
        )
        if not result.ok:
            raise SandboxError(
                f"a workspace on disk cannot be made: {result.stderr.decode('utf-8', 'replace')}"
            )

    @contextmanager
    def system(
        self,
        image: str,
        *,
        size_bytes: int,
        inodes: int,
        user: str = "",
        over: System | None = None,
        bare: bool = False,
    ) -> Iterator[System]:
        """A writable copy of ``image``'s files with room for so many changes, for containers that follow each other;
        removed at the end. ``user``: whose their processes are, a name or a number that the image knows; empty: the
        image's own. ``over``: what it begins with beside the image; nobody may use that meanwhile. ``bare``: without
        folders for what only suites mount.

        Raises SandboxError where the engine has none.
        """
        if not self.info.systems:
            raise SandboxError(
                f"the {self.info.kind} engine gives no agent a system of its own", hint=WITHOUT_SYSTEMS
            )
        below = over.name if over is not None else ""
        spec = VolumeSpec(size_bytes=size_bytes, inodes=inodes, image=image, over=below, bare=bare)
        user = user or self.users.of_image(image)
        with self.volumes(system=spec) as volumes:
            yield System(name=volumes.mount("system", SYSTEM).source, image=image, user=user)

    def _hold(self, names: Mapping[str, str], stem: str) -> str:
        mounts = tuple(
            Mount(source=volume, target=f"/volumes/{name}", read_only=False) for name, volume in names.items()
        )
        spec = self._holder(("/usr/bin/sleep", "infinity"), mounts)
        holder = self.engine.hold(replace(spec, labels={**spec.labels, LABEL_SET: stem}))
        self._holders.add(holder)
        return holder

    def _holder(self, argv: Sequence[str], mounts: tuple[Mount, ...]) -> ContainerSpec:
        """A container of ours with writable volumes, in which nothing of a suite or an agent runs."""
        spec = self.specs.container(Role.HOLDER, argv, image=self.tool_image)
        return replace(spec, mounts=mounts)

    @contextmanager
    def plain_volume(self, staged: Iterable[StagedFile]) -> Iterator[str]:
        """A disk volume filled once and only ever mounted read-only; yields its name."""
        name = f"{_VOLUME_TAG}-{self.run_id}-{secrets.token_hex(4)}-data"
        self.engine.create_volume(name, VolumeSpec(disk=True), labels=self.specs.labels(Role.HOLDER))
        try:
            self.fill(name, staged)
            yield name
        finally:
            self.engine.remove_volume(name)

    def fill(self, volume: str, staged: Iterable[StagedFile], *, uid: int = 0) -> None:
        """Put files of ``uid`` into a volume of ours."""
        with self.holding(volume) as filler:
            self.engine.put(filler, _DATA, Tar(tuple(staged), uid=uid))

    @contextmanager
    def holding(self, volume: str) -> Iterator[str]:
        """Keep ``volume`` from being removed by anybody; yields the container that holds it, which never runs."""
        mount = Mount(source=volume, target=_DATA, read_only=False)
        holder = self.engine.create(self._holder(("/usr/bin/true",), (mount,)))
        try:
            yield holder
        finally:
            self.engine.remove(holder)
