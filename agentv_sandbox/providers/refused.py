"""Kinds that AgentV runs and this project does not run yet: their names and settings, so that a targets file can be
checked. A kind that is implemented leaves this file for one of its own."""

from __future__ import annotations

from agentv_sandbox.agents.base import Provider
from agentv_sandbox.agents.settings import Flag, Seconds, TargetSettings
from agentv_sandbox.authoring.fields import Text


class VsCodeSettings(TargetSettings):
    executable: Text | None = None
    wait: Flag | None = None
    dry_run: Flag | None = None
    subagent_root: Text | None = None
    timeout_seconds: Seconds | None = None


class NotYet(Provider):
    """A kind that is known by name and settings only."""

    refusal = "Wrap the agent in a cli target: a command that reads {PROMPT_FILE} and writes {OUTPUT_FILE}."

    def __init__(self, name: str, summary: str, settings: type[TargetSettings], *aliases: str) -> None:
        self.name, self.summary, self.settings, self.aliases = name, summary, settings, aliases


KINDS = (
    NotYet("vscode", "An agent in Visual Studio Code.", VsCodeSettings),
    NotYet("vscode-insiders", "An agent in Visual Studio Code Insiders.", VsCodeSettings),
)
