"""Kinds whose targets run a command in the agent's container; the answer is what it wrote to ``OUTPUT_FILE``.

Its standard output is a log and never an answer.
"""

from __future__ import annotations

from collections.abc import Mapping

from agentv_sandbox import masking
from agentv_sandbox.egress import network_troubles
from agentv_sandbox.models.case import AgentResponse, CaseFailure, Fault
from agentv_sandbox.models.container import ExecResult, Outcome
from agentv_sandbox.providers.base import OUTPUT_FILE, AgentRun, Provider, Request
from agentv_sandbox.providers.response import parse_response

_TAIL = 2000


class ContainerProvider(Provider):
    """A kind says in ``prepare`` what is run; how that ended and what it wrote is read here."""

    in_container = True

    def explained(self, request: Request, result: ExecResult) -> str:
        """What the kind knows about the reason of a command's failure, appended to the message."""
        return ""

    def response(self, request: Request, ran: AgentRun) -> AgentResponse:
        result = ran.result
        if result is None:
            raise ValueError("its targets always run in a container")
        failure = failure_of(ran, self._problem(request, ran, result))
        measured_ms = round(result.duration_s * 1000, 1)
        if failure is None and ran.output_file is not None:
            answer = parse_response(ran.output_file, measured_ms=measured_ms)
        else:
            answer = AgentResponse(duration_ms=measured_ms)
        return AgentResponse(
            messages=answer.messages,
            token_usage=answer.token_usage,
            cost_usd=answer.cost_usd,
            duration_ms=answer.duration_ms,
            start_time=answer.start_time,
            end_time=answer.end_time,
            stdout=result.stdout,
            stderr=result.stderr,
            network_log=ran.network_log,
            attempts=request.attempt,
            target_used=request.target.name,
            failure=failure,
            notes=() if failure is not None else (*ran.limits_met, *answer.notes),
        )

    def _problem(self, request: Request, ran: AgentRun, result: ExecResult) -> str | None:
        if (message := bad_end(result)) is not None:
            return message + self.explained(request, result)
        if ran.output_file is None:
            reason = ran.output_missing or "the agent did not write it"
            return f"Failed to read output file '{OUTPUT_FILE}': {reason}"
        return None


def failure_of(ran: AgentRun, message: str | None) -> CaseFailure | None:
    """``message`` with what the network and our limits have to do with it."""
    if message is None and ran.misses:
        message = "a model was asked what is not in the recording"
    if message is None:
        return None
    if troubles := network_troubles(ran.network_log):
        message = f"{message}. On the network: {'; '.join(troubles)}"
    if ran.limits_met:
        # First, since what the agent said may be long and is its own view of the same.
        message = f"{'; '.join(ran.limits_met)}. {message}"
    return CaseFailure(stage="agent", code="provider_error", message=message, fault=_fault(ran))


_OF_OUTCOMES: Mapping[Outcome, Fault] = {
    "timeout": "timeout",
    "oom": "out_of_memory",
    "flood": "output_flood",
    "engine": "engine_restarted",
}


def _fault(ran: AgentRun) -> Fault:
    """Of an agent that gave no answer. What ended it comes first; an exit status is its own choice and comes last."""
    result = ran.result
    if result is not None and result.outcome in _OF_OUTCOMES:
        return _OF_OUTCOMES[result.outcome]
    if ran.budget_spent:
        return "budget_exceeded"
    if ran.disk_full:
        return "disk_full"
    return "agent_exit" if result is not None and result.exit_code != 0 else "no_answer"


def bad_end(result: ExecResult) -> str | None:
    """How a command failed; None when it exited with 0."""
    if result.outcome == "timeout":
        return (
            f"CLI provider timed out after {result.duration_s:.0f}s"
            " (the target's timeout_seconds, limits.timeout_seconds or --agent-timeout)"
        )
    if result.outcome == "oom":
        return "the agent ran out of memory (raise limits.memory of the target or the suite)"
    if result.outcome == "flood":
        return (
            f"the agent printed more than {result.stdout_total + result.stderr_total >> 20} MiB and was ended"
        )
    if result.outcome == "engine":
        return (
            "the container engine ended the agent's container, or was away while it ran (was it restarted?)"
        )
    if result.exit_code != 0:
        said = masking.last(
            (result.stderr.strip() or result.stdout.strip()).decode("utf-8", "replace"), _TAIL
        )
        if said:
            return f"{said} ({result.exit_text})"
        return f"CLI exited with {result.exit_text.removeprefix('exit ')}"
    return None
