"""What stands in ``capture.json``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from agentv_sandbox.base.dataclass import dataclass
from agentv_sandbox.models.case import AgentResponse, Changes

Rows = tuple[tuple[Any, ...], ...]
"""Of a table: there may be a million, so that their columns have no names."""


@dataclass(frozen=True, kw_only=True)
class CaptureHead:
    """What is read of every version's file."""

    schema: str = ""
    version: str = "another"
    refused: str | None = None
    """Why nothing was kept."""
    masked: tuple[object, ...] = ()
    """Not empty where a secret was masked in it."""


@dataclass(frozen=True, kw_only=True)
class FileForm:
    number: int
    sha256: str | None = None
    size: int = 0
    workspace_path: str | None = None
    refused: str = ""
    declared: bool = False
    rule: str = ""


@dataclass(frozen=True, kw_only=True)
class ArtifactForm:
    path: str
    media_type: str
    file: FileForm


@dataclass(frozen=True, kw_only=True)
class BlockForm:
    raw: Any = None
    file: FileForm | None = None


@dataclass(frozen=True, kw_only=True)
class MessageForm:
    """Its content is the first of ``text``, ``turn``, ``blocks`` and ``object`` that is there."""

    role: str
    text: str | None = None
    turn: int | None = None
    """Of the suite's, whose input is the content."""
    blocks: tuple[BlockForm, ...] | None = None
    object: Mapping[str, Any] | None = None
    tool_calls: Any = None
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class OutputForm:
    messages: tuple[MessageForm, ...]
    skipped: tuple[tuple[str, ...], ...]
    """Path and reason."""
    changes: Changes | None = None
    artifacts: tuple[ArtifactForm, ...] = ()


@dataclass(frozen=True, kw_only=True)
class WorkspaceForm:
    entries: Rows
    """Path, kind, mode, hash, size, link, whether it was collected."""
    missing: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class SystemForm:
    entries: Rows
    """Path, kind, mode, hash, size, link, user, group."""
    gone: tuple[str, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class StateForm:
    name: str
    response: AgentResponse
    workspace: WorkspaceForm
    output: OutputForm | None = None
    system: SystemForm | None = None


@dataclass(frozen=True, kw_only=True)
class CaptureForm:
    answered_by: str
    asked: str
    image: str
    graders: Mapping[str, str]
    states: tuple[StateForm, ...]
