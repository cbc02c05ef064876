"""What of a result goes to the coordinator: the result, which contents it refers to, and the small ones of these."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace

from agentv_sandbox.base.dataclass import dataclass
from agentv_sandbox.containers.blobs import BlobStore
from agentv_sandbox.models.case import CaseFailure, CaseOutput, CaseResult, FileEntry
from agentv_sandbox.models.content import STORES, Blob, Store
from agentv_sandbox.request.travel import JobOutcome, KeptBlob
from agentv_sandbox.rows.redact import Redactor

_INLINE = 1 << 20
"""Bytes of contents that come with a result."""


@dataclass(frozen=True)
class Sender:
    """Of one run on one worker."""

    worker: str
    stores: Mapping[Store, BlobStore]
    own_secrets: Redactor
    """Those whose values the coordinator cannot mask, as it has others."""

    def outcome(self, attempt: str, result: CaseResult) -> JobOutcome:
        kept = f"on worker {self.worker}: {result.workspace_kept}" if result.workspace_kept else None
        result = replace(result, worker=self.worker, workspace_kept=kept)
        blobs = tuple(self._found(sorted(_blobs_of(result), key=lambda blob: blob.sha256)))
        data = pickle.dumps(result)
        if self._holds_own_secret(data, blobs):
            return JobOutcome(attempt=attempt, result=pickle.dumps(self._withheld(result)))
        contents: dict[str, bytes] = {}
        left = _INLINE
        for each in blobs:
            if each.blob.size <= left:
                left -= each.blob.size
                store = self.stores[each.store]
                contents[each.blob.sha256] = store.read(each.blob, limit=each.blob.size + 1)
        return JobOutcome(attempt=attempt, result=data, blobs=blobs, contents=contents)

    def _found(self, blobs: Sequence[Blob]) -> list[KeptBlob]:
        found = []
        for blob in blobs:
            store = next((name for name in STORES if self.stores[name].path(blob).exists()), None)
            if store is not None:
                found.append(KeptBlob(store=store, blob=blob))
        return found

    def _holds_own_secret(self, data: bytes, blobs: Sequence[KeptBlob]) -> bool:
        if self.own_secrets.data(data) != data:
            return True
        paths = (self.stores[kept.store].path(kept.blob) for kept in blobs)
        return any(self.own_secrets.holds(path) for path in paths)

    def _withheld(self, result: CaseResult) -> CaseResult:
        message = (
            f"what it left holds a secret whose value only worker {self.worker} has, so it was not sent: give "
            "all workers and the coordinator the same value"
        )
        failure = CaseFailure(stage="teardown", code="report_error", message=message, fault="report_failed")
        return replace(
            result.without_bulk(), score=0.0, scores=(), status="execution_error", failure=failure, notes=()
        )


def _blobs_of(result: CaseResult) -> set[Blob]:
    """All contents that a result refers to."""
    outputs = [result.output]
    entries: list[FileEntry] = []
    for each in (result, *result.trials):
        outputs.append(each.output)
        for state in each.capture.states if each.capture else ():
            outputs.append(state.output)
            entries += state.workspace.entries.values()
            if state.system is not None:
                entries += (of_system.entry for of_system in state.system.entries.values())
    blobs = set()
    for output in outputs:
        if isinstance(output, CaseOutput):
            entries += output.manifest.values()
            files = (*output.files, *output.artifacts)
            blobs |= {file.blob for file in files if file.blob is not None}
    return blobs | {Blob(sha256=e.sha256, size=e.size) for e in entries if e.kind == "file" and e.sha256}
