"""``provider: gemini``."""

from __future__ import annotations

from agentv_sandbox.models.suite import Target
from agentv_sandbox.models_api.dialects.llm_gemini import GeminiFormat
from agentv_sandbox.models_api.records import WireFormat
from agentv_sandbox.providers.model import ModelProvider, OneNameSettings


class GeminiProvider(ModelProvider):
    name = "gemini"
    aliases = ("google", "google-gemini")
    summary = "Google's generateContent."
    settings = OneNameSettings
    has_default_model = True

    def wire(self, target: Target) -> WireFormat:
        return GeminiFormat()


KINDS = (GeminiProvider(),)
