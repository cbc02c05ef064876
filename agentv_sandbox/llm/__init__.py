"""Calls to LLM targets over HTTP. Nothing else in this package speaks HTTP to them."""

from agentv_sandbox.llm.client import LlmClient
from agentv_sandbox.llm.records import LlmReply, LlmRequest
from agentv_sandbox.llm.retry import RequestBudget

__all__ = ["LlmClient", "LlmReply", "LlmRequest", "RequestBudget"]
