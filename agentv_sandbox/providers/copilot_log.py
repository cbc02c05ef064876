"""``provider: copilot-log``: a session of GitHub Copilot that was recorded before, in the folder that it wrote."""

from __future__ import annotations

import re
from dataclasses import field
from pathlib import Path
from typing import ClassVar

from agentv_sandbox.agents.base import (
    AgentRun,
    Provider,
    Request,
    project_file,
    setting_problem,
)
from agentv_sandbox.agents.session import (
    SessionEvent,
    SessionRecord,
    milliseconds,
    recorded_at,
    recorded_events,
    text_of,
)
from agentv_sandbox.agents.settings import TargetSettings
from agentv_sandbox.authoring.fields import Text
from agentv_sandbox.base.dataclass import dataclass
from agentv_sandbox.base.errors import Problem
from agentv_sandbox.models.case import AgentResponse, CaseFailure
from agentv_sandbox.models.json.records import JsonRecord
from agentv_sandbox.models.suite import Target
from agentv_sandbox.providers.copilot import Copilot, CopilotLine, CopilotSettings

_MAX_BYTES = 64 << 20
_EVENTS = "events.jsonl"
_AT_HOME = (
    "nothing of your home folder is read here: copy the session's folder from ~/.copilot/session-state into the "
    "project, and name it in session_dir"
)


class CopilotLogSettings(TargetSettings):
    IGNORED: ClassVar = {
        **TargetSettings.IGNORED,
        "cwd": "it chooses among sessions for discover, which is not supported",
    }

    session_dir: Text | None = None
    """Folder of the session, copied from `~/.copilot/session-state` into the project."""
    session_id: Text | None = None
    """Name of a session in `session_state_dir`, in place of `session_dir`."""
    session_state_dir: Text | None = None
    """Folder of several sessions."""
    discover: Text | None = None
    """Refused: which session is the latest is not the same tomorrow."""
    cwd: Text | None = None


class CopilotLog(Provider):
    name = "copilot-log"
    summary = "A session of GitHub Copilot that was recorded before, from a folder of the project."
    settings = CopilotLogSettings

    def check(self, target: Target) -> list[Problem]:
        settings = CopilotLogSettings.as_loaded(target.settings)
        if settings.session_dir:
            return []
        if settings.discover and not settings.session_id:
            message = "discover is not supported: which session is the latest is not the same tomorrow"
            return [setting_problem(target, "discover", message, hint=_AT_HOME)]
        if not (settings.session_id and settings.session_state_dir):
            message = "session_dir is required, or session_state_dir with session_id"
            return [setting_problem(target, "session_dir", message, hint=_AT_HOME)]
        if not re.fullmatch(r"[\w-]{1,100}", str(settings.session_id), re.ASCII):
            message = "session_id must be the name of a folder: letters, digits, - and _"
            return [setting_problem(target, "session_id", message)]
        return []

    def response(self, request: Request, ran: AgentRun) -> AgentResponse:
        settings = CopilotLogSettings.as_loaded(request.target.settings)
        setting = "session_dir" if settings.session_dir else "session_state_dir"
        folder = Path(settings.session_dir or f"{settings.session_state_dir}/{settings.session_id}")
        path = project_file(
            request, setting, str(folder / _EVENTS), what="Copilot's session", most=_MAX_BYTES
        )
        session = CopilotSession()
        for event in recorded_events(path.read_bytes()):
            session.read(recorded_at(event))
        record = session.record
        if not record.answers:
            message = f"{path} has no message of the model"
            failure = CaseFailure(stage="agent", code="provider_error", message=message, fault="no_answer")
            return AgentResponse(failure=failure, attempts=request.attempt, target_used=request.target.name)
        facts = {
            "program": "copilot",
            "version": record.version,
            "model": record.model,
            "turns": record.turns,
        }
        return AgentResponse(
            messages=record.messages,
            token_usage=record.usage,
            duration_ms=session.duration_ms,
            start_time=session.first,
            end_time=session.last,
            agent={name: value for name, value in facts.items() if value not in ("", None)},
            attempts=request.attempt,
            target_used=request.target.name,
        )


class _Skill(JsonRecord):
    skill: str


@dataclass
class CopilotSession:
    """What the program keeps of a session in ``events.jsonl``."""

    record: SessionRecord = field(default_factory=lambda: SessionRecord(Copilot.tools))
    first: str | None = None
    last: str | None = None
    _skills: set[str] = field(default_factory=set)
    """Names of the skills that the model asked for with its tool."""

    @property
    def duration_ms(self) -> float | None:
        if self.first is None or self.last is None:
            return None
        return milliseconds(self.first, self.last)

    def read(self, event: SessionEvent) -> None:
        self.first, self.last = self.first or event.at, event.at or self.last
        line = CopilotLine.of(event.row)
        match line.type:
            case "session.start":
                self.record.version = text_of(line.data.copilot_version)
            case "skill.invoked":
                # One that the user asked for; the model's own calls of its tool stand in its messages.
                if (name := text_of(line.data.name)) not in self._skills:
                    self.record.called(f"skill-{line.id}", "skill", {"skill": name}, event.at)
            case "session.shutdown":
                line.data.count(self.record)
            case _:
                self._skills.update(
                    text_of(_Skill.of(request.arguments).skill) for request in line.data.tool_requests
                )
                _COPILOT.read_event(event, self.record)


_COPILOT = Copilot("copilot-cli", "", CopilotSettings)


KINDS = (CopilotLog(),)
