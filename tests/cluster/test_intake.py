"""What workers send is checked before it is used: results against jobs, contents against hashes."""

from __future__ import annotations

import asyncio
import hashlib
import pickle
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from agentv_sandbox.cluster.intake import Intake, checked_result
from agentv_sandbox.containers.blobs import BlobStore
from agentv_sandbox.models.case import CaseResult
from agentv_sandbox.models.content import Blob
from agentv_sandbox.models.suite import EvalCase, Target
from agentv_sandbox.request.jobs import Job
from agentv_sandbox.request.travel import JobOutcome, KeptBlob, WorkerUnfit

JOB = Job(case=EvalCase(id="a", suite="s", category="c"), target=Target(name="t", provider="mock"))
HASHES = {"test": "1", "files": "2"}
RESULT = CaseResult(
    case_id="a",
    suite="s",
    category="c",
    target="t",
    score=1.0,
    status="ok",
    threshold=0.8,
    input_hashes=HASHES,
)


def kept(data: bytes, **other: object) -> KeptBlob:
    values = {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data), **other}
    return KeptBlob(store="artifacts", blob=Blob(**values))  # type: ignore[arg-type]


def taken(folder: Path, blobs: list[KeptBlob], contents: Mapping[str, bytes], sent: list[bytes]) -> list[str]:
    """Names of what is in the store then."""

    async def fetch(_kept: KeptBlob) -> AsyncIterator[bytes]:
        for piece in sent:
            yield piece

    store = BlobStore(folder)
    outcome = JobOutcome(attempt="1", result=b"", blobs=tuple(blobs), contents=contents)
    try:
        asyncio.run(
            Intake({"artifacts": store, "captured": BlobStore(folder / "other")}).take(outcome, fetch)
        )
    finally:
        names = sorted(path.name for path in (folder / "sha256").iterdir())
    return names


def test_contents_are_kept_under_their_hash(tmp_path: Path) -> None:
    small, large = kept(b"small"), kept(b"large and in pieces")
    names = taken(tmp_path, [small, large], {small.blob.sha256: b"small"}, [b"large and", b" in pieces"])
    assert names == sorted([small.blob.sha256, large.blob.sha256])


@pytest.mark.parametrize(
    ("blob", "contents", "sent"),
    [
        (kept(b"true"), {kept(b"true").blob.sha256: b"false"}, []),
        (kept(b"true"), {}, [b"false"]),
        (kept(b"true"), {}, [b"true", b" and much more"]),
        (kept(b"true"), {}, [b"tr"]),
        (kept(b"", sha256="../../../etc/passwd"), {"../../../etc/passwd": b""}, []),
        (kept(b"", size=-1), {}, []),
        (kept(b"", size=1 << 50), {}, []),
        (KeptBlob(store="elsewhere", blob=kept(b"").blob), {}, []),  # type: ignore[arg-type]
    ],
)
def test_what_is_not_what_its_hash_says_is_not_kept(
    tmp_path: Path, blob: KeptBlob, contents: Mapping[str, bytes], sent: list[bytes]
) -> None:
    with pytest.raises(WorkerUnfit, match="not what their hashes say"):
        taken(tmp_path, [blob], contents, sent)
    assert not list((tmp_path / "sha256").iterdir())


def outcome(result: object) -> JobOutcome:
    return JobOutcome(attempt="1", result=pickle.dumps(result))


@pytest.mark.parametrize("other", [{"case_id": "b"}, {"target": "u"}, {"suite": "z"}])
def test_the_result_of_another_test_is_refused(other: Mapping[str, str]) -> None:
    assert checked_result(outcome(RESULT), JOB, HASHES, ()) == RESULT
    with pytest.raises(WorkerUnfit, match="another test"):
        checked_result(outcome(replace(RESULT, **other)), JOB, HASHES, ())  # type: ignore[arg-type]
    with pytest.raises(WorkerUnfit, match="another test"):
        checked_result(outcome("no result"), JOB, HASHES, ())


def test_a_test_that_is_made_of_something_else_there_is_refused_with_what() -> None:
    with pytest.raises(WorkerUnfit, match="other files:"):
        checked_result(outcome(replace(RESULT, input_hashes={**HASHES, "files": "3"})), JOB, HASHES, ())


def test_no_folder_is_taken_from_a_worker_and_trials_from_before_stay_as_they_are(tmp_path: Path) -> None:
    before = replace(RESULT, trial=1, files_from=tmp_path)
    sent = replace(
        RESULT,
        files_from=Path("/etc"),
        trials=(replace(RESULT, trial=1, score=0.0), replace(RESULT, trial=2, files_from=Path("/etc"))),
    )
    result = checked_result(outcome(sent), JOB, HASHES, (before,))
    assert result.files_from is None
    assert result.trials == (before, replace(RESULT, trial=2))
