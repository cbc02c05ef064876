"""What the cluster path costs besides the tests, and what that means for 10, 100 and 1,000 workers.

Measured: round trips of jobs through Dask's scheduler, bytes through it in pieces, rows that the coordinator writes.
Computed from these: which of them is the first to be busy all the time (docs/scale.md).
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import tempfile
import time
from pathlib import Path

from distributed import Client, Scheduler, Worker

from agentv_sandbox.models.case import CaseResult, GraderResult
from agentv_sandbox.models.suite import EvalCase, Suite
from agentv_sandbox.request.travel import PIECE, SLOT
from agentv_sandbox.runfolder.folder import RunFolder

JOBS = 400
SLOTS = 32
ROWS = 200
OUTCOME = 8 << 10
"""Bytes of a small result: messages, scores, hashes."""
SUITE_TESTS = 10_000
TEST_S = 60.0
SLOTS_EACH = 8
PROJECT = 20 << 20


def job(number: int) -> bytes:
    return number.to_bytes(4, "big") * (OUTCOME // 4)


async def taken(data: bytes) -> int:
    return len(data)


async def dask_costs() -> tuple[float, float]:
    """Seconds a round trip of a job when many are under way, and bytes a second of pieces."""
    async with (
        Scheduler(host="127.0.0.1", port=0, dashboard=False) as scheduler,
        Worker(
            scheduler.address, nthreads=SLOTS, resources={SLOT: SLOTS}, dashboard=False, memory_limit=0
        ) as worker,
        Client(scheduler.address, asynchronous=True, set_as_default=False) as client,
    ):
        pinned = {"workers": [worker.address], "allow_other_workers": False, "resources": {SLOT: 1}}
        await client.submit(job, 1, pure=False, **pinned)
        began = time.perf_counter()
        places = asyncio.Semaphore(SLOTS)

        async def one(number: int) -> None:
            async with places:
                await client.submit(
                    job, number, key=f"job-{secrets.token_hex(6)}", pure=False, retries=0, **pinned
                )

        await asyncio.gather(*map(one, range(JOBS)))
        trip = (time.perf_counter() - began) / JOBS
        piece = os.urandom(PIECE)
        began = time.perf_counter()
        for _ in range(16):
            await client.run(taken, piece, workers=[worker.address])
        return trip, 16 * PIECE / (time.perf_counter() - began)


def row_cost() -> float:
    """Seconds that the coordinator takes to write a test's folder and row, with fsync."""
    with (
        tempfile.TemporaryDirectory() as folder,
        RunFolder.create(Path(folder) / "out", Path(folder)) as results,
    ):
        suite = Suite(path=Path(folder) / "s.eval.yaml", project_root=Path(folder), search_roots=(), name="s")
        scores = (GraderResult(name="contains", type="contains", score=1.0, verdict="pass"),)
        began = time.perf_counter()
        for number in range(ROWS):
            case = EvalCase(id=f"t{number}", suite="s", category="c")
            result = CaseResult(
                case_id=case.id,
                suite="s",
                category="c",
                target="t",
                score=1.0,
                status="ok",
                threshold=0.8,
                scores=scores,
            )
            results.write_result(result, case, suite)
        return (time.perf_counter() - began) / ROWS


def main() -> None:
    trip, bandwidth = asyncio.run(dask_costs())
    row = row_cost()
    out = sys.stdout
    out.write(f"job through scheduler, worker and client in one process: {trip * 1000:.1f} ms\n")
    out.write(f"pieces of {PIECE >> 20} MiB through the scheduler: {bandwidth / (1 << 20):.0f} MiB/s\n")
    out.write(f"one row with its folder: {row * 1000:.1f} ms\n")
    out.write(
        f"{SUITE_TESTS} tests of {TEST_S:.0f} s, {SLOTS_EACH} slots a worker, a project of {PROJECT >> 20} MiB:\n"
    )
    for workers in (10, 100, 1000):
        rate = workers * SLOTS_EACH / TEST_S
        limit = min(1 / trip, 1 / row)
        ideal = SUITE_TESTS / rate
        real = SUITE_TESTS / min(rate, limit) + workers * PROJECT / bandwidth
        busy = f"jobs {rate * trip:.0%}, rows {rate * row:.0%} of the time"
        out.write(
            f"  {workers:>5} workers: {rate:.1f} tests/s wanted; {busy}; sending the project "
            f"{workers * PROJECT / bandwidth:.0f} s; {ideal:.0f} s of tests take {real:.0f} s\n"
        )


if __name__ == "__main__":
    main()
