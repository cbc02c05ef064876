"""``provider: copilot-cli``: GitHub Copilot, as its command line ``copilot``, with a model of one's own server.

Its own models need a login at GitHub, for which the program exchanges tokens itself: no stand-in can take part in that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from agentv_sandbox.agents.agentcli import (
    ANTHROPIC,
    AgentCli,
    AgentCliSettings,
    Api,
    Launch,
    Question,
    agent_document,
)
from agentv_sandbox.agents.base import setting_problem
from agentv_sandbox.agents.session import (
    MAX_VALUES,
    Row,
    SessionEvent,
    SessionRecord,
    object_of,
    rows_of,
    text_of,
)
from agentv_sandbox.agents.settings import Secret
from agentv_sandbox.agents.toolservers import as_mcp_json
from agentv_sandbox.authoring.fields import Text
from agentv_sandbox.base.errors import Problem
from agentv_sandbox.models.json.untrusted import ForeignJsonError, read_json
from agentv_sandbox.models.paths import HOME, WORKSPACE
from agentv_sandbox.models.suite import Json, Target

_APIS: Mapping[str, Api] = {
    "openai": Api(key="COPILOT_PROVIDER_API_KEY", url="https://api.openai.com/v1"),
    "azure": Api(key="COPILOT_PROVIDER_API_KEY", url="", header="api-key"),
    "anthropic": Api(
        key="COPILOT_PROVIDER_API_KEY", url="https://api.anthropic.com", speaks=ANTHROPIC, header="x-api-key"
    ),
}
_BEARER = "COPILOT_PROVIDER_BEARER_TOKEN"
_USAGE = ".copilot-usage.json"
_IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp")
_NOBODY = "no interactive user response"
"""What it says of a call for which it had to ask."""


class CopilotSettings(AgentCliSettings):
    ALIASES: ClassVar = {
        **AgentCliSettings.ALIASES,
        "log_output_format": "log_format",
        "arguments": "args",
    }
    IGNORED: ClassVar = {
        **AgentCliSettings.IGNORED,
        "log_format": AgentCliSettings.IGNORED["log_dir"],
    }

    args: list[Text] | None = None
    """More arguments."""
    log_format: Text | None = None
    subprovider: Literal["openai", "azure", "anthropic"] | None = None
    """Whose API `base_url` speaks; default: `openai`."""
    bearer_token: Secret | None = None
    """`${{ NAME }}`: a token in place of the key."""
    api_version: Text | None = None
    """Of Azure."""
    api_format: Literal["completions", "responses"] | None = None
    """`completions` (the default) or `responses`."""


class CopilotSdkSettings(CopilotSettings):
    IGNORED: ClassVar = {
        **CopilotSettings.IGNORED,
        "cli_url": "the program runs in the test's container",
        "cli_path": "the image has the program from its package",
        "github_token": "your own server needs no login at GitHub",
    }

    cli_url: Text | None = None
    cli_path: Text | None = None
    github_token: Secret | None = None


class Copilot(AgentCli):
    settings = CopilotSettings
    program = "copilot"
    package = "npm:@github/copilot"
    resumes = True
    skills = ".copilot/skills"
    totals = True
    api = _APIS["openai"]
    key_settings: ClassVar = ("bearer_token_env", "api_key_env")
    tools: ClassVar = {
        **dict.fromkeys(("view", "readFile", "readTextFile", "Read File"), "Read"),
        **dict.fromkeys(("create", "writeTextFile", "Write File"), "Write"),
        **dict.fromkeys(("edit", "apply_patch", "editFile", "Edit File"), "Edit"),
        **dict.fromkeys(("bash", "runTerminalCommand"), "Bash"),
        "skill": "Skill",
    }

    def __init__(self, name: str, summary: str, settings: type[CopilotSettings], *aliases: str) -> None:
        self.name, self.summary, self.settings, self.aliases = name, summary, settings, aliases
        self._has_system_message = settings is CopilotSdkSettings

    def check(self, target: Target) -> list[Problem]:
        problems = super().check(target)
        needs = {
            "base_url": "only your own server can be used: Copilot's models need a login at GitHub, "
            "which no container gets",
            "model": "your own server has no default model",
        }
        for key, reason in needs.items():
            if not target.settings.get(key):
                problems.append(setting_problem(target, key, f"{key} is required: {reason}"))
        return problems

    def api_of(self, settings: Mapping[str, Any]) -> Api:
        api = _APIS[settings.get("subprovider") or "openai"]
        if settings.get("bearer_token_env"):
            return Api(key=_BEARER, url=api.url, speaks=api.speaks)
        return api

    def server_url(self, settings: Mapping[str, Any]) -> str:
        url = str(settings.get("base_url") or "")
        if settings.get("subprovider") == "azure" and url and "://" not in url:
            return f"https://{url}.openai.azure.com"
        return url

    def prompt(self, question: Question) -> str:
        system = "" if self._has_system_message else str(question.settings.get("system_prompt") or "")
        return agent_document(question, system)

    def launch(self, question: Question) -> Launch:
        settings, session = question.settings, question.request.session
        argv = ["--output-format", "json", "--stream", "off", "--no-color", "--no-auto-update"]
        argv += ["--allow-all", "--no-ask-user", "--usage-output-file", f"{HOME}/{_USAGE}"]
        argv += ["--model", str(settings["model"])]
        if session is not None:
            argv += [f"--resume={session.id}"] if session.resumes else ["--session-id", session.id]
        for file in question.input_files:
            if file.lower().endswith(_IMAGES):
                argv += ["--attachment", file]
        if question.tool_servers:
            servers = as_mcp_json(question.tool_servers, local="local", more={"tools": ["*"]})
            argv.append(f"--additional-mcp-config={servers}")
        env = {
            # No telemetry, updates, login, MCP servers and web tools of GitHub's: nothing but the model's server.
            "COPILOT_OFFLINE": "true",
            "COPILOT_PROVIDER_BASE_URL": question.base_url,
            "COPILOT_PROVIDER_TYPE": str(settings.get("subprovider") or "openai"),
            "COPILOT_PROVIDER_WIRE_API": str(settings.get("api_format") or "completions"),
        }
        if version := settings.get("api_version"):
            env["COPILOT_PROVIDER_AZURE_API_VERSION"] = str(version)
        # MCP servers and hooks of the workspace are part of what is tested.
        files = {".copilot/config.json": json.dumps({"trustedFolders": [WORKSPACE]})}
        if self._has_system_message and (text := settings.get("system_prompt")):
            files[".copilot/copilot-instructions.md"] = str(text)
        return Launch(
            argv=(*argv, *(settings.get("args") or ())),
            env=env,
            files=files,
            attach={"usage-file": f"{HOME}/{_USAGE}"},
        )

    def read_event(self, event: SessionEvent, record: SessionRecord) -> None:
        data = object_of(event.row.get("data"))
        match event.row.get("type"):
            case "assistant.turn_start":
                record.turns = (record.turns or 0) + 1
            case "assistant.message":
                _message(data, event.at, record)
            case "tool.execution_start":
                record.began(data.get("toolCallId"), event.at)
            case "tool.execution_complete":
                _outcome(data, event.at, record)
            case "session.error":
                record.complaint = text_of(data.get("message"), 2000)
            case "result":
                record.ended = True
                if event.row.get("exitCode") != 0 and record.complaint:
                    record.fail(record.complaint)
                if record.denied:
                    tools = ", ".join(sorted(record.denied))
                    record.fail(f"it asked for permission to use {tools}, and nobody could answer")
            case "usage-file":
                _usage(event.row.get("content"), record)


def _message(data: Row, at: str | None, record: SessionRecord) -> None:
    key = text_of(data.get("messageId"))
    record.model = text_of(data.get("model")) or record.model
    record.said(data.get("content"), at, key=key)
    for request in rows_of(data.get("toolRequests")):
        record.called(request.get("toolCallId"), request.get("name"), request.get("arguments"), at, key=key)


def _outcome(data: Row, at: str | None, record: SessionRecord) -> None:
    error, code = object_of(data.get("error")), object_of(data.get("shellExecution")).get("exitCode")
    output = object_of(data.get("result")).get("content", error.get("message"))
    failed = data.get("success") is not True or (isinstance(code, int) and code != 0)
    if error.get("code") == "denied" and _NOBODY in text_of(error.get("message")):
        record.deny(data.get("toolCallId"))
    record.returned(data.get("toolCallId"), output, at, failed=failed)


def _usage(content: Json, record: SessionRecord) -> None:
    """Tokens of all turns of the session, from the file that the program writes at its end."""
    try:
        totals = object_of(read_json(text_of(content, 1 << 20).encode(), max_values=MAX_VALUES))
    except ForeignJsonError:
        return
    usage_of_models(totals.get("modelMetrics"), record)


def usage_of_models(metrics_of: Json, record: SessionRecord) -> None:
    """Tokens of all turns of a session, by model."""
    for metrics in list(object_of(metrics_of).values())[:100]:
        usage = object_of(object_of(metrics).get("usage"))
        record.add_usage(
            given=usage.get("inputTokens"),
            output=usage.get("outputTokens"),
            cached=usage.get("cacheReadTokens"),
            reasoning=usage.get("reasoningTokens"),
        )


KINDS = (
    Copilot("copilot-cli", "GitHub Copilot.", CopilotSettings, "copilot"),
    Copilot(
        "copilot-sdk",
        "GitHub Copilot with a system message of the target's own.",
        CopilotSdkSettings,
        "copilot_sdk",
    ),
)
