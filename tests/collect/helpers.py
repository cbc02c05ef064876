"""An agent that leaves files: a shell script in a real AGENT container, then the real collector."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from agentv_sandbox.containers.blobs import BlobStore
from agentv_sandbox.containers.policy import Role
from agentv_sandbox.containers.sandbox import Sandbox
from agentv_sandbox.containers.volumes import StagedFile, VolumeSet
from agentv_sandbox.models.case import AgentResponse, CaseOutput
from agentv_sandbox.models.container import ExecResult, Limits, Mount, VolumeSpec
from agentv_sandbox.models.content import AnswerMessage
from agentv_sandbox.models.json.value import Json
from agentv_sandbox.workspace.collect import Baseline, assemble, gather
from agentv_sandbox.workspace.collect.request import CollectLimits
from tests.answers import message


def says(*blocks: Json) -> tuple[AnswerMessage, ...]:
    return (message(list(blocks)),)


def file_block(path: str, media_type: str = "text/plain") -> Json:
    return {"type": "file", "media_type": media_type, "path": path}


@dataclass(frozen=True)
class Place:
    """A workspace and an output folder that belong to one uid."""

    volumes: VolumeSet
    uid: int

    def mounts(self, *, read_only: bool = True) -> list[Mount]:
        return [
            self.volumes.mount("workspace", "/workspace", read_only=read_only),
            self.volumes.mount("output", "/output", read_only=read_only),
        ]


@contextmanager
def workspace(
    sandbox: Sandbox, staged: Sequence[StagedFile] = (), *, size: int = 256 << 20, inodes: int = 20_000
) -> Iterator[Place]:
    uid = sandbox.specs.new_uid()
    spec = VolumeSpec(size_bytes=size, inodes=inodes, uid=uid)
    with sandbox.volumes(workspace=spec, output=VolumeSpec(uid=uid)) as volumes:
        volumes.put("workspace", staged, uid=uid)
        yield Place(volumes, uid)


def agent(
    sandbox: Sandbox,
    place: Place,
    script: str,
    *,
    interpreter: Sequence[str] = ("bash", "-ec"),
    limits: Limits | None = None,
) -> ExecResult:
    """Run ``script`` as an agent in the workspace; it must succeed."""
    result = sandbox.run(
        Role.AGENT,
        [*interpreter, script],
        image=sandbox.tool_image,
        mounts=place.mounts(read_only=False),
        workdir="/workspace",
        uid=place.uid,
        limits=limits,
    )
    assert result.ok, result
    return result


def collected(
    sandbox: Sandbox,
    place: Place,
    folder: Path,
    *,
    baseline: Baseline | None = Baseline(),
    messages: Sequence[AnswerMessage] = (),
    outputs: Sequence[str] = (),
    limits: CollectLimits = CollectLimits(),
) -> CaseOutput:
    store = BlobStore(folder)
    known = baseline.entries if baseline is not None else {}
    found = gather(sandbox, mounts=place.mounts(), known=known, store=store, limits=limits)
    return assemble(
        found,
        baseline=baseline,
        store=store,
        response=AgentResponse(messages=tuple(messages)),
        outputs=outputs,
        limits=limits,
    )
