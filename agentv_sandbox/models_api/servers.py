"""Servers that are known to be of models, which APIs they have, and where these stand on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_OPENAI = ("api.openai.com", "us.api.openai.com", "eu.api.openai.com")
_OPENROUTER = "openrouter.ai"
_AZURE = (".openai.azure.com", ".services.ai.azure.com", ".cognitiveservices.azure.com")
_HOSTS = frozenset(
    [
        *_OPENAI,
        *[
            "api.anthropic.com",
            "openrouter.ai",
            "generativelanguage.googleapis.com",
            "api.mistral.ai",
            "codestral.mistral.ai",
            "api.groq.com",
            "api.x.ai",
            "api.deepseek.com",
            "api.together.xyz",
            "api.together.ai",
            "api.fireworks.ai",
            "api.cerebras.ai",
            "api.cohere.ai",
            "api.cohere.com",
            "api.perplexity.ai",
            "api.moonshot.ai",
            "api.moonshot.cn",
            "api.z.ai",
            "open.bigmodel.cn",
            "dashscope.aliyuncs.com",
            "dashscope-intl.aliyuncs.com",
            "api.minimax.io",
            "api.sambanova.ai",
            "api.studio.nebius.com",
            "router.huggingface.co",
            "integrate.api.nvidia.com",
            "api.novita.ai",
            "api.hyperbolic.xyz",
            "models.github.ai",
            "ai-gateway.vercel.sh",
        ],
    ]
)
_SUFFIXES = (*_AZURE, ".openrouter.ai")
_V1 = ("", "/v1")
_MAKERS: Mapping[str, Mapping[str, Sequence[str]]] = {
    "api.anthropic.com": {"anthropic": _V1},
    **{host: {"responses": _V1, "chat": _V1} for host in _OPENAI},
    "generativelanguage.googleapis.com": {
        "gemini": ("/v1beta", "/v1", ""),
        "chat": ("/v1beta/openai", "/v1/openai"),
    },
}
"""Servers of one maker: its APIs, and where each stands. Nothing else of them is passed on."""
_USUAL: Mapping[str, Sequence[str]] = {
    "anthropic": _V1,
    "responses": (*_V1, "/openai", "/openai/v1"),
    "chat": (*_V1, "/openai", "/openai/v1"),
    "gemini": ("", "/v1beta", "/v1"),
}
"""What programs put between a base URL and an operation."""
_OTHERS: Mapping[str, Sequence[str]] = {
    "anthropic": ("/anthropic", "/anthropic/v1", "/api/v1", "/api/anthropic", "/api/anthropic/v1"),
    "responses": ("/api/v1", "/inference", "/inference/v1", "/compatible-mode/v1"),
    "chat": (
        "/api/v1",
        "/v1beta/openai",
        "/inference",
        "/inference/v1",
        "/compatible-mode/v1",
        "/api/paas/v4",
    ),
    "gemini": (),
}
"""Where servers of several APIs have them."""


@dataclass(frozen=True)
class Server:
    """A server of models, as far as that matters to what may be asked of it."""

    host: str = ""
    """In lower case, without a port; empty where it is none that is known."""
    path: str = ""
    """Where its API stands, as its target says."""
    below_path: bool = False
    """Whether it stands nowhere else."""

    @property
    def openrouter(self) -> bool:
        """It keeps no answers, and says the usage of each unasked."""
        return self.host == _OPENROUTER or self.host.endswith(f".{_OPENROUTER}")

    @property
    def azure(self) -> bool:
        """A deployment in its path says which model is asked, whatever the body says."""
        return self.host.endswith(_AZURE)

    def prefixes(self, api: str) -> tuple[str, ...]:
        """What may stand before the path of an operation of ``api``. No other path is passed on, whatever it ends
        with."""
        if (maker := _MAKERS.get(self.host)) is not None:
            return tuple(maker.get(api, ()))
        below = [f"{self.path}{each}" for each in _USUAL[api]]
        if self.below_path:
            return tuple(dict.fromkeys(below))
        others = [f"{self.path}{each}" for each in _OTHERS[api]]
        return tuple(dict.fromkeys((*below, *others, *_USUAL[api], *_OTHERS[api])))


def is_model_server(host: str) -> bool:
    """Whether ``host``, in lower case, is one of the public servers of models."""
    return host in _HOSTS or host.endswith(_SUFFIXES)
