"""``provider: codex``: OpenAI's Codex, as its command line ``codex exec``."""

from __future__ import annotations

import json
import re
import shlex
from typing import Any, ClassVar, Literal

from agentv_sandbox.agents.agentcli import (
    AgentCli,
    AgentCliSettings,
    Api,
    Launch,
    Question,
    agent_document,
)
from agentv_sandbox.agents.asked import Reporting
from agentv_sandbox.agents.session import (
    Row,
    SessionEvent,
    SessionRecord,
    object_of,
    rows_of,
    text_of,
)
from agentv_sandbox.agents.toolservers import for_codex
from agentv_sandbox.models.paths import HOME, WORKSPACE

_SERVER = "sandbox"
"""Name of the model's server in the program's configuration: its own servers would ask for more than a model."""
_STATUS = re.compile(r"\bstatus:? (\d{3})\b")
_NO_NAMESPACE = ("bwrap: ", "No permissions to create", "new namespace")
"""What its inner sandbox prints where it cannot be made; searched as plain text, since the agent wrote the output."""
SHELLS = ("exec_command", "shell", "shell_command", "local_shell", "container.exec")
"""The model's names of the tool that runs commands."""
_IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp")


class CodexSettings(AgentCliSettings):
    ALIASES: ClassVar = {**AgentCliSettings.ALIASES, "arguments": "args"}
    IGNORED: ClassVar = {**AgentCliSettings.IGNORED, "args": "AgentV does not pass them on either"}

    args: Any = None
    model_reasoning_effort: Literal["minimal", "low", "medium", "high", "xhigh"] | None = None
    """How much the model is to think."""


class Codex(AgentCli):
    name = "codex"
    summary = "OpenAI's Codex."
    aliases = ("codex-cli",)
    settings = CodexSettings
    program = "codex"
    package = "npm:@openai/codex"
    resumes = True
    skills = ".agents/skills"
    totals = True
    api = Api(key="OPENAI_API_KEY", url="https://api.openai.com/v1", speaks=("responses",))
    tools: ClassVar = {"command_execution": "Bash", "file_change": "Edit"}
    reporting = Reporting(
        names={**dict.fromkeys(SHELLS, "Bash"), "apply_patch": "Edit"},
        own_ids=True,
        own_form=True,
        code=frozenset({"exec"}),
        within={"Edit": ("Bash", "apply_patch")},
    )

    def prompt(self, question: Question) -> str:
        return agent_document(question, str(question.settings.get("system_prompt") or ""))

    def launch(self, question: Question) -> Launch:
        settings, session = question.settings, question.request.session
        argv = ["exec"]
        if session is not None and session.resumes:
            argv += ["resume", "--last"]
        argv += ["--json", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
        if session is None:
            argv.append("--ephemeral")
        if settings.get("model"):
            argv += ["-m", str(settings["model"])]
        for feature in ("plugins", "apps", "remote_plugin"):
            argv += ["--disable", feature]
        for image in question.input_files:
            if image.lower().endswith(_IMAGES):
                argv += ["-i", image]
        for name, value in self._configuration(question).items():
            argv += ["-c", f"{name}={value}"]
        return Launch(argv=(*argv, "-"), env={"CODEX_HOME": f"{HOME}/.codex"}, directories=(".codex",))

    def _configuration(self, question: Question) -> dict[str, str]:
        server = f"model_providers.{_SERVER}"
        configuration = {
            "model_provider": json.dumps(_SERVER),
            f"{server}.name": json.dumps(_SERVER),
            f"{server}.base_url": json.dumps(question.base_url),
            f"{server}.env_key": json.dumps(self.api.key),
            f"{server}.wire_api": '"responses"',
            f"{server}.supports_websockets": "false",
            f"{server}.request_max_retries": "3",
            f"{server}.stream_max_retries": "3",
            "analytics.enabled": "false",
            "check_for_update_on_startup": "false",
            # Else the settings of the template (.codex/config.toml) are left out.
            f"projects.{WORKSPACE}.trust_level": '"trusted"',
        }
        if not question.online:
            # It runs at the provider, outside of what network.allow says.
            configuration["web_search"] = '"disabled"'
        if effort := question.settings.get("model_reasoning_effort"):
            configuration["model_reasoning_effort"] = json.dumps(effort)
        return configuration | for_codex(question.tool_servers)

    def read_event(self, event: SessionEvent, record: SessionRecord) -> None:
        row = event.row
        match row.get("type"):
            case "item.started":
                self._call(object_of(row.get("item")), event.at, record)
            case "item.completed":
                self._item(object_of(row.get("item")), event.at, record)
            case "turn.completed":
                record.ended = True
                record.turns = (record.turns or 0) + 1
                usage = object_of(row.get("usage"))
                record.add_usage(
                    given=usage.get("input_tokens"),
                    output=usage.get("output_tokens"),
                    cached=usage.get("cached_input_tokens"),
                    reasoning=usage.get("reasoning_output_tokens"),
                )
            case "turn.failed":
                record.ended = True
                said = text_of(object_of(row.get("error")).get("message"), 2000)
                status = _STATUS.search(said)
                record.fail(said, int(status[1]) if status else None)

    def _item(self, item: Row, at: str | None, record: SessionRecord) -> None:
        kind = item.get("type")
        if kind == "agent_message":
            record.said(item.get("text"), at)
        elif kind in ("command_execution", "file_change", "mcp_tool_call", "web_search"):
            self._call(item, at, record)
            output, failed = _outcome(item)
            record.returned(item.get("id"), output, at, failed=failed)
            if failed and isinstance(output, str) and all(part in output for part in _NO_NAMESPACE):
                record.fail(
                    "it tried to build a sandbox of its own inside ours, which is not possible, so its commands were "
                    "not run (No permissions to create a new namespace)"
                )

    def _call(self, item: Row, at: str | None, record: SessionRecord) -> None:
        """What was called; that it is known already does no harm."""
        kind = text_of(item.get("type"))
        match kind:
            case "command_execution":
                given: dict[str, Any] = {"command": unwrapped(text_of(item.get("command"), 1 << 20))}
            case "file_change":
                given = {"changes": rows_of(item.get("changes"))}
            case "mcp_tool_call":
                # AgentV's table: what begins with "mcp:" counts as a skill.
                name = f"{text_of(item.get('server'))}/{text_of(item.get('tool'))}"
                kind, given = "Skill", {**object_of(item.get("arguments")), "skill": name}
            case "web_search":
                given = {"query": item.get("query")}
            case _:
                return
        record.called(item.get("id"), kind, given, at, key=None)


def _outcome(item: Row) -> tuple[Any, bool]:
    """(output, whether the call failed)."""
    failed = item.get("status") == "failed"
    match item.get("type"):
        case "command_execution":
            code = item.get("exit_code")
            output = item.get("aggregated_output")
            return output, failed or (isinstance(code, int) and code != 0)
        case "mcp_tool_call":
            return item.get("result") or item.get("error"), failed
    return item.get("status"), failed


def unwrapped(command: str) -> str:
    """The command without the shell that the program puts around each."""
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    shell = (
        len(words) == 3 and words[0].rpartition("/")[2] in ("bash", "sh", "zsh") and words[1] in ("-lc", "-c")
    )
    return words[2] if shell else command


KINDS = (Codex(),)
