"""Google's generateContent protocol."""

from __future__ import annotations

from agentv_sandbox import masking
from agentv_sandbox.models.case import AnswerImage
from agentv_sandbox.models.messages import trim
from agentv_sandbox.models.suite import Json, Target
from agentv_sandbox.models_api.dialects.gemini import Gemini
from agentv_sandbox.models_api.records import (
    Attachment,
    ChatRequest,
    LlmRequest,
    MalformedReply,
    WireCall,
    WireReply,
    Withheld,
    max_tokens_of,
    number_setting,
    plain_number,
    split_data_uri,
    temperature_of,
    text_setting,
    word,
)

GEMINI_URL = "https://generativelanguage.googleapis.com/v1beta"
DEFAULT_MODEL = "gemini-2.5-flash"
_API = Gemini()


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
        return _call(target, body, key, stream=stream)

    def chat(self, target: Target, request: ChatRequest, *, key: str | None, stream: bool) -> WireCall:
        names = {"user": "user", "assistant": "model"}
        body: dict[str, Json] = {
            "contents": [
                {"parts": [{"text": m.text}, *map(_attached_part, m.attachments)], "role": names[m.role]}
                for m in request.messages
                if m.role == "user" or trim(m.text)
            ],
            "systemInstruction": {"parts": [{"text": request.system}], "role": "user"},
        }
        most, temperature = number_setting(target, "max_output_tokens"), number_setting(target, "temperature")
        wanted = {"temperature": temperature, "maxOutputTokens": most}
        body["generationConfig"] = {k: plain_number(v) for k, v in wanted.items() if v is not None}
        return _call(target, body, key, stream=stream)

    def fold(self, events: list[Json]) -> Json:
        text: list[str] = []
        last: dict[str, Json] = {}
        finish = None
        for event in events:
            if not isinstance(event, dict):
                raise MalformedReply("a stream event is not an object")
            if event.get("error"):
                raise MalformedReply(f"the server reported: {masking.first(str(event['error']), 300)}")
            last = {**last, **event}
            if event.get("candidates"):
                text.append(_text(event))
                finish = event["candidates"][0].get("finishReason") or finish
        if not last.get("candidates"):
            return last  # a question that was blocked has no candidates, in a stream as elsewhere
        if finish is None:
            raise MalformedReply("the stream ended before the answer was complete")
        content = {"role": "model", "parts": [{"text": "".join(text)}]}
        return {**last, "candidates": [{"content": content, "finishReason": finish}]}

    def reply(self, body: Json) -> WireReply:
        if not isinstance(body, dict):
            raise MalformedReply("the reply is not an object")
        if not body.get("candidates"):
            feedback = body.get("promptFeedback")
            if isinstance(feedback, dict) and feedback.get("blockReason"):
                raise Withheld(f"the question was blocked: {feedback['blockReason']}")
            raise MalformedReply("no candidates[] in the reply")
        return WireReply(
            text=_text(body),
            usage=_API.usage(body, None),
            model=word(body.get("modelVersion")),
            stop_reason=word(body["candidates"][0].get("finishReason")),
        )


def _call(target: Target, body: dict[str, Json], key: str | None, *, stream: bool) -> WireCall:
    base = text_setting(target, "base_url", GEMINI_URL).rstrip("/")
    verb = "streamGenerateContent?alt=sse" if stream else "generateContent"
    model = text_setting(target, "model", DEFAULT_MODEL)
    headers = {} if key is None else {"x-goog-api-key": key}
    return WireCall(url=f"{base}/models/{model}:{verb}", model=model, body=body, headers=headers)


def _text(body: dict[str, Json]) -> str:
    """Answer text of the first candidate, without the model's thoughts."""
    try:
        parts = (body["candidates"][0].get("content") or {}).get("parts") or []
        return "".join(part.get("text", "") for part in parts if not part.get("thought"))
    except (TypeError, KeyError, IndexError, AttributeError):
        raise MalformedReply("candidates[0].content.parts[] is not what the protocol says") from None


def _attached_part(attachment: Attachment) -> Json:
    return {"inlineData": {"mimeType": attachment.media_type, "data": attachment.data}}


def _image_part(image: AnswerImage) -> Json:
    data = split_data_uri(image.source)
    if data is None:
        return {"fileData": {"mimeType": image.media_type, "fileUri": image.source}}
    return {"inlineData": {"mimeType": data[0], "data": data[1]}}
