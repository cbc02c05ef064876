"""Gemini's generateContent. Its server takes both spellings of every key; one, camelCase, is looked at."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from agentv_sandbox import masking
from agentv_sandbox.models.suite import Json
from agentv_sandbox.models_api.denial import Denial
from agentv_sandbox.models_api.dialects.base import (
    Check,
    Dialect,
    Operation,
    Row,
    names,
    number,
    only,
    row_of,
    rows_of,
)
from agentv_sandbox.models_api.dialects.strict import refuse_lookalikes
from agentv_sandbox.models_api.usage import Usage

_PATH = re.compile(
    r"/models/([A-Za-z0-9][A-Za-z0-9._-]{0,99}):(generateContent|streamGenerateContent|countTokens)"
)
_SNAKE = re.compile(r"_([a-z])")
_TAIL = re.compile(r"(?<=[a-z])([A-Z])")
_SPELT = re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)+")
_FIELDS = names(
    "model contents systemInstruction tools toolConfig safetySettings generationConfig generateContentRequest "
    "store serviceTier"
)
_GENERATION = names(
    "stopSequences responseMimeType responseSchema responseJsonSchema responseModalities candidateCount "
    "maxOutputTokens temperature topP topK seed presencePenalty frequencyPenalty responseLogprobs logprobs "
    "thinkingConfig mediaResolution audioTimestamp enableEnhancedCivicAnswers"
)
_SERVER_TOOLS = (
    ("googleSearch", "web_search"),
    ("enterpriseWebSearch", "web_search"),
    ("googleMaps", "web_search"),
    ("urlContext", "web_fetch"),
    ("codeExecution", "code_execution"),
    ("fileSearch", "file_search"),
    ("retrieval", "file_search"),
    ("computerUse", "computer_use"),
    ("mcpServers", "mcp"),
)
_TOOLS_BY_NAME = tuple((_TAIL.sub(r"_\1", name).lower(), grant) for name, grant in _SERVER_TOOLS)
"""As functions are named."""
_SERVER_PARTS = (("executableCode", "code_execution"), ("codeExecutionResult", "code_execution"))
_CLIENT_PARTS = names(
    "text thought thoughtSignature inlineData functionCall functionResponse videoMetadata mediaResolution "
    "partMetadata"
)
_THINKING = names("includeThoughts thinkingBudget thinkingLevel")
_TOOLS = names("functionCallingConfig retrievalConfig")
_CALLING = names("mode allowedFunctionNames streamFunctionCallArguments")
_STATUSES = {400: "INVALID_ARGUMENT", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 413: "INVALID_ARGUMENT"}


class Gemini(Dialect):
    name: ClassVar = "Gemini's generateContent"
    key: ClassVar = "gemini"
    maker: ClassVar = "Google"
    sends_own: ClassVar = False

    def operation(self, path: str, query: Mapping[str, str]) -> Operation | None:
        if (match := _PATH.fullmatch(path)) is None:
            return None
        only(query, {"alt": re.compile("sse|json")})
        stream = match[2].startswith("stream")
        # Without sse a stream is one array that grows; every client here asks for events.
        if stream and query.get("alt") != "sse":
            raise Denial(403, "a stream is answered as events alone; add alt=sse")
        alt = f"?alt={query['alt']}" if query else ""
        return Operation(
            name="count" if match[2] == "countTokens" else "generate",
            path=f"{path}{alt}",
            model=match[1],
            stream=stream,
        )

    def check(self, body: dict[str, Json], operation: Operation, check: Check) -> tuple[str, dict[str, Json]]:
        body = _camel(body)
        check.fields(body, _FIELDS, {"cachedContent": "stored_responses"})
        check.choice(body, "store", frozenset({False}), "stored_responses")
        check.choice(body, "serviceTier", frozenset({"standard"}), "priority")
        if operation.name == "generate" and "generateContentRequest" in body:
            raise Denial(403, "the field generateContentRequest belongs to countTokens")
        inner = body.get("generateContentRequest")
        if inner is not None:
            named = _camel(row_of(inner, "generateContentRequest"))
            check.fields(named, _FIELDS - {"generateContentRequest"}, {"cachedContent": "stored_responses"})
            check.model({"model": operation.model, **named}, operation)
            body["generateContentRequest"] = _content(named, check)
        return check.model(body, operation), _content(body, check)

    def error(self, status: int, message: str) -> Json:
        name = _STATUSES.get(status, "INVALID_ARGUMENT")
        return {"error": {"code": status, "message": message, "status": name}}

    def usage(self, event: Row, so_far: Usage | None) -> Usage | None:
        row = event.get("usageMetadata")
        if not isinstance(row, dict):
            return so_far
        thoughts = number(row, "thoughtsTokenCount")
        return Usage(
            input=number(row, "promptTokenCount") + number(row, "toolUsePromptTokenCount"),
            output=number(row, "candidatesTokenCount") + thoughts,
            cached=number(row, "cachedContentTokenCount"),
            reasoning=thoughts,
        )


def _camel(row: Row) -> dict[str, Json]:
    """``row`` with its own keys in camelCase. Raises Denial where both spellings of one are there, or neither."""
    refuse_lookalikes(row, "an object")
    for key in row:
        if "_" in key and not _SPELT.fullmatch(key):
            raise Denial(403, f"{masking.first(key, 60)!r} is not a field that the gateway knows")
    return {_SNAKE.sub(lambda match: match[1].upper(), key): value for key, value in row.items()}


def _content(body: dict[str, Json], check: Check) -> dict[str, Json]:
    """``body`` with everything that is looked at in camelCase. Raises Denial."""
    body = dict(body)
    if "contents" in body:
        contents = body["contents"]
        rows = [contents] if isinstance(contents, dict) else rows_of(contents, "contents")
        body["contents"] = [_message(row, check) for row in rows]
    if body.get("systemInstruction") is not None:
        body["systemInstruction"] = _message(row_of(body["systemInstruction"], "systemInstruction"), check)
    if "tools" in body:
        body["tools"] = [_tool(tool, check) for tool in rows_of(body["tools"], "tools")]
    if body.get("generationConfig") is not None:
        body["generationConfig"] = _generation(body["generationConfig"], check)
    _calling(body, check)
    return body


def _generation(value: Json, check: Check) -> dict[str, Json]:
    config = _camel(row_of(value, "generationConfig"))
    check.inner(config, "generationConfig", _GENERATION)
    check.number(config, "maxOutputTokens", "output_tokens")
    check.number(config, "candidateCount", "choices")
    check.number(config, "logprobs", "logprobs", least=0)
    kinds = config.get("responseModalities")
    for kind in kinds if isinstance(kinds, list) else [] if kinds is None else [kinds]:
        if str(kind).upper() != "TEXT":
            grant = "image_generation" if str(kind).upper() == "IMAGE" else "audio"
            check.need(grant, f"responseModalities: {masking.first(str(kind), 40)}")
    if config.get("thinkingConfig") is not None:
        thinking = _camel(row_of(config["thinkingConfig"], "thinkingConfig"))
        check.inner(thinking, "thinkingConfig", _THINKING)
        # -1: as the model sees fit.
        check.number(thinking, "thinkingBudget", "thinking_tokens", least=-1)
        config["thinkingConfig"] = thinking
    return config


def _calling(body: dict[str, Json], check: Check) -> None:
    """Which tools may or must be called."""
    if body.get("toolConfig") is None:
        return
    config = _camel(row_of(body["toolConfig"], "toolConfig"))
    check.inner(config, "toolConfig", _TOOLS)
    if config.get("retrievalConfig") is not None:
        check.need("web_search", "retrievalConfig, a place to search around,")
    if config.get("functionCallingConfig") is not None:
        calling = _camel(row_of(config["functionCallingConfig"], "functionCallingConfig"))
        check.inner(calling, "functionCallingConfig", _CALLING)
        allowed = calling.get("allowedFunctionNames")
        for name in allowed if isinstance(allowed, list) else [] if allowed is None else [allowed]:
            check.forced(name, _declared(body), _TOOLS_BY_NAME)
        config["functionCallingConfig"] = calling
    body["toolConfig"] = config


def _declared(body: Row) -> frozenset[str]:
    """Names of the functions that run in the container."""
    functions = [
        each
        for tool in rows_of(body.get("tools"), "tools")
        for each in rows_of(tool.get("functionDeclarations"), "functionDeclarations")
    ]
    return frozenset(name for each in functions if isinstance(name := each.get("name"), str))


def _message(row: Row, check: Check) -> dict[str, Json]:
    message = _camel(row)
    parts = message.get("parts")
    if parts is not None:
        rows = [parts] if isinstance(parts, dict) else rows_of(parts, "parts")
        message["parts"] = [_part(part, check) for part in rows]
    return message


def _part(row: Row, check: Check) -> dict[str, Json]:
    part = _camel(row)
    for key in part.keys() - _CLIENT_PARTS:
        if key == "fileData":
            check.need(_file_grant(part[key]), "fileData, a file that is stored or fetched,")
        else:
            check.tool(key, _SERVER_PARTS, frozenset())
    if part.get("inlineData") is not None:
        part["inlineData"] = inline = _camel(row_of(part["inlineData"], "inlineData"))
        check.media(inline.get("mimeType", ""))
    response = part.get("functionResponse")
    if isinstance(response, dict) and "parts" in response:
        inner = rows_of(response["parts"], "parts of functionResponse")
        part["functionResponse"] = {**_camel(response), "parts": [_part(each, check) for each in inner]}
    return part


def _file_grant(value: Json) -> str:
    """Files of the provider's own store have its address."""
    address = _camel(row_of(value, "fileData")).get("fileUri")
    stored = isinstance(address, str) and address.startswith("https://generativelanguage.googleapis.com/")
    return "files" if stored else "urls"


def _tool(row: Row, check: Check) -> dict[str, Json]:
    tool = _camel(row)
    for key in tool:
        check.tool(key, _SERVER_TOOLS, frozenset({"functionDeclarations"}))
    return tool
