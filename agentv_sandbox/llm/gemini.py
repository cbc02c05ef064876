"""Google's generateContent protocol."""

from __future__ import annotations

from agentv_sandbox.llm.records import (
    LlmRequest,
    MalformedReply,
    WireCall,
    WireReply,
    count,
    max_tokens_of,
    split_data_uri,
    temperature_of,
    text_setting,
)
from agentv_sandbox.models.case import AnswerImage, TokenUsage
from agentv_sandbox.models.suite import Json, Target

GEMINI_URL = "https://generativelanguage.googleapis.com/v1beta"


class GeminiFormat:
    def call(
        self, target: Target, request: LlmRequest, *, key: str | None, structured: bool, stream: bool
    ) -> WireCall:
        parts: list[Json] = [{"text": request.user}, *map(_image_part, request.images)]
        body: dict[str, Json] = {"contents": [{"role": "user", "parts": parts}]}
        if request.system:
            body["systemInstruction"] = {"parts": [{"text": request.system}]}
        config: dict[str, Json] = {}
        temperature, max_tokens = temperature_of(target, request), max_tokens_of(target, request)
        if temperature is not None:
            config["temperature"] = temperature
        if max_tokens is not None:
            config["maxOutputTokens"] = max_tokens
        if structured and request.schema is not None:
            config["responseMimeType"] = "application/json"
            config["responseJsonSchema"] = dict(request.schema)
        if config:
            body["generationConfig"] = config
        base = text_setting(target, "base_url", GEMINI_URL).rstrip("/")
        verb = "streamGenerateContent?alt=sse" if stream else "generateContent"
        url = f"{base}/models/{text_setting(target, 'model', 'gemini-2.5-flash')}:{verb}"
        return WireCall(url=url, body=body, headers={} if key is None else {"x-goog-api-key": key})

    def fold(self, events: list[Json]) -> Json:
        text: list[str] = []
        last: dict[str, Json] = {}
        for event in events:
            if isinstance(event, dict):
                text.append(_text(event))
                last = event
        finish = (last.get("candidates") or [{}])[0].get("finishReason")
        if finish is None:
            raise MalformedReply("the stream ended before the answer was complete")
        content = {"role": "model", "parts": [{"text": "".join(text)}]}
        return {**last, "candidates": [{"content": content, "finishReason": finish}]}

    def reply(self, body: Json) -> WireReply:
        if not isinstance(body, dict) or not body.get("candidates"):
            feedback = body.get("promptFeedback") if isinstance(body, dict) else None
            raise MalformedReply(f"no candidates[] in the reply{f': {feedback}' if feedback else ''}")
        usage = body.get("usageMetadata")
        tokens = None
        if isinstance(usage, dict):
            tokens = TokenUsage(
                input=count(usage.get("promptTokenCount")),
                output=count(usage.get("candidatesTokenCount")) + count(usage.get("thoughtsTokenCount")),
                cached=count(usage.get("cachedContentTokenCount")) or None,
            )
        return WireReply(text=_text(body), token_usage=tokens)


def _text(body: dict[str, Json]) -> str:
    """Answer text of the first candidate, without the model's thoughts."""
    try:
        parts = (body["candidates"][0].get("content") or {}).get("parts") or []
        return "".join(part.get("text", "") for part in parts if not part.get("thought"))
    except (TypeError, KeyError, IndexError, AttributeError):
        raise MalformedReply("candidates[0].content.parts[] is not what the protocol says") from None


def _image_part(image: AnswerImage) -> Json:
    data = split_data_uri(image.source)
    if data is None:
        return {"fileData": {"mimeType": image.media_type, "fileUri": image.source}}
    return {"inlineData": {"mimeType": data[0], "data": data[1]}}
