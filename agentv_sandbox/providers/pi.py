"""``provider: pi-cli``: Pi, as its command line ``pi --print``, with the models of several providers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from agentv_sandbox.agents.agentcli import (
    ANTHROPIC,
    GEMINI,
    AgentCli,
    AgentCliSettings,
    Api,
    Launch,
    Question,
)
from agentv_sandbox.agents.base import setting_problem
from agentv_sandbox.agents.session import (
    Row,
    SessionEvent,
    SessionRecord,
    object_of,
    rows_of,
    text_of,
)
from agentv_sandbox.authoring.fields import Text
from agentv_sandbox.base.errors import Problem
from agentv_sandbox.models.suite import Json, Target

_BEARER = "Authorization"
_APIS: Mapping[str, Api] = {
    "google": Api(
        key="GEMINI_API_KEY",
        url="https://generativelanguage.googleapis.com/v1beta",
        speaks=GEMINI,
        header="x-goog-api-key",
    ),
    "anthropic": Api(
        key="ANTHROPIC_API_KEY", url="https://api.anthropic.com", speaks=ANTHROPIC, header="x-api-key"
    ),
    "openai": Api(key="OPENAI_API_KEY", url="https://api.openai.com/v1", header=_BEARER),
    "azure-openai-responses": Api(key="AZURE_OPENAI_API_KEY", url="", header="api-key"),
    "openrouter": Api(key="OPENROUTER_API_KEY", url="https://openrouter.ai/api/v1", header=_BEARER),
    "groq": Api(key="GROQ_API_KEY", url="https://api.groq.com/openai/v1", header=_BEARER),
    "xai": Api(key="XAI_API_KEY", url="https://api.x.ai/v1", header=_BEARER),
}
_OTHER_NAMES = {"gemini": "google", "azure": "azure-openai-responses"}
_DEFAULT = "google"


class PiSettings(AgentCliSettings):
    ALIASES: ClassVar = {
        **AgentCliSettings.ALIASES,
        "log_output_format": "log_format",
        "arguments": "args",
        "pi_model": "model",
        "endpoint": "base_url",
        "pi_tools": "tools",
        "pi_thinking": "thinking",
    }
    IGNORED: ClassVar = {
        **AgentCliSettings.IGNORED,
        "log_format": AgentCliSettings.IGNORED["log_dir"],
    }

    args: list[Text] | None = None
    """More arguments."""
    log_format: Text | None = None
    subprovider: (
        Literal["google", "gemini", "anthropic", "openai", "azure", "openrouter", "groq", "xai"] | None
    ) = None
    """Whose models it asks; default: `google`."""
    tools: list[Text] | Text | None = None
    """Tools that it offers."""
    thinking: Text | None = None
    """How much its model reasons."""


class Pi(AgentCli):
    settings = PiSettings
    program = "pi"
    package = "npm:@earendil-works/pi-coding-agent"
    oldest = "0.79.0"  # the first that knows --approve
    resumes = True
    skills = ".agents/skills"
    has_tool_servers = False
    api = _APIS[_DEFAULT]
    tools: ClassVar = {"read": "Read", "bash": "Bash", "write": "Write", "edit": "Edit"}

    def __init__(self, name: str, summary: str, model: str, *aliases: str) -> None:
        """``model``: Google's that is asked unless the target says; empty: the program's own choice."""
        self.name, self.summary, self.aliases = name, summary, aliases
        self._model = model

    def check(self, target: Target) -> list[Problem]:
        problems = super().check(target)
        if not self.server_url(target.settings):
            message = "base_url is required: where is the server, or what is the resource's name?"
            problems.append(setting_problem(target, "base_url", message))
        return problems

    def api_of(self, settings: Mapping[str, Any]) -> Api:
        return _APIS[_provider(settings)]

    def server_url(self, settings: Mapping[str, Any]) -> str:
        url = super().server_url(settings).rstrip("/")
        if settings.get("subprovider") != "azure" or not url:
            return url
        if "://" not in url:
            url = f"https://{url}.openai.azure.com"
        return f"{url.removesuffix('/v1').removesuffix('/openai')}/openai/v1"

    def prompt(self, question: Question) -> str:
        """What AgentV gives it: the question itself."""
        system = str(question.settings.get("system_prompt") or "").strip()
        asked = question.request.prompt
        return f"{system}\n\n{asked}" if system else asked

    def launch(self, question: Question) -> Launch:
        settings, session = question.settings, question.request.session
        provider = _provider(settings)
        model = str(settings.get("model") or (self._model if provider == _DEFAULT else ""))
        # Extensions, skills and settings of the workspace are part of what is tested.
        argv = ["--mode", "json", "--print", "--approve", "--provider", provider]
        if model:
            argv += ["--model", model]
        argv += ["--no-session"] if session is None else ["--session-id", session.id]
        if tools := settings.get("tools"):
            argv += ["--tools", tools if isinstance(tools, str) else ",".join(tools)]
        if settings.get("thinking"):
            argv += ["--thinking", str(settings["thinking"])]
        argv += [*(settings.get("args") or ()), *(f"@{path}" for path in question.input_files)]
        server: dict[str, Any] = {"baseUrl": question.base_url}
        if provider == "openrouter" and model.startswith("anthropic/"):
            # It would speak to another address in another way, with the key in another header.
            server |= {"api": "openai-completions", "models": [{"id": model}]}
        return Launch(
            argv=tuple(argv),
            env={"PI_OFFLINE": "1", "PI_TELEMETRY": "0"},
            files={".pi/agent/models.json": json.dumps({"providers": {provider: server}})},
        )

    def read_event(self, event: SessionEvent, record: SessionRecord) -> None:
        row = event.row
        match row.get("type"):
            case "message_end":
                message = object_of(row.get("message"))
                if message.get("role") == "assistant":
                    _message(message, event.at, record)
            case "tool_execution_start":
                record.began(row.get("toolCallId"), event.at)
            case "tool_execution_end":
                output = _text(object_of(row.get("result")).get("content"))
                failed = row.get("isError") is True
                record.returned(row.get("toolCallId"), output, event.at, failed=failed)
            case "agent_end" if row.get("willRetry") is not True:
                record.ended = True
            case "agent_settled":
                record.ended = True


def _provider(settings: Mapping[str, Any]) -> str:
    """The program's name of the provider."""
    name = str(settings.get("subprovider") or _DEFAULT)
    return _OTHER_NAMES.get(name, name)


def _message(message: Row, at: str | None, record: SessionRecord) -> None:
    """One answer of the model, or an error in its place: the program tries again, and what comes last counts."""
    _usage(object_of(message.get("usage")), record)
    record.model = text_of(message.get("model")) or record.model
    record.stop_reason = text_of(message.get("stopReason"))
    record.refused = message.get("rawStopReason") == "refusal"
    if record.refused:
        record.stop_reason = "refusal"
    elif record.stop_reason in ("error", "aborted"):
        record.fail(text_of(message.get("errorMessage"), 2000) or record.stop_reason)
        return
    record.failure = ""
    record.turns = (record.turns or 0) + 1
    key = str(record.turns)
    blocks = rows_of(message.get("content"))
    record.said(_text([block for block in blocks if block.get("type") == "text"]), at, key=key)
    for block in blocks:
        if block.get("type") == "toolCall":
            record.called(block.get("id"), block.get("name"), block.get("arguments"), at, key=key)


def _usage(usage: Row, record: SessionRecord) -> None:
    read, created = usage.get("cacheRead"), usage.get("cacheWrite")
    parts = [part for part in (usage.get("input"), read, created) if isinstance(part, int)]
    record.add_usage(
        given=sum(parts), output=usage.get("output"), cached=read, reasoning=usage.get("reasoning")
    )
    total = object_of(usage.get("cost")).get("total")
    if total != 0:  # nothing, where it does not know the model's price
        record.add_cost(total)


def _text(content: Json) -> Json:
    """Text as text; images without their data."""
    blocks = rows_of(content)
    if all(block.get("type") == "text" for block in blocks):
        return "\n".join(str(block.get("text", "")) for block in blocks)
    return [
        block
        if block.get("type") == "text"
        else {"type": text_of(block.get("type")), "media_type": text_of(block.get("mimeType"))}
        for block in blocks
    ]


KINDS = (
    Pi("pi-cli", "Pi.", ""),
    Pi("pi-coding-agent", "Pi, with Gemini unless the target says.", "gemini-2.5-flash", "pi"),
)
