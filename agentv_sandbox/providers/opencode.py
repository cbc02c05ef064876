"""``provider: opencode``: OpenCode, as its command line ``opencode run``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

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
    text_of,
    time_of,
)
from agentv_sandbox.agents.settings import Positive
from agentv_sandbox.agents.toolservers import for_opencode
from agentv_sandbox.authoring.fields import Text
from agentv_sandbox.base.errors import Problem
from agentv_sandbox.models.json.untrusted import amount
from agentv_sandbox.models.paths import HOME
from agentv_sandbox.models.suite import Json, Target

_IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".pdf")
_SYSTEM = ".config/opencode/system.md"
_SERVERS: Mapping[str, Api] = {
    "anthropic": Api(
        key="ANTHROPIC_API_KEY", url="https://api.anthropic.com/v1", speaks=ANTHROPIC, header="x-api-key"
    ),
    "openai": Api(key="OPENAI_API_KEY", url="https://api.openai.com/v1"),
    "google": Api(
        key="GOOGLE_GENERATIVE_AI_API_KEY",
        url="https://generativelanguage.googleapis.com/v1beta",
        speaks=GEMINI,
        header="x-goog-api-key",
        other_keys=("GEMINI_API_KEY",),
    ),
    "openrouter": Api(key="OPENROUTER_API_KEY", url="https://openrouter.ai/api/v1"),
}
"""By the program's name of the provider, which stands before the slash in ``model``."""
_OTHER = Api(key="OPENAI_API_KEY", url="")
"""Any other server: chat completions at its ``base_url``."""
_GOES_ON = ("tool-calls", "unknown")
"""Reasons of a step after which another one follows."""
_CUT = "The model's answers end without a reason, as when a stream is cut off"


class OpenCodeSettings(AgentCliSettings):
    max_turns: Positive | None = None
    """Answers of the model after which it is asked for its last words; one that calls tools all the same is not
    stopped: `gateway: {max_calls: …}` does."""
    variant: Text | None = None
    """The program's name for how much the model is to think."""


class OpenCode(AgentCli):
    name = "opencode"
    summary = "OpenCode."
    ours = True
    settings = OpenCodeSettings
    program = "opencode"
    package = "npm:opencode-ai"
    resumes = True
    skills = ".config/opencode/skills"
    api = _SERVERS["anthropic"]
    tools: ClassVar = {"write": "Write", "edit": "Edit", "read": "Read", "bash": "Bash", "skill": "Skill"}

    def api_of(self, settings: Mapping[str, Any]) -> Api:
        return _SERVERS.get(_provider(settings), _OTHER)

    def programs(self, target: Target) -> Iterable[Sequence[str]]:
        """Its tools for files and skills look with ripgrep, which it would otherwise download."""
        return (*super().programs(target), ("rg",))

    def models(self, target: Target) -> tuple[str, ...]:
        """Without the provider, which is the program's own word."""
        model = str(target.settings.get("model") or "").partition("/")[2]
        return (model,) if model else ()

    def check(self, target: Target) -> list[Problem]:
        problems = super().check(target)
        provider, slash, model = str(target.settings.get("model") or "").partition("/")
        if not (provider and slash and model):
            message = "model must be PROVIDER/MODEL, such as anthropic/claude-sonnet-4-5"
            problems.append(setting_problem(target, "model", message))
        elif provider not in _SERVERS and not target.settings.get("base_url"):
            message = f"base_url is required: the address of {provider} is not known"
            hint = f"known are {', '.join(_SERVERS)}; any other server has to answer chat completions"
            problems.append(setting_problem(target, "base_url", message, hint=hint))
        return problems

    def launch(self, question: Question) -> Launch:
        settings, session = question.settings, question.request.session
        # With a title of ours, it asks no model for one.
        argv = ["run", "--format", "json", "--auto", "--title", "test", "--model", str(settings["model"])]
        if session is not None and session.resumes:
            argv.append("--continue")
        if settings.get("variant"):
            argv += ["--variant", str(settings["variant"])]
        for image in question.input_files:
            if image.lower().endswith(_IMAGES):
                argv += ["--file", image]
        env = {
            "OPENCODE_CONFIG_CONTENT": json.dumps(self._configuration(question)),
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_SHARE": "1",
            **{f"XDG_{name}_HOME": f"{HOME}/{folder}" for name, folder in _FOLDERS.items()},
        }
        system = str(settings.get("system_prompt") or "")
        return Launch(argv=tuple(argv), env=env, files={_SYSTEM: system} if system else {})

    def _configuration(self, question: Question) -> dict[str, Any]:
        settings = question.settings
        provider, _, model = str(settings["model"]).partition("/")
        server: dict[str, Any] = {
            "options": {
                "baseURL": question.base_url,
                "apiKey": f"{{env:{self.api_of(settings).key}}}",
            },
            "models": {model: {}},
        }
        if provider not in _SERVERS:
            server["npm"] = "@ai-sdk/openai-compatible"
        configuration: dict[str, Any] = {
            "provider": {provider: server},
            "enabled_providers": [provider],
            # Copies of the workspace by which a person can undo what was done.
            "snapshot": False,
            "share": "disabled",
            "autoupdate": False,
        }
        if settings.get("system_prompt"):
            configuration["instructions"] = [f"{HOME}/{_SYSTEM}"]
        if turns := settings.get("max_turns"):
            configuration["agent"] = {"build": {"steps": turns}}
        if question.tool_servers:
            configuration["mcp"] = for_opencode(question.tool_servers)
        return configuration

    def read_event(self, event: SessionEvent, record: SessionRecord) -> None:
        part = object_of(event.row.get("part"))
        key = text_of(part.get("messageID"))
        match event.row.get("type"):
            case "text":
                record.said(part.get("text"), event.at, key=key)
            case "tool_use":
                _tool(part, key, record)
            case "step_finish":
                _step(part, record)
            case "error":
                error = object_of(event.row.get("error"))
                data = object_of(error.get("data"))
                record.refused = error.get("name") == "ContentFilterError"
                if not record.refused:
                    said = text_of(data.get("message"), 2000) or text_of(error.get("name"))
                    record.fail(said, data.get("statusCode"))


_FOLDERS = {"CONFIG": ".config", "DATA": ".local/share", "STATE": ".local/state", "CACHE": ".cache"}


def _provider(settings: Mapping[str, Any]) -> str:
    return str(settings.get("model") or "").partition("/")[0]


def _tool(part: Row, key: str, record: SessionRecord) -> None:
    state = object_of(part.get("state"))
    times = object_of(state.get("time"))
    began, ended = (_moment(times.get(name)) for name in ("start", "end"))
    given = state.get("input")
    if part.get("tool") == "skill" and isinstance(given, dict):
        # The key under which AgentV has the name of a skill.
        given = {"skill": given.get("name"), **given}
    record.called(part.get("callID"), part.get("tool"), given, began, key=key)
    if state.get("status") == "completed":
        code = object_of(state.get("metadata")).get("exit")
        failed = isinstance(code, int) and code != 0
        record.returned(part.get("callID"), state.get("output"), ended, failed=failed)
    elif state.get("status") == "error":
        record.returned(part.get("callID"), state.get("error"), ended, failed=True)


def _step(part: Row, record: SessionRecord) -> None:
    reason = text_of(part.get("reason"))
    record.turns = (record.turns or 0) + 1
    record.stop_reason = reason
    record.ended = reason not in _GOES_ON
    record.complaint = _CUT if reason == "unknown" else ""
    tokens = object_of(part.get("tokens"))
    cache = object_of(tokens.get("cache"))
    given = [tokens.get("input"), cache.get("read"), cache.get("write")]
    output = [tokens.get("output"), tokens.get("reasoning")]
    record.add_usage(
        given=_sum(given),
        output=_sum(output),
        cached=cache.get("read"),
        reasoning=tokens.get("reasoning"),
    )
    # It is 0 where the program knows no price.
    if part.get("cost") != 0:
        record.add_cost(part.get("cost"))


def _sum(numbers: list[Json]) -> Json:
    whole = [number for number in numbers if isinstance(number, int)]
    return sum(whole) if whole else None


def _moment(value: Json) -> str | None:
    milliseconds = amount(value, 1e13)
    return None if milliseconds is None else time_of(milliseconds / 1000)


KINDS = (OpenCode(),)
