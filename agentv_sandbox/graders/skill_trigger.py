"""``skill-trigger``: whether the agent used a skill."""

from __future__ import annotations

from agentv_sandbox.authoring.fields import Text
from agentv_sandbox.judging import trace
from agentv_sandbox.judging.base import (
    GradeContext,
    options_of,
    unmeasured,
    yes_no,
)
from agentv_sandbox.judging.kind import GraderKind, Options, sentence
from agentv_sandbox.models.case import GraderResult
from agentv_sandbox.models.content import ToolCall
from agentv_sandbox.models.json.javascript import dumps
from agentv_sandbox.models.suite import GraderSpec


class SkillTriggerOptions(Options):
    skill: Text
    """Name of the skill."""
    should_trigger: bool = True
    """`false`: passes when it was not used."""


def grade(spec: GraderSpec, context: GradeContext) -> GraderResult:
    options = options_of(spec, SkillTriggerOptions)
    if not context.output.measure.calls_known:
        return unmeasured(spec)
    calls = trace.tool_calls(context.output.messages)
    evidence = next((use for call in calls if (use := _skill_use(call, options.skill))), None)
    skill = f'Skill "{options.skill}"'
    if options.should_trigger:
        if evidence is not None:
            return yes_no(spec, True, evidence)
        missed = f"{skill} not found in {len(calls)} tool call(s)" if calls else "No tool calls recorded"
        return yes_no(spec, False, missed)
    if evidence is None:
        return yes_no(spec, True, f"{skill} correctly did not trigger")
    return yes_no(spec, False, evidence)


def _skill_use(call: ToolCall, skill: str) -> str | None:
    """How ``call`` shows that the skill was used; None when it does not."""
    fields = call.input if isinstance(call.input, dict) else {}
    folder = f"skills/{skill}/"
    tool = call.tool.lower()
    if tool == "skill" and skill in str(fields.get("skill") or ""):
        return f'Skill tool invoked with skill="{fields["skill"]}"'
    path = fields.get("file_path", fields.get("path"))
    if tool == "read" and folder in str(path or ""):
        return f"Read tool loaded skill file: {path}"
    if call.output is None:
        return None
    output = call.output if isinstance(call.output, str) else dumps(call.output)
    return f'Tool "{call.tool}" output referenced skill file for "{skill}"' if folder in output else None


KINDS = (
    GraderKind(
        type="skill-trigger",
        summary="The agent used `skill`, or did not with `should_trigger: false`.",
        options=SkillTriggerOptions,
        grade=grade,
        reads=lambda _: ("tool_calls",),
        translate=sentence(
            lambda options: (
                f"Agent {'uses' if options.should_trigger else 'does not use'} the skill {options.skill}"
            )
        ),
        aliases=("trigger-judge",),
        default_name=lambda options: f"skill-trigger-{options.skill}",
    ),
)
