"""One question to the agent: its container, what it left, and the verdict on it. Single tests ask once, conversations
once a turn."""

from __future__ import annotations

from dataclasses import dataclass, replace

from agentv_sandbox.collect import Baseline, Collected, assemble, untouched
from agentv_sandbox.egress import server_faults
from agentv_sandbox.files import staged_files
from agentv_sandbox.gateway import trajectory
from agentv_sandbox.grade import Graded
from agentv_sandbox.invoke import input_paths, prompt_for_container, staged_inputs
from agentv_sandbox.models.case import AgentResponse, CaseOutput, Claim, ModelCalls
from agentv_sandbox.models.suite import EvalCase
from agentv_sandbox.pipeline.agent import AgentSide
from agentv_sandbox.pipeline.tools import grade
from agentv_sandbox.pipeline.workspace import seal
from agentv_sandbox.providers import PROVIDERS, AgentRun, Request
from agentv_sandbox.providers.base import Session


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the agent said to one question, and what the workspace held then."""

    response: AgentResponse
    collected: Collected


def ask(
    side: AgentSide,
    case: EvalCase,
    baseline: Baseline,
    *,
    in_conversation: bool = False,
    session: Session | None = None,
) -> Answer:
    """Put ``case``'s question to the agent. Raises CaseFailed when the engine ended its container, InputError when
    the target cannot be run this way."""
    run, target = side.run, side.job.target
    paths = input_paths(case, run.project)
    request = Request(
        suite=run.suite,
        case=case,
        target=target,
        project=run.project,
        input_paths=paths,
        prompt=prompt_for_container(case, paths),
        attempt=side.attempt,
        llm=run.llm,
        time_limit_s=side.time_limit_s,
        in_conversation=in_conversation,
        session=session,
    )
    provider = PROVIDERS[target.provider]
    prepared = provider.prepare(request)
    if not prepared.argv:
        # Nothing runs, so nothing is staged, and the workspace is as it was last looked at.
        side.on_stage("agent")
        response = provider.response(request, AgentRun(result=None, output_file=None))
        side.on_stage("collecting")
        return Answer(response=response, collected=untouched(baseline))
    side.volumes.put("input", [*staged_inputs(request), *prepared.inputs])
    side.on_stage("agent")
    agent_run, collected = side.invoke(prepared, baseline)
    response = _counted(provider.response(request, agent_run), agent_run)
    if response.failure is None and (faults := server_faults(agent_run.network_log)):
        response = replace(response, notes=(*response.notes, *(f"on the network: {said}" for said in faults)))
    return Answer(response=response, collected=collected)


def _counted(response: AgentResponse, ran: AgentRun) -> AgentResponse:
    """``response`` with what the gateway counted in place of what the agent says of itself."""
    use, response = ran.model_use, _with_trajectory(replace(response, model_log=ran.model_log))
    if not use.calls:
        return response
    waited_ms = round(ran.rate_limit_wait_s * 1000, 1)
    return replace(
        response,
        # What a server has no room for is not time that the agent took.
        duration_ms=response.duration_ms and max(round(response.duration_ms - waited_ms, 1), 0.0),
        token_usage=use.tokens,
        cost_usd=use.cost,
        claim=Claim(token_usage=response.token_usage, cost_usd=response.cost_usd),
        model_calls=ModelCalls(
            calls=use.calls,
            failed=use.failed,
            token_usage=use.tokens,
            cost_usd=use.cost,
            rate_limited=use.rate_limited,
            rate_limit_wait_ms=waited_ms,
            without_usage=use.without_usage,
            without_price=use.without_price,
        ),
    )


def _with_trajectory(response: AgentResponse) -> AgentResponse:
    """``response`` with what the agent did, read off its calls of models, where it reports nothing but its answer."""
    said = [message for message in response.messages if message.role == "assistant"]
    reports = response.events or len(said) > 1 or any(message.tool_calls for message in response.messages)
    if reports or not response.model_log:
        return response
    done = trajectory(response.model_log)
    if not any(message.tool_calls for message in done):
        return response
    # The answer is what the agent says it is; the last answer of its model led to it.
    last = replace(done[-1], content=said[0].content) if said else done[-1]
    rest = tuple(message for message in response.messages if message.role != "assistant")
    return replace(response, messages=(*rest, *done[:-1], last))


def output_of(
    side: AgentSide, case: EvalCase, baseline: Baseline, collected: Collected, response: AgentResponse
) -> CaseOutput:
    """The answer joined with the files that it names and the changes since ``baseline``."""
    run = side.run
    return assemble(
        collected,
        baseline=baseline,
        store=run.store,
        response=response,
        outputs=case.outputs,
        as_text=run.preprocessors.as_text(run.suite.preprocessors),
    )


def judge(side: AgentSide, case: EvalCase, output: CaseOutput, collected: Collected) -> Graded:
    """Let ``case``'s graders judge ``output``, on the workspace as it was collected."""
    run = side.run
    side.on_stage("grading")
    seal(run.sandbox, side.volumes, collected)
    side.volumes.put("files", staged_files(output.files, run.store))
    return grade(run, replace(side.job, case=case), output, side.volumes, side.threshold)
