"""Anthropic's messages protocol. Structured output is a forced tool call, which every version has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from agentv_sandbox import masking
from agentv_sandbox.models.case import AnswerImage
from agentv_sandbox.models.foreign_json import read_json
from agentv_sandbox.models.messages import trim
from agentv_sandbox.models.suite import Json, Target
from agentv_sandbox.models_api.dialects.anthropic import Anthropic
from agentv_sandbox.models_api.records import (
    Attachment,
    ChatRequest,
    LlmRequest,
    MalformedReply,
    WireCall,
    WireReply,
    chat_limits,
    max_tokens_of,
    number_setting,
    split_data_uri,
    temperature_of,
    text_setting,
    word,
)

ANTHROPIC_URL = "https://api.anthropic.com/v1"
API_VERSION = "2023-06-01"
DEFAULT_MAX_TOKENS = 4096
"""The protocol has no default of its own."""
TOOL = "evaluation"
_CACHED = {"type": "ephemeral"}
_ADAPTIVE = re.compile(r"(opus-4[-.][67]|sonnet-4[-.]6)")
"""Models that decide themselves how long they think."""
_NO_THINKING = re.compile(r"claude-3-(?!7)")
_MOST_TOKENS = (
    (re.compile(r"claude-3-5-"), 8192),
    (re.compile(r"claude-3-(?!7)"), 4096),
    (re.compile(r"claude-opus-4-([01]|2025)"), 32_000),
    (re.compile(r"claude-opus-4-[67]"), 128_000),
)
"""What models can write at most, by their names; the others 64,000. AgentV asks for a third of it."""
_USUAL_MOST_TOKENS = 64_000

_API = Anthropic()


class AnthropicFormat:
    def call(
        self, target: Target, request: LlmRequest, *, key: str | None, structured: bool, stream: bool
    ) -> WireCall:
        content: list[Json] = [_image_part(image) for image in request.images]
        content.append({"type": "text", "text": request.user})
        body: dict[str, Json] = {
            "model": text_setting(target, "model"),
            "max_tokens": max_tokens_of(target, request) or DEFAULT_MAX_TOKENS,
            "messages": [{"role": "user", "content": content}],
        }
        if request.system:
            body["system"] = request.system
        temperature = temperature_of(target, request)
        if temperature is not None:
            body["temperature"] = temperature
        if structured and request.schema is not None:
            body["tools"] = [{"name": TOOL, "input_schema": dict(request.schema)}]
            body["tool_choice"] = {"type": "tool", "name": TOOL}
        if stream:
            body["stream"] = True
        return _call(target, body, key)

    def chat(self, target: Target, request: ChatRequest, *, key: str | None, stream: bool) -> WireCall:
        model = text_setting(target, "model")
        limits = chat_limits(target, "max_tokens")
        body: dict[str, Json] = {
            "model": model,
            "messages": _messages(request),
            "max_tokens": limits.pop("max_tokens", None) or _third_of_most(model),
        }
        if stream:
            body["stream"] = True
        body["system"] = [{"type": "text", "text": request.system, "cache_control": _CACHED}]
        budget = number_setting(target, "thinking_budget")
        if budget is None:
            body |= limits
        elif _ADAPTIVE.search(model):
            body["thinking"] = {"type": "adaptive", "display": "summarized"}
        elif not _NO_THINKING.match(model):
            body["thinking"] = {"type": "enabled", "budget_tokens": int(budget), "display": "summarized"}
        return _call(target, body, key)

    def fold(self, events: list[Json]) -> Json:
        blocks: dict[int, dict[str, str]] = {}
        usage: dict[str, Json] = {}
        stop, model = None, None
        for event in events:
            kind = event.get("type") if isinstance(event, dict) else None
            if kind == "message_start":
                usage.update(event["message"].get("usage") or {})
                model = event["message"].get("model")
            elif kind == "content_block_start":
                blocks[event["index"]] = {"type": event["content_block"]["type"], "data": ""}
            elif kind == "content_block_delta":
                delta = event["delta"]
                blocks[event["index"]]["data"] += delta.get("text") or delta.get("partial_json") or ""
            elif kind == "message_delta":
                usage.update({k: v for k, v in (event.get("usage") or {}).items() if v is not None})
                stop = event["delta"].get("stop_reason") or stop
            elif kind == "error":
                raise MalformedReply(f"the server reported: {masking.first(str(event.get('error')), 300)}")
        if stop is None:
            raise MalformedReply("the stream ended before the answer was complete")
        content = [part for _, block in sorted(blocks.items()) for part in _finished_block(block)]
        return {"content": content, "usage": usage, "stop_reason": stop, "model": model}

    def reply(self, body: Json) -> WireReply:
        try:
            blocks = body["content"]
            tool = next((json.dumps(b["input"]) for b in blocks if b["type"] == "tool_use"), None)
            text = "".join(b["text"] for b in blocks if b["type"] == "text") if tool is None else tool
        except (TypeError, KeyError):
            raise MalformedReply("no content[] in the reply") from None
        return WireReply(
            text=text,
            usage=_API.usage(body, None),
            model=word(body.get("model")),
            stop_reason=word(body.get("stop_reason")),
        )


def _call(target: Target, body: dict[str, Json], key: str | None) -> WireCall:
    base = text_setting(target, "base_url", ANTHROPIC_URL).rstrip("/")
    url = f"{base}/messages" if base.endswith("/v1") else f"{base}/v1/messages"
    headers = {"anthropic-version": API_VERSION, **({"x-api-key": key} if key is not None else {})}
    return WireCall(url=url, model=str(body["model"]), body=body, headers=headers)


def _third_of_most(model: str) -> int:
    return next((most for name, most in _MOST_TOKENS if name.match(model)), _USUAL_MOST_TOKENS) // 3


def _messages(request: ChatRequest) -> list[Json]:
    """What was said, without what is empty; the last question is marked as worth caching."""
    messages: list[dict[str, Json]] = []
    for message in request.messages:
        part = {"type": "text", "text": message.text}
        attached = [_attached_part(each) for each in message.attachments]
        if attached:
            messages.append(
                {"role": message.role, "content": [*attached, *([part] if trim(message.text) else [])]}
            )
        elif trim(message.text):
            content: Json = message.text if message.role == "user" else [part]
            messages.append({"role": message.role, "content": content})
    if messages and messages[-1]["role"] == "user":
        last = messages[-1]["content"]
        parts = last if isinstance(last, list) else [{"type": "text", "text": last}]
        messages[-1]["content"] = [*parts[:-1], {**parts[-1], "cache_control": _CACHED}]
    return messages


def _attached_part(attachment: Attachment) -> Json:
    source = {"type": "base64", "media_type": attachment.media_type, "data": attachment.data}
    return {"type": "image" if attachment.is_image else "document", "source": source}


def _finished_block(block: dict[str, str]) -> Iterator[Json]:
    if block["type"] == "text":
        yield {"type": "text", "text": block["data"]}
    elif block["type"] == "tool_use":
        yield {"type": "tool_use", "input": read_json(block["data"] or "{}")}


def _image_part(image: AnswerImage) -> Json:
    data = split_data_uri(image.source)
    if data is None:
        return {"type": "image", "source": {"type": "url", "url": image.source}}
    return {"type": "image", "source": {"type": "base64", "media_type": data[0], "data": data[1]}}
