"""One worker: what the coordinator knows of it, and how it is asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from typing import Any

from distributed import Client

from agentv_sandbox import __version__
from agentv_sandbox.base.dataclass import dataclass
from agentv_sandbox.base.logs import error_line, safe_text
from agentv_sandbox.cluster import hosting
from agentv_sandbox.cluster.attempts import Assignment
from agentv_sandbox.containers.blobs import BlobStore
from agentv_sandbox.models.content import Blob
from agentv_sandbox.models.json.value import Json
from agentv_sandbox.request.travel import (
    PIECE,
    KeptBlob,
    ReadyReport,
    WorkerReport,
    WorkerUnfit,
)

_ANSWER_S = 10.0
_HELLO_S = 20.0
_STILL_THERE_S = 5.0
_OPEN_S = 60.0
_PIECES_S = 120.0


@dataclass(eq=False)
class WorkerLink:
    """A worker in one run. All its coroutines belong to the event loop of ``client``."""

    client: Client
    run: str
    address: str
    report: WorkerReport | None = None
    ready: ReadyReport | None = None
    running: dict[str, Assignment] = field(default_factory=dict)
    rows: int = 0
    errors: int = 0
    """Jobs in a row that ended in an exception."""
    problem: str = ""
    """Why it gets no more jobs; empty: it may."""
    heard: float = field(default_factory=time.monotonic)
    task: asyncio.Task[None] | None = None

    @property
    def name(self) -> str:
        return safe_text(self.report.name, limit=80) if self.report else self.address

    @property
    def usable(self) -> bool:
        return self.ready is not None and not self.problem

    @property
    def slots(self) -> int:
        return self.report.slots if self.report else 0

    @property
    def free(self) -> int:
        return self.slots - len(self.running)

    async def call(self, function: Callable[..., object], *args: object, timeout: float = _ANSWER_S) -> Any:
        """What ``function`` returns there, outside of Dask's tasks. Raises what it raises, OSError, TimeoutError."""
        call = self.client.run(function, *args, workers=[self.address], on_error="return")
        answers = await asyncio.wait_for(call, timeout)
        answer = answers[self.address]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def introduce(self) -> None:
        """Ask what it is. Raises WorkerUnfit where it cannot understand this coordinator."""
        report = await self.call(hosting.report, timeout=_HELLO_S)
        if not isinstance(report, WorkerReport):
            raise WorkerUnfit("it is not a worker of agentv-sandbox")
        self.report = report
        here = hosting.python_version()
        if report.version != __version__:
            raise WorkerUnfit(f"it has agentv-sandbox {report.version}, and the coordinator {__version__}")
        if report.python != here:
            raise WorkerUnfit(f"it has Python {report.python}, and the coordinator {here}")

    def check_architecture(self, leader: WorkerLink) -> None:
        """Raises WorkerUnfit where the images of ``leader`` are not for it."""
        assert self.report is not None and leader.report is not None
        if self.report.architecture != leader.report.architecture:
            raise WorkerUnfit(
                f"it has {self.report.architecture}, and the images of this run are for {leader.report.architecture}"
            )

    async def send_project(self, parcel: bytes, contents: BlobStore) -> None:
        """Begin the run there with the contents that it lacks."""
        missing = await self.call(hosting.open_run, parcel, timeout=_OPEN_S)
        async for batch in _batches(missing, contents):
            await self.call(hosting.take_pieces, self.run, batch, timeout=_PIECES_S)

    async def fetch(self, kept: KeptBlob) -> AsyncIterator[bytes]:
        """The pieces of a content that it has."""
        offset = 0
        while offset < kept.blob.size:
            ask = (self.run, kept.store, kept.blob.sha256, offset)
            data = await self.call(hosting.read_piece, *ask, timeout=_OPEN_S)
            if not data:
                return
            offset += len(data)
            yield data

    async def end_run(self, *, timeout: float = _ANSWER_S) -> None:
        """Have it remove what the run left there. One that is gone, hangs or is cut off is not waited for: it sees by
        itself that its coordinator left."""
        with suppress(Exception):
            await self.call(hosting.report, timeout=_STILL_THERE_S)
            await self.call(hosting.end_run, self.run, timeout=timeout)

    def record(self) -> Json:
        """For ``run.json``."""
        report, ready = self.report, self.ready
        return {
            "name": self.name,
            "host": report.host if report else "",
            "address": self.address,
            "process": report.process if report else 0,
            "version": report.version if report else "",
            "architecture": report.architecture if report else "",
            "slots": self.slots,
            "rows": self.rows,
            **({"engine": ready.facts["engine"], "isolation": ready.engine} if ready else {}),
            **({"problem": self.problem} if self.problem else {}),
        }


Pieces = list[tuple[str, bytes, bool]]


async def _batches(hashes: Iterable[str], contents: BlobStore) -> AsyncIterator[Pieces]:
    """Contents in messages of about one piece: many small ones, or a part of one, each with whether it is the last."""
    batch: Pieces = []
    size = 0
    for sha256 in hashes:
        async for data, last in _pieces(contents.path(Blob(sha256=sha256, size=0))):
            batch.append((sha256, data, last))
            size += len(data)
            if size >= PIECE:
                yield batch
                batch, size = [], 0
    if batch:
        yield batch


async def _pieces(path: Path) -> AsyncIterator[tuple[bytes, bool]]:
    with path.open("rb") as stream:
        data = await asyncio.to_thread(stream.read, PIECE)
        while True:
            following = await asyncio.to_thread(stream.read, PIECE)
            yield data, not following
            if not following:
                return
            data = following


def reason_of(error: BaseException) -> str:
    """Why a worker is lost that ``error`` came from, in a few words."""
    if isinstance(error, WorkerUnfit):
        return str(error)
    if isinstance(error, ModuleNotFoundError):
        return f"agentv-sandbox is not installed there ({error})"
    if isinstance(error, TimeoutError):
        return "it does not answer"
    if isinstance(error, OSError):
        return "the connection to it broke"
    return error_line(error) if isinstance(error, Exception) else type(error).__name__
