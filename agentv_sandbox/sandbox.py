"""THE security policy: what each role's container may touch. Nothing else starts a container."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Literal

from agentv_sandbox.engines import ContainerEngine, OnOutput
from agentv_sandbox.models.container import ExecResult, Limits, Mount


class Role(StrEnum):
    AGENT = "agent"
    HOOK = "hook"
    PREPROCESSOR = "preprocessor"
    GRADER = "grader"
    COLLECTOR = "collector"
    BUILDER = "builder"
    HOLDER = "holder"


@dataclass(frozen=True, kw_only=True)
class StagedFile:
    """One entry to put into a volume. ``path`` is relative and already checked by the caller."""

    path: str | bytes
    data: bytes | Path = b""
    mode: int = 0o644
    kind: Literal["file", "dir", "symlink"] = "file"
    link: str = ""


class VolumeSet:
    """Size- and inode-limited volumes that live as long as their ``with`` block."""

    def mount(self, name: str, target: str, *, read_only: bool = True) -> Mount:
        raise NotImplementedError

    def put(self, name: str, files: Iterable[StagedFile], *, uid: int = 0) -> None:
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class VolumeSpec:
    size_bytes: int = 256 << 20
    inodes: int = 20_000
    uid: int = 0
    """Owner of the volume's root directory (mode 0755)."""


class Sandbox:
    """Every container, volume and network of one run."""

    run_id: str
    tool_image: str

    def __init__(self, engine: ContainerEngine) -> None:
        self.engine = engine

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
    ) -> ExecResult:
        """Run ``argv`` in a fresh container of ``role`` and remove it. ``limits`` None: the role's default;
        ``uid`` None: one of its own from the reserved range."""
        raise NotImplementedError

    @contextmanager
    def volumes(self, **specs: VolumeSpec) -> Iterator[VolumeSet]:
        """tmpfs volumes kept alive by one holder container; removed at the end, whatever happened."""
        raise NotImplementedError
        yield

    def new_uid(self) -> int:
        raise NotImplementedError

    cancelled: Callable[[], bool]
