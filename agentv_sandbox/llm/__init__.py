"""Calls to LLM targets over HTTP. Nothing else in this package speaks HTTP to them."""

from agentv_sandbox.llm.client import LLM_PROVIDERS, LlmClient
from agentv_sandbox.llm.records import LlmReply, LlmRequest

__all__ = ["LLM_PROVIDERS", "LlmClient", "LlmReply", "LlmRequest"]
