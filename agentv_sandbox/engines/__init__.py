"""Container engines behind one Protocol. ``docker.py`` serves Docker and Podman, ``native`` needs no engine but an OCI
runtime; ``table.py`` lists and finds them.

The main verb is *one command in a fresh container*. Nothing is ever executed in a container in which agent
code has run, so there is no ``exec`` here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, Protocol

from agentv_sandbox.engines.stream import Conversation
from agentv_sandbox.models.container import (
    ContainerSpec,
    EngineInfo,
    ExecResult,
    ImageInfo,
    OwnedObject,
    Stdin,
)

LABEL_PREFIX = "agentv-sandbox."
LABEL_RUN = "agentv-sandbox.run"
LABEL_ROLE = "agentv-sandbox.role"
LABEL_OWNER = "agentv-sandbox.owner"
LABEL_KEEP = "agentv-sandbox.keep"
"""On volumes and holders that may outlive their run."""
LABEL_SET = "agentv-sandbox.set"
"""On the volumes of one workspace and on what holds them: what their names begin with."""
LABEL_ENV_KEY = "agentv-sandbox.env-key"

OnOutput = Callable[[bytes], None]
"""Receives chunks of standard output (not of standard error) as they arrive."""


class ContainerEngine(Protocol):
    """All verbs raise ``EngineUnavailable``, ``EngineLost`` or ``EngineError``, and what they say themselves."""

    address: str
    """Where it answers, such as ``unix:///var/run/docker.sock``."""

    def ping(self) -> None:
        """Raises EngineUnavailable when nothing answers."""
        ...

    def info(self) -> EngineInfo: ...

    # -- containers -----------------------------------------------------------------------------------
    def run(
        self,
        spec: ContainerSpec,
        *,
        stdin: Stdin = b"",
        on_output: OnOutput | None = None,
        on_errors: OnOutput | None = None,
        cancelled: Callable[[], bool] = lambda: False,
        keep: bool = False,
        added_s: Callable[[], float] = lambda: 0.0,
    ) -> ExecResult:
        """Create, verify against ``spec``, attach, start, read under caps, wait, inspect, remove.

        ``on_output`` and ``on_errors`` receive standard output and standard error as they arrive.
        ``keep`` leaves the stopped container (``ExecResult.container``) for ``commit`` or a look inside. ``added_s``
        says by how much the time limit has been put off so far, of which ``spec.spare_s`` counts at most.
        """
        ...

    def hold(self, spec: ContainerSpec) -> str:
        """Keep the volumes of ``spec`` alive, by a container that stays where the engine needs one. Returns its id."""
        ...

    def converse(self, spec: ContainerSpec) -> Conversation:
        """Create, verify, attach and start a container that stays and is talked to. The caller removes it."""
        ...

    def create(self, spec: ContainerSpec) -> str:
        """Create and verify, without starting (to fill a volume). Returns its id."""
        ...

    def running(self, container: str) -> bool:
        """Whether a container that was started is still up; of a holder, whether its volumes are still alive."""
        ...

    def put(self, container: str, path: str, tar: Iterable[bytes]) -> None:
        """Unpack a tar stream made by us at ``path``, owners and modes as in the stream."""
        ...

    def remove(self, container: str) -> None:
        """Kill and remove, with its anonymous volumes. Absent is fine."""
        ...

    def commit(self, container: str, *, tag: str, labels: Mapping[str, str]) -> str:
        """Image id of the container's file system, with a clean config: fixed PATH, no entrypoint, no CMD."""
        ...

    # -- volumes --------------------------------------------------------------------------------------
    def create_volume(self, name: str, *, options: Mapping[str, str], labels: Mapping[str, str]) -> None:
        """``options`` are those of the ``local`` driver (``type``, ``device``, ``o``); empty for a plain one."""
        ...

    def remove_volume(self, name: str) -> None: ...

    def keep_volume(self, name: str) -> None:
        """See to it that it can be looked into when this process is gone."""
        ...

    def command_to_look(self, volume: str, *, image: str, uid: int) -> str:
        """A command line with which a person looks into a volume that was kept."""
        ...

    # -- images ---------------------------------------------------------------------------------------
    def image(self, ref: str) -> ImageInfo | None:
        """None when the engine does not hold it."""
        ...

    def images(self, label: str) -> list[ImageInfo]: ...

    def pull(self, ref: str, *, timeout_s: float, cancelled: Callable[[], bool] = lambda: False) -> ImageInfo:
        """The image from its registry, with the user's own credentials. Raises Cancelled."""
        ...

    def load_image(self, archive: IO[bytes]) -> None:
        """Load a docker-archive (``docker save`` layout)."""
        ...

    def save_image(self, ref: str) -> Iterator[bytes]: ...

    def tag(self, image: str, tag: str) -> None: ...

    def build(
        self,
        context: IO[bytes],
        *,
        dockerfile: str,
        tag: str,
        labels: Mapping[str, str],
        on_output: OnOutput,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> str:
        """Build ``dockerfile``, a name in the tar ``context`` (a real file); the image's id.

        ``on_output`` gets the log by lines; the first says which builder is used. Raises BuildError with the
        readable log, Cancelled.
        """
        ...

    def remove_image(self, ref: str) -> None: ...

    # -- upkeep ---------------------------------------------------------------------------------------
    def owned(self, labels: Mapping[str, str | None]) -> list[OwnedObject]:
        """Containers and volumes with these labels (None: any value)."""
        ...

    def destroy(self, obj: OwnedObject) -> None: ...

    def release(self) -> None:
        """Let go of what this process holds for it. It may be used on."""
        ...
