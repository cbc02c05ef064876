"""Results and contents that come from workers, checked before anything of them is used.

Nothing that a worker sends becomes a path here: contents are named by the hash of their bytes, and results by the job
that was asked for.
"""

from __future__ import annotations

import hashlib
import pickle
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace

from agentv_sandbox.base.dataclass import dataclass
from agentv_sandbox.containers.blobs import BlobStore
from agentv_sandbox.models.case import CaseResult
from agentv_sandbox.models.content import Blob, Store
from agentv_sandbox.request.jobs import Job
from agentv_sandbox.request.travel import (
    JobOutcome,
    KeptBlob,
    WorkerUnfit,
)

_HASH = re.compile(r"[0-9a-f]{64}")
MOST_BLOBS = 400_000
MOST_BYTES = 8 << 30
"""Of the contents of one result."""

Fetch = Callable[[KeptBlob], AsyncIterator[bytes]]


@dataclass(frozen=True)
class Intake:
    """Where contents go."""

    stores: Mapping[Store, BlobStore]

    async def take(self, outcome: JobOutcome, fetch: Fetch) -> None:
        """Have all contents of ``outcome`` that are not here yet. Raises WorkerUnfit, OSError."""
        _check_sizes(outcome.blobs)
        for kept in outcome.blobs:
            if any(store.path(kept.blob).exists() for store in self.stores.values()):
                continue
            content = outcome.contents.get(kept.blob.sha256)
            if content is not None:
                self._put(kept, content)
            else:
                await self._fetch(kept, fetch)

    def _put(self, kept: KeptBlob, content: bytes) -> None:
        if hashlib.sha256(content).hexdigest() != kept.blob.sha256:
            raise _altered()
        self.stores[kept.store].put(content)

    async def _fetch(self, kept: KeptBlob, fetch: Fetch) -> None:
        writer = self.stores[kept.store].writer()
        hashed = hashlib.sha256()
        try:
            async for piece in fetch(kept):
                if writer.size + len(piece) > kept.blob.size:
                    raise _altered()
                hashed.update(piece)
                writer.write(piece)
            if hashed.hexdigest() != kept.blob.sha256:
                raise _altered()
        except BaseException:
            writer.abort()
            raise
        writer.commit()


def _check_sizes(blobs: Sequence[KeptBlob]) -> None:
    for kept in blobs:
        plain = kept.store in ("artifacts", "captured") and isinstance(kept.blob, Blob)
        if not plain or not _HASH.fullmatch(kept.blob.sha256) or not 0 <= kept.blob.size <= MOST_BYTES:
            raise _altered()
    if len(blobs) > MOST_BLOBS or sum(kept.blob.size for kept in blobs) > MOST_BYTES:
        raise WorkerUnfit(f"a result refers to more than {MOST_BYTES >> 30} GiB or {MOST_BLOBS} contents")


def checked_result(
    outcome: JobOutcome, job: Job, hashes: Mapping[str, str], begun: Sequence[CaseResult]
) -> CaseResult:
    """The result of ``job``, whose parts must have the ``hashes`` that they have here. Raises WorkerUnfit."""
    result = pickle.loads(outcome.result)  # noqa: S301 - Dask has unpickled what workers send before
    case = job.case
    if not isinstance(result, CaseResult) or (result.case_id, result.suite, result.target) != (
        case.id,
        case.suite,
        job.target.name,
    ):
        raise WorkerUnfit("it sent the result of another test")
    check_hashes(hashes, result.input_hashes)
    # Trials from before stand as they are here; of new ones nothing names a folder of this machine.
    here = {trial.trial for trial in begun}
    new = [replace(trial, files_from=None) for trial in result.trials if trial.trial not in here]
    trials = tuple(sorted((*begun, *new), key=lambda trial: trial.trial))
    return replace(result, files_from=None, trials=trials if result.trials else ())


def check_hashes(wanted: Mapping[str, str], seen: Mapping[str, str]) -> None:
    """Raises WorkerUnfit where a test is not made of the same there as here."""
    differing = [part for part, value in wanted.items() if seen.get(part) != value]
    if differing:
        raise WorkerUnfit(
            f"its tests are not those of the coordinator; other {', '.join(differing)}: variables of its environment "
            "that suites or targets use, perhaps, or another version"
        )


def _altered() -> WorkerUnfit:
    return WorkerUnfit("it sent contents that are not what their hashes say")
