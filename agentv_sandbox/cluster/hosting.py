"""A worker's process: what it answers to coordinators, and its life in Dask's cluster.

Everything that comes over the network is answered by a function of this module. Whoever may speak to the scheduler may
run any program here anyway, as Dask's protocol allows just that: the wall is around the cluster, not in it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import platform
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence

import dask
from distributed import Worker

from agentv_sandbox import __version__
from agentv_sandbox.base.errors import SandboxError
from agentv_sandbox.cluster.servers import server_folder, take_off_path
from agentv_sandbox.cluster.session import WorkerSession, WorkerSettings
from agentv_sandbox.models.content import Store
from agentv_sandbox.request.clusteraddress import ClusterAddress
from agentv_sandbox.request.travel import (
    SLOT,
    JobOrder,
    JobOutcome,
    Status,
    WorkerReport,
    WorkerUnfit,
)

_SPARE_THREADS = 2
_SCHEDULER_GONE_S = 30


class Host:
    """The runs that this process works for."""

    def __init__(self, settings: WorkerSettings, environ: Mapping[str, str]) -> None:
        self.settings = settings
        self._environ = environ
        self._sessions: dict[str, WorkerSession] = {}
        self._mutex = threading.Lock()

    def open(self, data: bytes) -> list[str]:
        """Begin a run, and say which contents are missing."""
        parcel = pickle.loads(data)  # noqa: S301 - from the coordinator, who may run programs here
        self.end_abandoned()
        with self._mutex:
            session = self._sessions.get(parcel.run)
            if session is None:
                session = self._sessions[parcel.run] = WorkerSession(parcel, self.settings, self._environ)
        session.beat()
        return session.missing()

    def session(self, run: str) -> WorkerSession:
        """Raises WorkerUnfit where there is none."""
        with self._mutex:
            if run not in self._sessions:
                raise WorkerUnfit("it does not know this run (any more)")
            return self._sessions[run]

    def close(self, run: str) -> None:
        with self._mutex:
            session = self._sessions.pop(run, None)
        if session is not None:
            session.end()

    def end_abandoned(self) -> None:
        """End runs whose coordinators are gone."""
        with self._mutex:
            gone = [run for run, session in self._sessions.items() if session.is_abandoned()]
        for run in gone:
            self.close(run)

    def close_all(self) -> None:
        for run in list(self._sessions):
            self.close(run)


_host: Host | None = None


def _this() -> Host:
    if _host is None:
        raise WorkerUnfit("it was not started by `agentv-sandbox worker`")
    return _host


# -- what a coordinator asks ------------------------------------------------------------------------------
def report() -> WorkerReport:
    """What this worker is."""
    settings = _this().settings
    return WorkerReport(
        name=settings.name,
        host=socket.gethostname(),
        process=os.getpid(),
        version=__version__,
        python=python_version(),
        architecture=platform.machine(),
        slots=settings.slots,
    )


async def open_run(parcel: bytes) -> list[str]:
    return await asyncio.to_thread(_this().open, parcel)


async def take_pieces(run: str, pieces: Sequence[tuple[str, bytes, bool]]) -> None:
    await asyncio.to_thread(_this().session(run).take, pieces)


async def start_run(run: str, locks: Mapping[str, str]) -> None:
    _this().session(run).start(locks)


async def sign_of_life(run: str) -> Status:
    return _this().session(run).beat()


async def read_piece(run: str, store: Store, sha256: str, offset: int) -> bytes:
    return await asyncio.to_thread(_this().session(run).read, store, sha256, offset)


async def end_suite(run: str, suite: str) -> list[str]:
    return await asyncio.to_thread(_this().session(run).after_all, suite)


async def end_run(run: str) -> None:
    await asyncio.to_thread(_this().close, run)


def run_order(order: JobOrder) -> JobOutcome:
    """A task of Dask: one job."""
    return _this().session(order.run).run(order)


def python_version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


# -- the process ------------------------------------------------------------------------------------------
async def serve(
    address: ClusterAddress,
    settings: WorkerSettings,
    environ: Mapping[str, str],
    stop: threading.Event,
    say: Callable[[str], None],
) -> None:
    """Work for the scheduler until ``stop`` is set. Raises SandboxError when the scheduler cannot be
    reached, or goes."""
    global _host  # noqa: PLW0603 - functions that come over the network find it here
    host = _host = Host(settings, environ)
    security = address.security("worker")
    logging.getLogger("distributed").setLevel(logging.ERROR)  # it shows what was sent, where a call fails
    try:
        # A job that ended with its worker is this project's to give to another one, and never Dask's.
        kept_in_memory = {"distributed.worker.memory.target": False, "distributed.worker.memory.spill": False}
        with server_folder() as folder, dask.config.set(kept_in_memory):
            worker = Worker(
                address.scheduler,
                local_directory=folder,
                nthreads=settings.slots + _SPARE_THREADS,
                name=settings.name,
                resources={SLOT: settings.slots},
                security=security,
                dashboard=False,
                memory_limit=0,
                death_timeout=_SCHEDULER_GONE_S,
                validate=False,
            )
            take_off_path(worker)
            async with worker:
                say(f"worker {settings.name} at {worker.address}: {settings.slots} slots, waiting for runs")
                await _until(worker, host, stop)
        if not stop.is_set():
            raise SandboxError(
                f"the scheduler at {address.scheduler} is gone",
                hint="Start the worker again when it is back, or have a supervisor do so.",
            )
    except (OSError, TimeoutError) as error:
        raise SandboxError(
            f"the scheduler at {address.scheduler} cannot be reached: {error}",
            hint="Does it listen there, with tcp:// or tls:// as given?",
        ) from error
    finally:
        await asyncio.to_thread(host.close_all)
        _host = None


async def _until(worker: Worker, host: Host, stop: threading.Event) -> None:
    ended = asyncio.ensure_future(worker.finished())
    try:
        while not stop.is_set() and not ended.done():
            await asyncio.wait([ended], timeout=1)
            await asyncio.to_thread(host.end_abandoned)
    finally:
        ended.cancel()
