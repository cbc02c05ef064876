"""Gemini's generateContent. Its server takes both spellings of every key; one, camelCase, is looked at."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import ClassVar

from agentv_sandbox import masking
from agentv_sandbox.models.case import AnswerImage
from agentv_sandbox.models.json.records import JsonRecord, under_key
from agentv_sandbox.models.json.value import Json, defined
from agentv_sandbox.models.messages import trim
from agentv_sandbox.models.suite import Target
from agentv_sandbox.models_api.denial import Denial
from agentv_sandbox.models_api.dialects.base import (
    Dialect,
    Operation,
    RequestCheck,
    grants,
    names,
    only,
    row_of,
    rows_of,
)
from agentv_sandbox.models_api.dialects.strict import refuse_lookalikes
from agentv_sandbox.models_api.policy import ModelRequest
from agentv_sandbox.models_api.reading import AnswerReading, Row, ToolResult, objects_in, result_of
from agentv_sandbox.models_api.records import (
    Attachment,
    ChatRequest,
    LlmRequest,
    WireCall,
    max_tokens_of,
    number_setting,
    plain_number,
    split_data_uri,
    temperature_of,
    text_setting,
)
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
_SERVER_TOOLS = grants(
    "googleSearch>web_search enterpriseWebSearch>web_search googleMaps>web_search urlContext>web_fetch "
    "codeExecution>code_execution fileSearch>file_search retrieval>file_search computerUse>computer_use "
    "mcpServers>mcp"
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

_MOST_DETAILS = 50
GEMINI_URL = "https://generativelanguage.googleapis.com/v1beta"
DEFAULT_MODEL = "gemini-2.5-flash"


class Gemini(Dialect):
    name: ClassVar = "Gemini's generateContent"
    key: ClassVar = "gemini"
    maker: ClassVar = "Google"
    traced_as: ClassVar = "gcp.gemini"
    asked_at: ClassVar = (":generateContent", ":streamGenerateContent")
    talk: ClassVar = "contents"
    holds: ClassVar = "candidates[]"
    places: ClassVar = ("", "/v1beta", "/v1")
    key_headers: ClassVar = frozenset({"x-goog-api-key"})
    cut: ClassVar = frozenset({"max_tokens"})
    withheld: ClassVar = names(
        "safety recitation language other blocklist prohibited_content spii malformed_function_call "
        "unexpected_tool_call finish_reason_unspecified no_image image_safety image_prohibited_content "
        "image_recitation image_other"
    )

    def is_spoken(self, request: ModelRequest) -> bool:
        return "x-goog-api-key" in request.headers or ":" in request.path

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

    def check(
        self, body: dict[str, Json], operation: Operation, check: RequestCheck
    ) -> tuple[str, dict[str, Json]]:
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
        row = _Event.of(event).usage_metadata if "usageMetadata" in event else None
        if row is None:
            return so_far
        thoughts = row.thoughts_token_count or 0
        return Usage(
            input=(row.prompt_token_count or 0) + (row.tool_use_prompt_token_count or 0),
            output=(row.candidates_token_count or 0) + thoughts,
            cached=row.cached_content_token_count or 0,
            reasoning=thoughts,
        )

    def read(self, row: Row, answer: AnswerReading) -> None:
        event = _Event.of(row)
        if event.error:
            answer.fail(event.error)
        if not event.candidates and (reason := event.block_reason):
            answer.blocked = f"the question was blocked: {masking.first(str(reason), 200)}"
        for candidate in event.candidates[:1]:
            answer.found = True
            for part in candidate.parts:
                if not part.thought:
                    answer.say(part.text)
                if (call := part.function_call) is not None:
                    answer.call(call.name, call.args, call.id)
            answer.whole = answer.whole or candidate.finish_reason is not None
            answer.stop(candidate.finish_reason)

    def is_for_good(self, error: Row) -> bool:
        """A quota of a day is used up."""
        violations = [
            each for row in _details(error) for each in objects_in(row.get("violations"))[:_MOST_DETAILS]
        ]
        return any("PerDay" in str(each.get("quotaId")) for each in violations)

    def delay_in(self, error: Row) -> Iterator[Json]:
        return (row.get("retryDelay") for row in _details(error))

    def is_result(self, row: Row) -> bool:
        return "functionResponse" in row

    def results(self, request: Row) -> Iterator[ToolResult]:
        for content in objects_in(request.get("contents")):
            for part in objects_in(content.get("parts")):
                if isinstance(response := part.get("functionResponse"), dict):
                    given = response.get("response")
                    output = given.get("output", given) if isinstance(given, dict) else given
                    yield result_of(response.get("id"), output, tool=str(response.get("name")))

    def call(
        self, target: Target, request: LlmRequest, *, key: str | None, structured: bool, stream: bool
    ) -> WireCall:
        parts: list[Json] = [{"text": request.user}, *map(_image_part, request.images)]
        schema = dict(request.schema) if structured and request.schema is not None else None
        config = defined(
            temperature=temperature_of(target, request),
            maxOutputTokens=max_tokens_of(target, request),
            responseMimeType=None if schema is None else "application/json",
            responseJsonSchema=schema,
        )
        body = defined(
            contents=[{"role": "user", "parts": parts}],
            systemInstruction={"parts": [{"text": request.system}]} if request.system else None,
            generationConfig=config or None,
        )
        return _wire_call(target, body, key, stream=stream)

    def chat(self, target: Target, request: ChatRequest, *, key: str | None, stream: bool) -> WireCall:
        names = {"user": "user", "assistant": "model"}
        most, temperature = number_setting(target, "max_output_tokens"), number_setting(target, "temperature")
        wanted = defined(temperature=temperature, maxOutputTokens=most)
        body: dict[str, Json] = {
            "contents": [
                {"parts": [{"text": m.text}, *map(_attached_part, m.attachments)], "role": names[m.role]}
                for m in request.messages
                if m.role == "user" or trim(m.text)
            ],
            "systemInstruction": {"parts": [{"text": request.system}], "role": "user"},
            "generationConfig": {name: plain_number(value) for name, value in wanted.items()},
        }
        return _wire_call(target, body, key, stream=stream)


class _Usage(JsonRecord, camel=True):
    prompt_token_count: int | None
    tool_use_prompt_token_count: int | None
    candidates_token_count: int | None
    thoughts_token_count: int | None
    cached_content_token_count: int | None


class _FunctionCall(JsonRecord):
    name: str | None
    args: Json
    id: str | None


class _Part(JsonRecord, camel=True):
    text: str | None
    thought: Json
    function_call: _FunctionCall | None


class _Candidate(JsonRecord, camel=True):
    parts: tuple[_Part, ...] = under_key("content/parts")
    finish_reason: Json


class _Event(JsonRecord, camel=True):
    """One of a stream, or a whole answer."""

    error: Json
    candidates: tuple[_Candidate, ...]
    block_reason: Json = under_key("promptFeedback/blockReason")
    usage_metadata: _Usage | None


def _details(error: Row) -> list[dict[str, Json]]:
    return objects_in(error.get("details"))[:_MOST_DETAILS]


def _camel(row: Row) -> dict[str, Json]:
    """``row`` with its own keys in camelCase. Raises Denial where both spellings of one are there, or neither."""
    refuse_lookalikes(row, "an object")
    for key in row:
        if "_" in key and not _SPELT.fullmatch(key):
            raise Denial(403, f"{masking.first(key, 60)!r} is not a field that the gateway knows")
    return {_SNAKE.sub(lambda match: match[1].upper(), key): value for key, value in row.items()}


def _content(body: dict[str, Json], check: RequestCheck) -> dict[str, Json]:
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


def _generation(value: Json, check: RequestCheck) -> dict[str, Json]:
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


def _calling(body: dict[str, Json], check: RequestCheck) -> None:
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


def _message(row: Row, check: RequestCheck) -> dict[str, Json]:
    message = _camel(row)
    parts = message.get("parts")
    if parts is not None:
        rows = [parts] if isinstance(parts, dict) else rows_of(parts, "parts")
        message["parts"] = [_part(part, check) for part in rows]
    return message


def _part(row: Row, check: RequestCheck) -> dict[str, Json]:
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


def _tool(row: Row, check: RequestCheck) -> dict[str, Json]:
    tool = _camel(row)
    for key in tool:
        check.tool(key, _SERVER_TOOLS, frozenset({"functionDeclarations"}))
    return tool


def _wire_call(target: Target, body: dict[str, Json], key: str | None, *, stream: bool) -> WireCall:
    base = text_setting(target, "base_url", GEMINI_URL).rstrip("/")
    verb = "streamGenerateContent?alt=sse" if stream else "generateContent"
    model = text_setting(target, "model", DEFAULT_MODEL)
    headers = {} if key is None else {"x-goog-api-key": key}
    return WireCall(url=f"{base}/models/{model}:{verb}", model=model, body=body, headers=headers)


def _attached_part(attachment: Attachment) -> Json:
    return {"inlineData": {"mimeType": attachment.media_type, "data": attachment.data}}


def _image_part(image: AnswerImage) -> Json:
    data = split_data_uri(image.source)
    if data is None:
        return {"fileData": {"mimeType": image.media_type, "fileUri": image.source}}
    return {"inlineData": {"mimeType": data[0], "data": data[1]}}


API = Gemini()
