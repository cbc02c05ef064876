"""Abuses of content: sound, pictures and what the provider would fetch or keeps."""

from __future__ import annotations

from collections.abc import Iterator

from .asked import Asked, asked_with, says, sets
from .probes import WEB


# -- sound, pictures and what is fetched or kept -----------------------------------------------------------------
def media() -> Iterator[Asked]:
    for kinds in (["text", "audio"], ["audio"], ["image", "text"], "audio", ["AUDIO"], [2], ["video"]):
        yield asked_with(f"modalities {kinds}", "chat", sets("modalities", kinds))
    for kinds in (["TEXT", "IMAGE"], ["AUDIO"], ["image"], "IMAGE", [2], ["VIDEO"]):
        yield asked_with(
            f"responseModalities {kinds}", "gemini", sets("generationConfig.responseModalities", kinds)
        )
        yield asked_with(
            f"response_modalities {kinds}",
            "gemini",
            sets("generation_config.response_modalities", kinds),
            lambda body: body.pop("generationConfig", None),
        )
    yield asked_with("a voice", "chat", sets("audio", {"voice": "alloy", "format": "wav"}))
    yield asked_with("a voice", "gemini", sets("generationConfig.speechConfig", {"languageCode": "en"}))
    sound = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
    yield asked_with("sound", "chat", says(sound))
    yield asked_with("sound", "responses", says(sound))
    yield asked_with("sound beside text", "chat", says({**sound, "type": "text", "text": "hi"}))
    yield asked_with("sound beside text", "responses", says({**sound, "type": "input_text", "text": "hi"}))
    yield asked_with(
        "sound of an answer", "chat", sets("messages", [{"role": "assistant", "audio": {"id": "a"}}])
    )
    for kind in ("audio/wav", "audio/mp3; rate=1", "VIDEO/mp4", "application/ogg", "model/gltf"):
        yield asked_with(kind, "gemini", says({"inlineData": {"mimeType": kind, "data": "AAAA"}}))
        yield asked_with(kind, "gemini", says({"inline_data": {"mime_type": kind, "data": "AAAA"}}))
        answer = {"name": "f", "response": {}, "parts": [{"inlineData": {"mimeType": kind, "data": "AAAA"}}]}
        yield asked_with(f"{kind} in a result", "gemini", says({"functionResponse": answer}))
        address = f"data:{kind};base64,AAAA"
        yield asked_with(kind, "chat", says({"type": "image_url", "image_url": {"url": address}}))
        yield asked_with(
            kind, "chat", says({"type": "file", "file": {"filename": "a", "file_data": address}})
        )
        yield asked_with(kind, "responses", says({"type": "input_image", "image_url": address}))
        yield asked_with(
            kind, "responses", says({"type": "input_file", "filename": "a", "file_data": address})
        )
        source = {"type": "base64", "media_type": kind, "data": "AAAA"}
        yield asked_with(kind, "anthropic", says({"type": "document", "source": source}))
    yield from _remote()


def _remote() -> Iterator[Asked]:
    for address in (
        WEB,
        "HTTPS://evil.example/",
        "//evil.example/a.png",
        " data:image/png;base64,AA",
        "gs://b/a",
    ):
        yield asked_with(address, "chat", says({"type": "image_url", "image_url": {"url": address}}))
        yield asked_with(f"{address}, short", "chat", says({"type": "image_url", "image_url": address}))
        yield asked_with(address, "responses", says({"type": "input_image", "image_url": address}))
        yield asked_with(address, "gemini", says({"fileData": {"fileUri": address}}))
        yield asked_with(address, "gemini", says({"file_data": {"file_uri": address}}))
        yield asked_with(
            address, "anthropic", says({"type": "image", "source": {"type": "url", "url": address}})
        )
    for kind in ("video_url", "audio_url", "input_video", "document_url"):
        yield asked_with(kind, "chat", says({"type": kind, kind: {"url": WEB}}))
        yield asked_with(
            f"{kind} beside text", "chat", says({"type": "text", "text": "hi", kind: {"url": WEB}})
        )
        yield asked_with(kind, "responses", says({"type": kind, kind: WEB}))
    beside = {"type": "text", "text": "hi", "image_url": {"url": WEB}}
    yield asked_with("an image beside text", "chat", says(beside))
    for key in ("images", "attachments", "files", "videos"):
        said = [
            {"role": "assistant", "content": "hi", key: [{"type": "image_url", "image_url": {"url": WEB}}]}
        ]
        yield asked_with(f"{key} of a message", "chat", sets("messages", said))
    image = {"type": "input_image", "image_url": WEB}
    for key in ("content", "output", "summary"):
        item = {"type": "function_call_output", "call_id": "c", key: image}
        yield asked_with(
            f"{key} that is one image", "responses", lambda body, item=item: body["input"].append(item)
        )
    yield asked_with(
        "an image in a prediction", "chat", sets("prediction", {"type": "content", "content": [beside]})
    )
    by_id = {"type": "image", "source": {"type": "file", "file_id": "file_1"}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": [by_id]}
    yield asked_with("an image by its id in a result", "anthropic", says(result))
