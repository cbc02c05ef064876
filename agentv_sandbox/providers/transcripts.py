"""The files in which Claude Code, Codex and Copilot themselves keep sessions, and what AgentV makes of them, read as
answers.

A stranger may have written such a file. Sizes are bounded as those of event streams; what it says of calls, time and
tokens is the word of an agent that nobody saw.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, get_args

from agentv_sandbox.agents.asked import figures_of_agents
from agentv_sandbox.agents.session import (
    MAX_VALUES,
    Row,
    SessionEvent,
    SessionEvents,
    SessionRecord,
    milliseconds,
    object_of,
    recorded_at,
    recorded_events,
    rows_of,
    text_of,
)
from agentv_sandbox.models.case import AgentResponse, Claim, Figure, Measure
from agentv_sandbox.models.json.untrusted import ForeignJsonError, amount, read_json
from agentv_sandbox.models.suite import Json, MeasuredBy, Target
from agentv_sandbox.providers.claude import Claude
from agentv_sandbox.providers.codex import SHELLS, unwrapped
from agentv_sandbox.providers.copilot_log import CopilotSession

MAX_BYTES = 64 << 20
"""Of one file."""
_AGENTV = "agentv.transcript.v1"
_CODEX = frozenset({"session_meta", "turn_context", "response_item", "event_msg"})
_MOST_ARGUMENTS = 1 << 20
_OUTPUT = "\nOutput:\n"
_CODE = re.compile(r"^Process exited with code (-?\d{1,10})$", re.MULTILINE)
_MOST_HEAD = 1000
_MAX_MS = 1e12


class NotATranscriptError(Exception):
    """What was read is not a session of a known program, or it has no answer."""


class _Kept(Protocol):
    """A session as its program keeps it."""

    program: str
    questions: int
    """Messages of a person."""

    @property
    def record(self) -> SessionRecord: ...
    def read(self, event: SessionEvent) -> None: ...
    def end(self) -> None:
        """Note what stands only at the end."""
        ...


def read_transcript(data: bytes, target: Target, by: MeasuredBy | None) -> tuple[AgentResponse, list[str]]:
    """The answer of a session, as if ``target`` had given it, and what is worth knowing about it. ``by``: whose word
    counts. Raises NotATranscriptError."""
    stream, kept, times = recorded_events(data), None, list[str]()
    for event in map(recorded_at, stream):
        kept = kept or _session_of(event.row)
        if kept is not None:
            kept.read(event)
            times = [*times[:1], event.at] if event.at else times
    if kept is None:
        raise NotATranscriptError(
            "is not a session that Claude Code, Codex or Copilot keeps, and not one that AgentV imported"
        )
    kept.end()
    record = kept.record
    if not record.messages:
        raise NotATranscriptError(f"has no message of the model, as a session of {kept.program} has")
    return _response(kept, times, target, by), list(_notes(stream, kept))


def _response(kept: _Kept, times: list[str], target: Target, by: MeasuredBy | None) -> AgentResponse:
    record, word = kept.record, figures_of_agents(by, heard=False)
    duration_ms = milliseconds(times[0], times[-1]) if times else record.duration_ms
    claim = Claim(token_usage=record.usage, duration_ms=duration_ms, turns=record.turns)
    said = {name for name in ("token_usage", "duration_ms") if getattr(claim, name) is not None}
    by_agent = word & (said | {"tool_calls"})
    facts = {"program": kept.program, "version": record.version, "model": record.model}
    return AgentResponse(
        messages=record.messages,
        token_usage=claim.token_usage if "token_usage" in by_agent else None,
        duration_ms=duration_ms if "duration_ms" in by_agent else None,
        claim=claim,
        measure=Measure(
            by_agent=tuple(name for name in get_args(Figure) if name in by_agent),
            calls_known="tool_calls" in word,
        ),
        start_time=times[0] if times else None,
        end_time=times[-1] if times else None,
        agent={name: value for name, value in facts.items() if value},
        target_used=target.name,
    )


def _notes(stream: SessionEvents, kept: _Kept) -> Iterable[str]:
    if kept.questions > 1:
        yield f"a person wrote {kept.questions} messages in the session: all answers count as those to the test"
    if stream.cut:
        yield "the session holds more events than are read; what came last is missing"
    if stream.skipped:
        yield f"{stream.skipped:,} lines of the session are not JSON objects; they were left out"
    if kept.record.left_out:
        yield f"{kept.record.left_out:,} characters of messages, inputs and outputs of tools were left out"


def _session_of(row: Row) -> _Kept | None:
    """Of the program that writes such lines; None where the line does not say which."""
    kind = text_of(row.get("type"))
    if row.get("schema_version") == _AGENTV:
        return _ImportedSession()
    if kind in ("user", "assistant") and isinstance(row.get("message"), dict):
        return _ClaudeSession()
    if kind in _CODEX and isinstance(row.get("payload"), dict):
        return _CodexSession()
    if "." in kind and isinstance(row.get("data"), dict):
        return _CopilotSession()
    return None


# -- Claude -------------------------------------------------------------------------------------------------
_CLAUDE = Claude("claude-cli", "", "")


@dataclass
class _ClaudeSession:
    program: str = "claude"
    questions: int = 0
    record: SessionRecord = field(default_factory=lambda: SessionRecord({}, results_end=True))
    _usage: dict[str, Row] = field(default_factory=dict)
    """By message: each line of one repeats it, the last as it was in the end."""

    def read(self, event: SessionEvent) -> None:
        row, message = event.row, object_of(event.row.get("message"))
        if row.get("isSidechain") is True:  # another agent, which a tool asked
            return
        if row.get("type") == "assistant":
            self.record.version = text_of(row.get("version")) or self.record.version
            self.record.model = self.record.model or text_of(message.get("model")).removeprefix("<synthetic>")
            self._usage[text_of(message.get("id"))] = object_of(message.get("usage"))
        elif row.get("type") == "user" and row.get("isMeta") is not True:
            content = message.get("content")
            blocks = rows_of(content)
            self.questions += isinstance(content, str) or any(each.get("type") == "text" for each in blocks)
        elif row.get("type") == "result":  # its streams have such a line; a kept session has none
            return
        _CLAUDE.read_event(event, self.record)

    def end(self) -> None:
        for usage in self._usage.values():
            read, created = usage.get("cache_read_input_tokens"), usage.get("cache_creation_input_tokens")
            parts = [part for part in (usage.get("input_tokens"), read, created) if isinstance(part, int)]
            self.record.add_usage(given=sum(parts), output=usage.get("output_tokens"), cached=read)


# -- Codex --------------------------------------------------------------------------------------------------
@dataclass
class _CodexSession:
    program: str = "codex"
    questions: int = 0
    record: SessionRecord = field(default_factory=lambda: SessionRecord({}))
    _usage: Row = field(default_factory=dict)
    """Of the whole session, as it was said last."""
    _searches: int = 0

    def read(self, event: SessionEvent) -> None:
        payload = object_of(event.row.get("payload"))
        match event.row.get("type"):
            case "session_meta":
                self.record.version = text_of(payload.get("cli_version"))
            case "turn_context":
                self.record.model = text_of(payload.get("model")) or self.record.model
                self.record.turns = (self.record.turns or 0) + 1
            case "event_msg" if payload.get("type") == "user_message":
                self.questions += 1
            case "event_msg" if payload.get("type") == "token_count":
                totals = object_of(object_of(payload.get("info")).get("total_token_usage"))
                self._usage = totals or self._usage
            case "response_item":
                self._item(payload, event.at)

    def _item(self, item: Row, at: str | None) -> None:
        record, call = self.record, item.get("call_id")
        match item.get("type"):
            case "message" if item.get("role") == "assistant":
                texts = (block.get("text") for block in rows_of(item.get("content")))
                record.said("".join(text for text in texts if isinstance(text, str)), at)
            case "function_call":
                self._called(call, item.get("name"), _arguments(item.get("arguments")), at)
            case "custom_tool_call":
                self._called(call, item.get("name"), {"input": item.get("input")}, at)
            case "local_shell_call":
                self._called(call, "local_shell", object_of(item.get("action")), at)
            case "web_search_call":
                self._searches += 1
                given = {"query": object_of(item.get("action")).get("query")}
                self._called(f"search-{self._searches}", "web_search", given, at)
            case "function_call_output" | "custom_tool_call_output":
                output, failed = _outcome(item.get("output"))
                record.returned(call, output, at, failed=failed)

    def _called(self, identity: Json, tool: Json, given: Json, at: str | None) -> None:
        """Under the names and in the form that runs have."""
        if tool in SHELLS:
            tool, given = "Bash", {"command": _command(object_of(given))}
        elif tool == "apply_patch":
            tool = "Edit"
        self.record.called(identity, tool, given, at, key=None)

    def end(self) -> None:
        self.record.add_usage(
            given=self._usage.get("input_tokens"),
            output=self._usage.get("output_tokens"),
            cached=self._usage.get("cached_input_tokens"),
            reasoning=self._usage.get("reasoning_output_tokens"),
        )


def _arguments(written: Json) -> Json:
    """Arguments are JSON in a text."""
    if not isinstance(written, str) or len(written) > _MOST_ARGUMENTS:
        return written
    try:
        return read_json(written, max_values=MAX_VALUES)
    except ForeignJsonError:
        return written


def _outcome(output: Json) -> tuple[Json, bool]:
    """(output, whether the call failed): of a command without what the program writes above its output."""
    if isinstance(output, str):
        head, mark, rest = output.partition(_OUTPUT)
        code = _CODE.search(head, 0, _MOST_HEAD)
        return (rest, code[1] != "0") if mark and code else (output, False)
    return object_of(output).get("content", output), object_of(output).get("success") is False


def _command(given: Mapping[str, Json]) -> str:
    written = given.get("cmd", given.get("command"))
    if isinstance(written, list):
        written = shlex.join(map(str, written))
    return unwrapped(written) if isinstance(written, str) else json.dumps(written)


# -- Copilot ------------------------------------------------------------------------------------------------
@dataclass
class _CopilotSession:
    program: str = "copilot"
    questions: int = 0
    _session: CopilotSession = field(default_factory=CopilotSession)

    @property
    def record(self) -> SessionRecord:
        return self._session.record

    def read(self, event: SessionEvent) -> None:
        self.questions += event.row.get("type") == "user.message"
        if event.row.get("type") not in ("result", "usage-file"):  # of its streams alone
            self._session.read(event)

    def end(self) -> None:
        """Nothing: each line says all."""


# -- AgentV -------------------------------------------------------------------------------------------------
@dataclass
class _ImportedSession:
    """One message a line; figures of the whole session stand in each."""

    program: str = "agentv"
    questions: int = 0
    record: SessionRecord = field(default_factory=lambda: SessionRecord({}))
    _usage: Row = field(default_factory=dict)
    _lines: int = 0

    def read(self, event: SessionEvent) -> None:
        row, record = event.row, self.record
        self._lines += 1
        self._usage = object_of(row.get("transcript_token_usage"))
        record.duration_ms = amount(row.get("transcript_duration_ms"), _MAX_MS)
        source = object_of(row.get("source"))
        self.program = text_of(source.get("provider")) or self.program
        record.model = text_of(source.get("model")) or record.model
        if row.get("role") != "assistant":
            self.questions += row.get("role") == "user"
            return
        key, content = str(self._lines), row.get("content")
        for text in (
            [content] if isinstance(content, str) else [each.get("text") for each in rows_of(content)]
        ):
            record.said(text, None, key=key, goes_on=True)
        for number, call in enumerate(rows_of(row.get("tool_calls"))):
            identity = text_of(call.get("id")) or f"{key}-{number}"
            record.called(identity, call.get("tool"), call.get("input"), None, key=key)
            if "output" in call:
                failed = call.get("status") not in (None, "ok")
                record.returned(identity, call.get("output"), None, failed=failed)

    def end(self) -> None:
        self.record.add_usage(
            given=self._usage.get("input"),
            output=self._usage.get("output"),
            cached=self._usage.get("cached"),
            reasoning=self._usage.get("reasoning"),
        )


__all__ = ["MAX_BYTES", "NotATranscriptError", "read_transcript"]
