"""What is asked of an LLM target and what comes back, independent of any server's wire format."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Literal

from agentv_sandbox.base.dataclass import dataclass
from agentv_sandbox.models.case import AnswerImage
from agentv_sandbox.models.figures import TokenUsage
from agentv_sandbox.models.suite import Target
from agentv_sandbox.models_api.prices import Price
from agentv_sandbox.models_api.usage import Usage

if TYPE_CHECKING:
    from agentv_sandbox.modelclient.retry import RequestBudget


@dataclass(frozen=True, kw_only=True)
class LlmRequest:
    """One question: a system text, a user text with images, and the JSON schema of the wanted answer."""

    user: str
    system: str = ""
    images: tuple[AnswerImage, ...] = ()
    schema: Mapping[str, object] | None = None
    """Sent as structured output where the server has it."""
    temperature: float | None = None
    max_tokens: int | None = None
    budget: RequestBudget | None = field(default=None, compare=False, repr=False)
    """What this question may take together with others of the same grading; None: what a grading may, alone."""


@dataclass(frozen=True, kw_only=True)
class Attachment:
    """A file of a test that a server is sent as it is: an image or a PDF."""

    name: str
    media_type: str
    data: str
    """In base64."""

    @property
    def uri(self) -> str:
        return f"data:{self.media_type};base64,{self.data}"

    @property
    def is_image(self) -> bool:
        return self.media_type.startswith("image/")


@dataclass(frozen=True, kw_only=True)
class ChatMessage:
    role: Literal["user", "assistant"]
    text: str
    attachments: tuple[Attachment, ...] = ()
    """Of a user's message."""


@dataclass(frozen=True, kw_only=True)
class ChatRequest:
    """A test to be answered: a system text and messages, as AgentV sends them."""

    system: str
    messages: tuple[ChatMessage, ...]
    time_limit_s: float
    """From the first attempt to the end of the last one."""


@dataclass(frozen=True, kw_only=True)
class LlmReply:
    text: str
    usage: Usage | None = None
    """Of an answer of a server, as it is priced."""
    token_usage: TokenUsage | None = None
    cost_usd: float | None = None
    model: str | None = None
    """Which model answered, as the server says."""
    stop_reason: str | None = None
    """Why it ended, in the server's own word."""
    duration_ms: float = 0.0
    """Wall time, retries and waiting for the rate limit included."""
    request_json: object = None
    """``{"url", "body"}`` as sent; headers, and so keys, are not part of it."""
    attempts: int = 1


@dataclass(frozen=True, kw_only=True)
class WireCall:
    """One HTTP POST."""

    url: str
    model: str
    """That is asked."""
    body: dict[str, object]
    headers: Mapping[str, str] = field(default_factory=dict)
    """Holds the key; never recorded."""


def temperature_of(target: Target, request: LlmRequest) -> float | None:
    return request.temperature if request.temperature is not None else target.number("temperature")


def chat_limits(target: Target, max_tokens: str) -> dict[str, object]:
    """The bound of the answer, under the server's name for it, and the temperature; neither where it is not set."""
    most, temperature = target.number("max_output_tokens"), target.number("temperature")
    wanted = {max_tokens: None if most is None else int(most), "temperature": plain_number(temperature)}
    return {name: value for name, value in wanted.items() if value is not None}


def plain_number(value: float | None) -> float | int | None:
    """As JavaScript writes it: whole numbers without a fraction."""
    return int(value) if value is not None and value.is_integer() else value


def max_tokens_of(target: Target, request: LlmRequest) -> int | None:
    if request.max_tokens is not None:
        return request.max_tokens
    value = target.number("max_output_tokens")
    return None if value is None else int(value)


def stated_prices(target: Target) -> Mapping[str, Price]:
    """Of all models of ``target``, where it states both; they go before list prices."""
    sent = target.number("input_cost_per_million")
    received = target.number("output_cost_per_million")
    return {} if sent is None or received is None else {"*": Price(input=sent, output=received)}


def split_data_uri(source: str) -> tuple[str, str] | None:
    """``(media type, base64 data)`` of a base64 data URI; None for any other source."""
    if not source.startswith("data:"):
        return None
    head, separator, data = source[5:].partition(",")
    if not separator or not head.endswith(";base64"):
        return None
    return head.removesuffix(";base64").split(";")[0], data
