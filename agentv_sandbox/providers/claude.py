"""``provider: claude``: Claude Code, as its command line ``claude -p``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from agentv_sandbox.agents.agentcli import (
    ANTHROPIC,
    AgentCli,
    AgentCliSettings,
    Api,
    Launch,
    Question,
)
from agentv_sandbox.agents.session import (
    Row,
    SessionEvent,
    SessionRecord,
    object_of,
    rows_of,
    text_of,
)
from agentv_sandbox.agents.settings import Flag, Number, Positive
from agentv_sandbox.agents.toolservers import as_mcp_json
from agentv_sandbox.authoring.fields import Text
from agentv_sandbox.models.paths import HOME
from agentv_sandbox.models.suite import Json, Target

_SERVERS = ".agentv-mcp.json"
_SYNTHETIC = "<synthetic>"
"""Model of messages that the program makes up, such as errors."""
_LIMITS = {
    "error_max_turns": "it reached its limit of turns (max_turns)",
    "error_max_budget_usd": "it reached its budget (max_budget_usd)",
}


_FAMILIES = ("opus", "sonnet", "haiku")
_ALIASES = {"opusplan": ("opus", "sonnet"), "best": ("opus",)}


_LONG_CONTEXT = "context-1m-2025-08-07"
"""What ``[1m]`` after a model's name asks for."""


class ClaudeSettings(AgentCliSettings):
    ALIASES: ClassVar = {**AgentCliSettings.ALIASES, "log_output_format": "log_format"}
    IGNORED: ClassVar = {
        **AgentCliSettings.IGNORED,
        "log_format": AgentCliSettings.IGNORED["log_dir"],
        "variant": "the image has the program from its package and no variants",
    }

    log_format: Text | None = None
    max_turns: Positive | None = None
    """Answers of the model after which it stops."""
    max_budget_usd: Number | None = None
    """US dollars after which it stops."""
    bypass_permissions: Flag | None = None
    """`false`: an agent that asks for a permission fails."""
    variant: Text | None = None
    """Of ``cc-mirror``."""


class Claude(AgentCli):
    settings = ClaudeSettings
    program = "claude"
    package = "npm:@anthropic-ai/claude-code"
    resumes = True
    skills = ".claude/skills"
    totals = True
    results_end = True
    side_models = ("claude-haiku-*", "claude-3-5-haiku-*")
    api = Api(
        key="ANTHROPIC_API_KEY",
        speaks=ANTHROPIC,
        url="https://api.anthropic.com",
        header="x-api-key",
        other_keys=("ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
    )

    def __init__(self, name: str, summary: str, system_option: str, *aliases: str) -> None:
        self.name, self.summary, self.aliases = name, summary, aliases
        self._system_option = system_option

    def models(self, target: Target) -> tuple[str, ...]:
        """An alias such as ``sonnet`` stands for the family's newest model; ``[1m]`` is for the program alone."""
        name = str(target.settings.get("model") or "").removesuffix("[1m]")
        families = _ALIASES.get(name, (name,) if name in _FAMILIES else ())
        if families:
            return tuple(f"claude-{middle}{family}-*" for family in families for middle in ("", "*-"))
        return (name,) if name else ()

    def betas(self, target: Target) -> tuple[str, ...]:
        return (_LONG_CONTEXT,) if str(target.settings.get("model") or "").endswith("[1m]") else ()

    def launch(self, question: Question) -> Launch:
        settings, session = question.settings, question.request.session
        argv = ["-p", "--output-format", "stream-json", "--verbose"]
        if settings.get("bypass_permissions") is not False:
            argv.append("--dangerously-skip-permissions")
        if not question.online:
            # They run at the provider, outside of what network.allow says.
            argv += ["--disallowedTools", "WebSearch,WebFetch"]
        for key, option in _OPTIONS.items():
            if settings.get(key):
                argv += [option, str(settings[key])]
        if text := settings.get("system_prompt"):
            argv += [self._system_option, str(text)]
        if session is None:
            argv.append("--no-session-persistence")
        else:
            argv += ["--resume" if session.resumes else "--session-id", session.id]
        env = {
            "ANTHROPIC_BASE_URL": question.base_url,
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "CLAUDE_CODE_MAX_RETRIES": "4",
        }
        files = {}
        if question.tool_servers:
            argv += ["--mcp-config", f"{HOME}/{_SERVERS}"]
            files[_SERVERS] = as_mcp_json(question.tool_servers)
        return Launch(argv=tuple(argv), env=env, files=files)

    def read_event(self, event: SessionEvent, record: SessionRecord) -> None:
        row = event.row
        match row.get("type"):
            case "system" if row.get("subtype") == "init":
                record.model = text_of(row.get("model"))
                record.version = text_of(row.get("claude_code_version"))
            case "assistant":
                self._assistant(object_of(row.get("message")), event.at, record)
            case "user":
                message = object_of(row.get("message"))
                for block in rows_of(message.get("content")):
                    if block.get("type") == "tool_result":
                        output, failed = _output(block.get("content")), block.get("is_error") is True
                        record.returned(block.get("tool_use_id"), output, event.at, failed=failed)
            case "result":
                _result(row, record)

    def _assistant(self, message: Row, at: str | None, record: SessionRecord) -> None:
        # Of what the program makes up, a refusal is an answer; all else is an error, which the result repeats.
        refused = message.get("stop_reason") == "refusal" and record.silent
        if message.get("model") == _SYNTHETIC and not refused:
            return
        key = text_of(message.get("id"))
        for block in rows_of(message.get("content")):
            match block.get("type"):
                case "text":
                    record.said(block.get("text"), at, key=key)
                case "tool_use":
                    record.called(block.get("id"), block.get("name"), block.get("input"), at, key=key)


_OPTIONS: Mapping[str, str] = {
    "model": "--model",
    "max_turns": "--max-turns",
    "max_budget_usd": "--max-budget-usd",
}


def _output(content: Json) -> Json:
    """What a tool gave: as text where it is text; images without their data."""
    if not isinstance(content, list):
        return content
    blocks = rows_of(content)
    if all(block.get("type") == "text" for block in blocks):
        return "\n".join(str(block.get("text", "")) for block in blocks)
    return [block if block.get("type") == "text" else _described(block) for block in blocks]


def _described(block: Row) -> dict[str, Any]:
    source = object_of(block.get("source"))
    return {"type": text_of(block.get("type")), "media_type": text_of(source.get("media_type"))}


def _result(row: Row, record: SessionRecord) -> None:
    record.ended = True
    record.stop_reason = text_of(row.get("stop_reason")) or text_of(row.get("terminal_reason"))
    turns, took = row.get("num_turns"), row.get("duration_ms")
    # Numbers of a program in the container: bools, infinities and negative ones are attempts, not
    # measurements.
    record.turns = turns if isinstance(turns, int) and not isinstance(turns, bool) and turns >= 0 else None
    record.duration_ms = float(took) if isinstance(took, int | float) and 0 <= took < 1e12 else None
    record.add_cost(row.get("total_cost_usd"))
    for usage in map(object_of, list(object_of(row.get("modelUsage")).values())[:100]):
        read, created = usage.get("cacheReadInputTokens"), usage.get("cacheCreationInputTokens")
        parts = [part for part in (usage.get("inputTokens"), read, created) if isinstance(part, int)]
        record.add_usage(given=sum(parts), output=usage.get("outputTokens"), cached=read)
    record.refused = record.stop_reason == "refusal"
    subtype = text_of(row.get("subtype"))
    denied = rows_of(row.get("permission_denials"))
    if subtype in _LIMITS:
        record.fail(_LIMITS[subtype])
    elif row.get("is_error") is True and not record.refused:
        errors = row.get("errors")
        said = "; ".join(map(str, errors[:5])) if isinstance(errors, list) else ""
        record.fail(text_of(row.get("result"), 2000) or said or subtype, row.get("api_error_status"))
    elif denied:
        tools = ", ".join(sorted({text_of(each.get("tool_name")) for each in denied}))
        record.fail(
            f"it asked for permission to use {tools}, and nobody could answer (bypass_permissions: false)"
        )


KINDS = (
    Claude("claude-cli", "Claude Code.", "--append-system-prompt", "claude", "claude-code", "cc-mirror"),
    Claude("claude-sdk", "Claude Code with a system prompt of the target's own.", "--system-prompt"),
)
