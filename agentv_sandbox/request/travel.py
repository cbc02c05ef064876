"""What travels between a coordinator and its workers. Values of secrets are in none of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Literal

from agentv_sandbox.base.dataclass import dataclass
from agentv_sandbox.models.case import CaseResult
from agentv_sandbox.models.container import LimitOverrides
from agentv_sandbox.models.content import Blob, Store
from agentv_sandbox.models.image import ProvedImage
from agentv_sandbox.request import RunRequest

SLOT = "agentv-sandbox-slot"
"""Resource of Dask's scheduler: one for each job that a worker runs at a time."""
PIECE = 4 << 20
"""Bytes of one message with contents."""
BEAT_S = 2.0
"""Seconds between two signs of life that each side gives the other."""
ABANDONED_S = 20.0
"""Without a sign of life for so long, the other side is gone: a coordinator gives a worker's jobs to others, and a
worker ends what it does for that coordinator."""

JobName = tuple[str, str, str]
"""Target, suite and test."""


@dataclass(frozen=True, kw_only=True)
class ParcelFile:
    """A file of the project, at its path below the worker's copy of the tree."""

    path: str
    """Of the coordinator, without the leading slash."""
    mode: int = 0o644
    blob: Blob | None = None
    """None for a folder and a symbolic link."""
    link: str = ""
    """What a symbolic link says; empty for a folder."""


@dataclass(frozen=True, kw_only=True)
class KnownSecrets:
    """Which values of secrets the coordinator masks, without saying them."""

    salt: bytes
    digests: frozenset[bytes]


@dataclass(frozen=True, kw_only=True)
class RunParcel:
    """What a worker needs to make the same suites again."""

    run: str
    """Identifies the run among those that a worker works for."""
    roots: tuple[str, ...]
    """Of projects; like all paths here those of the coordinator, without the leading slash."""
    cwd: str
    suites: Mapping[str, str | None]
    """Eval file and targets file of each, in their order."""
    request: RunRequest
    """Without paths of the coordinator."""
    run_env: Mapping[str, str]
    required_tiers: tuple[str | None, ...]
    ceilings: Mapping[str, LimitOverrides]
    """By root: what the coordinator's operator and the project allow at most."""
    files: tuple[ParcelFile, ...]
    recording: tuple[ParcelFile, ...] | None
    """Of a replay, by paths below its folder."""
    secrets: KnownSecrets


@dataclass(frozen=True, kw_only=True)
class WorkerReport:
    """What a worker says of itself before it is given anything."""

    name: str
    host: str
    process: int
    version: str
    python: str
    """Major and minor number: records of one are not those of another."""
    architecture: str
    slots: int
    problem: str = ""
    """Why it cannot run anything."""


@dataclass(frozen=True, kw_only=True)
class ReadyReport:
    """What a worker has when it is ready for the jobs of a run."""

    engine: str
    """Engine and runtime in a few words."""
    facts: Mapping[str, Any]
    """The engine and its tier, for ``run.json``."""
    images: Mapping[str, ProvedImage]
    """By eval file, as in the parcel."""
    locks: Mapping[str, str]
    """Text of each suite's lock, by its path: what another worker makes the same images of."""
    hashes: Mapping[str, Mapping[str, str]]
    """What the first job of each suite is made of there, by eval file."""


@dataclass(frozen=True, kw_only=True)
class Status:
    """What a worker answers to a sign of life."""

    state: Literal["receiving", "preparing", "ready", "failed", "ended"]
    ready: ReadyReport | None = None
    """Once: in the first answer after it became so, and until it is confirmed."""
    problem: str = ""
    events: Sequence[tuple[str, Mapping[str, object]]] = ()


@dataclass(frozen=True, kw_only=True)
class JobOrder:
    """One job for one worker."""

    run: str
    attempt: str
    suite: str
    """Its eval file, as in the parcel."""
    job: JobName
    spent_usd: float = 0.0
    """By all rows of the suite so far."""
    begun: tuple[CaseResult, ...] = ()
    """Trials of the test that stand from before."""


@dataclass(frozen=True, kw_only=True)
class KeptBlob:
    """A content that a result refers to, and in which store of the worker it is."""

    store: Store
    blob: Blob


@dataclass(frozen=True, kw_only=True)
class JobOutcome:
    """What a worker made of an order."""

    attempt: str
    result: bytes
    """The ``CaseResult``, pickled."""
    blobs: tuple[KeptBlob, ...] = ()
    contents: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """Small ones, by hash; the others are asked for."""


class WorkerUnfit(Exception):
    """A worker cannot go on with a run; nothing is said about the job."""
