"""``provider: mock``: a canned answer, for suites that test graders, and a canned verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from agentv_sandbox.agents.base import AgentRun, Provider, Request
from agentv_sandbox.agents.settings import TargetSettings
from agentv_sandbox.models.case import AgentResponse
from agentv_sandbox.models.content import AnswerMessage
from agentv_sandbox.models.suite import Target
from agentv_sandbox.models_api.records import LlmReply, LlmRequest

if TYPE_CHECKING:
    from agentv_sandbox.modelclient.llmclient import LlmClient

_DEFAULT = '{"answer":"Mock provider response. Configure targets.yaml to supply a custom value."}'


class MockSettings(TargetSettings):
    IGNORED: ClassVar = {**TargetSettings.IGNORED, "trace": "a mock says its response and nothing else"}

    response: str | None = None
    """What it always says."""
    trace: object = None


class MockProvider(Provider):
    name = "mock"
    summary = "No agent and no model: always says `response`."
    settings = MockSettings
    is_model = True

    def response(self, request: Request, ran: AgentRun) -> AgentResponse:
        message = AnswerMessage(role="assistant", content=_text(request.target))
        return AgentResponse(messages=(message,), target_used=request.target.name)

    def ask(self, target: Target, request: LlmRequest, llm: LlmClient) -> LlmReply:
        text = _text(target)
        asked = {"system": request.system, "user": request.user}
        return LlmReply(text=text, request_json={"url": "mock:", "body": asked})


def _text(target: Target) -> str:
    text = target.settings.get("response")
    return text if isinstance(text, str) else _DEFAULT


KINDS = (MockProvider(),)
