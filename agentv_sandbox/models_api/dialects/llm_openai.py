"""OpenAI's two protocols, which most servers speak: chat completions and responses."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from agentv_sandbox import masking
from agentv_sandbox.models.case import AnswerImage
from agentv_sandbox.models.foreign_json import MAX_COST_USD, amount
from agentv_sandbox.models.messages import trim
from agentv_sandbox.models.suite import Json, Target
from agentv_sandbox.models_api.dialects.chat import Chat
from agentv_sandbox.models_api.dialects.responses import Responses
from agentv_sandbox.models_api.records import (
    REFUSAL,
    Attachment,
    ChatMessage,
    ChatRequest,
    LlmRequest,
    MalformedReply,
    WireCall,
    WireReply,
    chat_limits,
    max_tokens_of,
    temperature_of,
    text_setting,
    word,
)

_REASONING = re.compile(r"o[1-9](-|\Z)|gpt-5(?!(\.3)?-chat)", re.ASCII)
"""Models that think before they answer."""
_SWITCHED_OFF = re.compile(r"gpt-5\.([1245]|4-mini|4-nano|3-codex)", re.ASCII)
"""Those of them whose thinking AgentV switches off."""
_NO_STORE = re.compile(
    r"cerebras\.ai|api\.x\.ai|api\.together\.(ai|xyz)|chutes\.ai|deepseek\.com|api\.z\.ai|api\.moonshot\."
    r"|opencode\.ai|api\.cloudflare\.com|gateway\.ai\.cloudflare\.com"
)
"""Servers that know neither ``store`` nor the role ``developer``."""
_OLD_NAME = re.compile(r"chutes\.ai|api\.moonshot\.|gateway\.ai\.cloudflare\.com|api\.together\.(ai|xyz)")
"""Servers that know ``max_tokens`` alone."""

_CHAT, _RESPONSES = Chat(), Responses()


def bearer(key: str) -> Mapping[str, str]:
    return {"authorization": f"Bearer {key}"}


@dataclass(frozen=True, kw_only=True)
class OpenAiServer:
    """What differs between the servers that speak these protocols."""

    url: Callable[[Target, str], str]
    """Address of a verb, such as ``chat/completions``."""
    auth: Callable[[str], Mapping[str, str]] = bearer
    has_old_names: Callable[[Target], bool] = lambda _target: False
    """Whether it calls the bound of chat completions ``max_tokens`` still, as compatible servers do."""
    chat_fields: Mapping[str, Json] = field(default_factory=dict)
    """Further fields of a chat completion."""
    caches: Callable[[Target], bool] = lambda _target: False
    """Whether a request says what of it should be cached."""
    thinks: Callable[[Target], bool] = lambda target: bool(_REASONING.match(model_of(target)))
    """Whether the model takes its instructions from a ``developer``."""
    switches_off: Callable[[Target], bool] = lambda target: bool(_SWITCHED_OFF.fullmatch(model_of(target)))
    stores: bool = True
    """Whether responses are kept unless it is said that they are not."""


@dataclass(frozen=True)
class ChatFormat:
    """``POST {base}/chat/completions``: spoken by every compatible server."""

    server: OpenAiServer

    def call(
        self, target: Target, request: LlmRequest, *, key: str | None, structured: bool, stream: bool
    ) -> WireCall:
        body: dict[str, Json] = {"model": model_of(target), "messages": _chat_messages(request)}
        temperature, max_tokens = temperature_of(target, request), max_tokens_of(target, request)
        if temperature is not None:
            body["temperature"] = temperature
        if max_tokens is not None:
            old = self.server.has_old_names(target)
            body["max_tokens" if old else "max_completion_tokens"] = max_tokens
        if structured and request.schema is not None:
            body["response_format"] = {"type": "json_schema", "json_schema": _named_schema(request.schema)}
        body.update(self.server.chat_fields)
        if stream:
            body["stream"] = True
            body["stream_options"] = {"include_usage": True}
        url = self.server.url(target, "chat/completions")
        return WireCall(url=url, model=model_of(target), body=body, headers=_headers(self.server, key))

    def chat(self, target: Target, request: ChatRequest, *, key: str | None, stream: bool) -> WireCall:
        url = self.server.url(target, "chat/completions")
        stores = not _NO_STORE.search(url)
        role = "developer" if stores and self.server.thinks(target) else "system"
        said = [
            {"role": m.role, "content": _chat_content(m)}
            for m in request.messages
            if m.role == "user" or trim(m.text)
        ]
        body: dict[str, Json] = {
            "model": model_of(target),
            "messages": [{"role": role, "content": request.system}, *said],
        }
        if self.server.caches(target):
            _mark_cached(body["messages"])
        if stream:
            body["stream"] = True
            body["stream_options"] = {"include_usage": True}
        if stores:
            body["store"] = False
        body |= chat_limits(target, "max_tokens" if _OLD_NAME.search(url) else "max_completion_tokens")
        if self.server.switches_off(target):
            body["reasoning_effort"] = "none"
        return WireCall(url=url, model=model_of(target), body=body, headers=_headers(self.server, key))

    def fold(self, events: list[Json]) -> Json:
        said: dict[str, list[str]] = {"content": [], "refusal": []}
        finish, usage, model = None, None, None
        for event in events:
            if not isinstance(event, dict):
                raise MalformedReply("a stream event is not an object")
            if event.get("error"):
                raise MalformedReply(f"the server reported: {masking.first(str(event['error']), 300)}")
            usage = event.get("usage") or usage
            model = model or event.get("model")
            for choice in (event.get("choices") or [])[:1]:
                delta = choice.get("delta") or {}
                for name, pieces in said.items():
                    if isinstance(delta.get(name), str):
                        pieces.append(delta[name])
                finish = choice.get("finish_reason") or finish
        if finish is None:
            raise MalformedReply("the stream ended before the answer was complete")
        message = {"role": "assistant", **{name: "".join(pieces) for name, pieces in said.items()}}
        choice = {"index": 0, "message": message, "finish_reason": finish}
        return {"choices": [choice], "usage": usage, "model": model}

    def reply(self, body: Json) -> WireReply:
        try:
            message = body["choices"][0]["message"]
            refusal = message.get("refusal") or ""
            content = message.get("content") or refusal
        except (TypeError, KeyError, IndexError, AttributeError):
            raise MalformedReply("no choices[0].message in the reply") from None
        if isinstance(content, list):
            content = "".join(part.get("text", "") for part in content if isinstance(part, dict))
        if not isinstance(content, str):
            raise MalformedReply("choices[0].message.content is not text")
        usage = body.get("usage") if isinstance(body.get("usage"), dict) else {}
        return WireReply(
            text=content,
            usage=_CHAT.usage(body, None),
            cost_usd=amount(usage.get("cost"), MAX_COST_USD),
            model=word(body.get("model")),
            stop_reason=REFUSAL if refusal else word(body["choices"][0].get("finish_reason")),
        )


@dataclass(frozen=True)
class ResponsesFormat:
    """``POST {base}/responses``."""

    server: OpenAiServer

    def call(
        self, target: Target, request: LlmRequest, *, key: str | None, structured: bool, stream: bool
    ) -> WireCall:
        content: list[Json] = [{"type": "input_text", "text": request.user}]
        content += [{"type": "input_image", "image_url": image.source} for image in request.images]
        body: dict[str, Json] = {
            "model": model_of(target),
            "input": [{"role": "user", "content": content}],
            "store": False,
        }
        if request.system:
            body["instructions"] = request.system
        temperature, max_tokens = temperature_of(target, request), max_tokens_of(target, request)
        if temperature is not None:
            body["temperature"] = temperature
        if max_tokens is not None:
            body["max_output_tokens"] = max_tokens
        if structured and request.schema is not None:
            body["text"] = {"format": {"type": "json_schema", **_named_schema(request.schema)}}
        if stream:
            body["stream"] = True
        url = self.server.url(target, "responses")
        return WireCall(url=url, model=model_of(target), body=body, headers=_headers(self.server, key))

    def chat(self, target: Target, request: ChatRequest, *, key: str | None, stream: bool) -> WireCall:
        thinks = self.server.thinks(target)
        messages: list[Json] = [{"role": "developer" if thinks else "system", "content": request.system}]
        for number, message in enumerate(request.messages):
            if message.role == "user":
                messages.append({"role": "user", "content": _response_parts(message)})
                continue
            part = {"type": "output_text", "text": message.text, "annotations": []}
            said = {"type": "message", "role": "assistant", "content": [part], "status": "completed"}
            messages.append({**said, "id": f"msg_{number}"})
        body: dict[str, Json] = {"model": model_of(target), "input": messages}
        if stream:
            body["stream"] = True
        if self.server.stores:
            body["store"] = False
        body |= chat_limits(target, "max_output_tokens")
        if self.server.switches_off(target):
            body["reasoning"] = {"effort": "none"}
        url = self.server.url(target, "responses")
        return WireCall(url=url, model=model_of(target), body=body, headers=_headers(self.server, key))

    def fold(self, events: list[Json]) -> Json:
        for event in reversed(events):
            if isinstance(event, dict) and event.get("type") in ("response.completed", "response.incomplete"):
                return event.get("response")
            if isinstance(event, dict) and event.get("type") in ("response.failed", "error"):
                raise MalformedReply(
                    f"the server reported: {masking.first(str(event.get('response') or event), 300)}"
                )
        raise MalformedReply("the stream ended before the answer was complete")

    def reply(self, body: Json) -> WireReply:
        try:
            parts = [
                part
                for item in body["output"]
                if item.get("type") == "message"
                for part in item["content"]
                if part.get("type") in ("output_text", "refusal")
            ]
            text = "".join(part.get("text") or part.get("refusal") or "" for part in parts)
            refused = any(part["type"] == "refusal" for part in parts)
        except (TypeError, KeyError, AttributeError):
            raise MalformedReply("no output[].content[] in the reply") from None
        if body.get("status") == "failed":
            raise MalformedReply(f"the server reported: {masking.first(str(body.get('error')), 300)}")
        details = body.get("incomplete_details")
        reason = details.get("reason") if isinstance(details, dict) else None
        return WireReply(
            text=text,
            usage=_RESPONSES.usage(body, None),
            model=word(body.get("model")),
            stop_reason=REFUSAL if refused else word(reason) or word(body.get("status")),
        )


def _mark_cached(messages: list[dict[str, Json]]) -> None:
    """Mark the system text and the last message that holds any, as Anthropic's models want it."""
    last = next((m for m in reversed(messages[1:]) if m["content"]), None)
    for message in (messages[0], *([last] if last else [])):
        mark = {"type": "ephemeral"}
        if isinstance(message["content"], list):
            message["content"][0] |= {"cache_control": mark}
        else:
            message["content"] = [{"type": "text", "text": message["content"], "cache_control": mark}]


def _chat_content(message: ChatMessage) -> Json:
    """Of a message of a chat completion: its text alone, as AgentV sends it, or with what is attached."""
    if not message.attachments:
        return message.text
    return [{"type": "text", "text": message.text}, *map(_chat_part, message.attachments)]


def _chat_part(attachment: Attachment) -> Json:
    if attachment.is_image:
        return {"type": "image_url", "image_url": {"url": attachment.uri}}
    return {"type": "file", "file": {"filename": attachment.name, "file_data": attachment.uri}}


def _response_parts(message: ChatMessage) -> list[Json]:
    """Of a user's message of a response."""
    attached: list[Json] = [
        {"type": "input_image", "image_url": each.uri}
        if each.is_image
        else {"type": "input_file", "filename": each.name, "file_data": each.uri}
        for each in message.attachments
    ]
    return [{"type": "input_text", "text": message.text}, *attached]


def _chat_messages(request: LlmRequest) -> list[Json]:
    content: Json = request.user
    if request.images:
        content = [{"type": "text", "text": request.user}, *map(_image_part, request.images)]
    messages: list[Json] = [{"role": "system", "content": request.system}] if request.system else []
    return [*messages, {"role": "user", "content": content}]


def _image_part(image: AnswerImage) -> Json:
    return {"type": "image_url", "image_url": {"url": image.source}}


def _named_schema(schema: Mapping[str, Json]) -> dict[str, Json]:
    return {"name": "evaluation", "schema": dict(schema), "strict": True}


def model_of(target: Target) -> str:
    """Azure calls it a deployment, AgentV also a variant."""
    names = ("model", "deployment", "variant")
    return next(filter(None, (text_setting(target, name) for name in names)), "gpt-4o-mini")


def _headers(server: OpenAiServer, key: str | None) -> Mapping[str, str]:
    return {} if key is None else server.auth(key)
