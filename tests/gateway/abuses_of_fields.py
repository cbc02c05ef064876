"""Abuses of a request's fields: numbers that cost, tools of the provider, names as channels."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from .asked import Asked, asked_with, says, sets, snake, snake_body, tool
from .probes import BODIES, WEB

# -- numbers that cost ----------------------------------------------------------------------------------------
_NUMBERS = {
    "anthropic": ("max_tokens", "thinking.budget_tokens"),
    "responses": ("max_output_tokens", "max_tool_calls", "top_logprobs", "reasoning.max_tokens"),
    "chat": (
        "max_tokens",
        "max_completion_tokens",
        "n",
        "top_logprobs",
        "thinking.budget_tokens",
        "reasoning.max_tokens",
    ),
    "gemini": (
        "generationConfig.maxOutputTokens",
        "generationConfig.candidateCount",
        "generationConfig.logprobs",
        "generationConfig.thinkingConfig.thinkingBudget",
    ),
}
_TOO_MUCH: tuple[Any, ...] = (
    10**9,
    1e9,
    "1e9",
    "1000000000",
    2**63,
    10**200,
    1.5,
    True,
    [5],
    {"value": 5},
    -2,
)


def numbers() -> Iterator[Asked]:
    for dialect, paths in _NUMBERS.items():
        for path in paths:
            for value in _TOO_MUCH:
                yield asked_with(f"{path}: {str(value)[:12]!r}", dialect, sets(path, value))
    for path in _NUMBERS["gemini"]:
        for value in (10**9, 1e9, "1e9"):
            yield asked_with(f"{path}, snake: {value!r}", "gemini", sets(path, value), snake_body)
    yield asked_with("two answers", "chat", sets("n", 2))
    yield asked_with("two candidates", "gemini", sets("generationConfig.candidateCount", 2))
    for path in _NUMBERS["gemini"]:
        inner = copy.deepcopy(BODIES["gemini"]) | {"model": "models/gemini-2.5-pro"}
        sets(path, 10**9)(inner)
        yield Asked(
            name=f"{path} inside of a count",
            dialect="gemini",
            path="/v1beta/models/gemini-2.5-pro:countTokens",
            body=json.dumps({"generateContentRequest": inner}).encode(),
        )


# -- tools of the provider ------------------------------------------------------------------------------------
_HOSTED = {
    "anthropic": [
        "web_search_20250305",
        "web_search_20260209",
        "web_fetch_20250910",
        "code_execution_20250522",
        "code_execution_20250825",
        "code_execution_20260120",
        "computer_20251124",
        "mcp_toolset",
        "tool_search_tool_bm25_20251119",
        "advisor_20260301",
        "teleport_20270101",
    ],
    "responses": [
        "web_search",
        "web_search_2025_08_26",
        "web_search_preview",
        "file_search",
        "code_interpreter",
        "image_generation",
        "mcp",
        "computer_use_preview",
        "computer",
        "shell",
        "tool_search",
        "teleport",
    ],
    "chat": [
        "web_search",
        "openrouter:web_search",
        "mcp",
        "code_interpreter",
        "file_search",
        "builtin_function",
    ],
    "gemini": [
        "googleSearch",
        "googleSearchRetrieval",
        "googleMaps",
        "urlContext",
        "codeExecution",
        "fileSearch",
        "computerUse",
        "enterpriseWebSearch",
        "retrieval",
        "mcpServers",
        "teleport",
    ],
}


def hosted() -> Iterator[Asked]:
    for kind in _HOSTED["anthropic"]:
        plain = kind.rstrip("0123456789").rstrip("_")
        yield asked_with(f"{kind} declared", "anthropic", tool(type=kind, name=plain))
        yield asked_with(f"{kind} chosen", "anthropic", sets("tool_choice", {"type": "tool", "name": plain}))
        yield asked_with(f"{kind} as a choice", "anthropic", sets("tool_choice", {"type": kind}))
        yield asked_with(
            f"{kind} as an edit", "anthropic", sets("context_management", {"edits": [{"type": kind}]})
        )
        yield asked_with(
            f"{kind} calls a tool",
            "anthropic",
            tool(name="own", input_schema={"type": "object"}, allowed_callers=["direct", kind]),
        )
    for kind in ("code_execution", "web_search", "web_fetch", "tool_search_tool_bm25"):
        edit = {"type": "clear_tool_uses_20250919", "exclude_tools": [kind]}
        yield asked_with(
            f"{kind} spared by an edit", "anthropic", sets("context_management", {"edits": [edit]})
        )
        call = {"type": "server_tool_use", "id": "s", "name": kind, "input": {}}
        yield asked_with(f"{kind} called before", "anthropic", says(call))
        used = {"type": "tool_use", "id": "t", "name": "Bash", "input": {}, "caller": {"type": kind}}
        yield asked_with(f"{kind} as a caller", "anthropic", says(used))
    for dialect in ("responses", "chat"):
        for kind in _HOSTED[dialect]:
            allowed = {"mode": "required", "tools": [{"type": kind}]}
            choice = (
                {"type": "allowed_tools", **allowed}
                if dialect == "responses"
                else {"type": "allowed_tools", "allowed_tools": allowed}
            )
            yield asked_with(f"{kind} declared", dialect, tool(type=kind))
            yield asked_with(f"{kind} chosen", dialect, sets("tool_choice", {"type": kind}))
            yield asked_with(f"{kind} chosen by a word", dialect, sets("tool_choice", kind))
            yield asked_with(f"{kind} among the allowed", dialect, sets("tool_choice", choice))
            if dialect == "responses":
                group = {"type": "namespace", "name": "n", "tools": [{"type": kind}]}
                yield asked_with(f"{kind} in a namespace", dialect, tool(**group))
                more = {"type": "additional_tools", "tools": [{"type": kind}]}
                yield asked_with(
                    f"{kind} in the input", dialect, lambda body, more=more: body["input"].append(more)
                )
                yield asked_with(f"{kind} as an edit", dialect, sets("context_management", [{"type": kind}]))
    for kind in _HOSTED["gemini"]:
        for spelling in dict.fromkeys((kind, snake(kind))):
            yield asked_with(f"{spelling} declared", "gemini", tool(**{spelling: {}}))
            yield asked_with(
                f"{spelling} among the allowed",
                "gemini",
                sets(
                    "toolConfig.functionCallingConfig",
                    {"mode": "ANY", "allowedFunctionNames": [snake(kind)]},
                ),
            )
    place = {"latLng": {"latitude": 1, "longitude": 2}}
    yield asked_with("a place", "gemini", sets("toolConfig.retrievalConfig", place))
    yield asked_with("a place, snake", "gemini", sets("tool_config.retrieval_config", place))
    yield asked_with(
        "a tool of both sides", "gemini", sets("toolConfig.includeServerSideToolInvocations", True)
    )


# -- other fields ---------------------------------------------------------------------------------------------
_NESTED = {
    "anthropic": ("thinking", "output_config", "context_management", "tool_choice"),
    "responses": ("reasoning", "text", "stream_options"),
    "chat": ("reasoning", "thinking", "stream_options", "prediction"),
    "gemini": (
        "generationConfig",
        "generationConfig.thinkingConfig",
        "toolConfig",
        "toolConfig.functionCallingConfig",
    ),
}
_TOP = [
    "webhook",
    "callback_url",
    "container_id",
    "vector_store_ids",
    "provider",
    "route",
    "models",
    "plugins",
    "transforms",
    "background",
]
_OTHER_FIELDS = {
    "anthropic": (
        ("service_tier", "priority"),
        ("service_tier", "flex"),
        ("speed", "fast"),
        ("inference_geo", "eu"),
        ("output_config", {"task_budget": {"type": "tokens", "total": 10**9}}),
        ("anthropic_beta", ["files-api-2025-04-14"]),
        ("betas", ["files-api-2025-04-14"]),
    ),
    "responses": (
        ("service_tier", "flex"),
        ("service_tier", "priority"),
        ("service_tier", "scale"),
        ("prompt_cache_retention", "24h"),
        ("prompt_cache_retention", "extended"),
        ("store", True),
        ("store", "true"),
        ("store", 1),
        ("background", "yes"),
        ("include", ["web_search_call.action.sources"]),
        ("include", ["code_interpreter_call.outputs"]),
    ),
    "chat": (
        ("service_tier", "flex"),
        ("service_tier", "priority"),
        ("prompt_cache_retention", "24h"),
        ("store", True),
        ("store", "true"),
        ("best_of", 5),
        ("web_search_options", {}),
    ),
    "gemini": (
        ("serviceTier", "flex"),
        ("service_tier", "priority"),
        ("store", True),
        ("labels", {"a": "b"}),
        ("cachedContent", "cachedContents/1"),
    ),
}
_NAMING = {
    "anthropic": ("metadata.user_id",),
    "responses": ("metadata.a", "client_metadata.a", "user", "safety_identifier", "prompt_cache_key"),
    "chat": ("metadata.a", "user", "safety_identifier", "prompt_cache_key"),
}


def _naming() -> Iterator[Asked]:
    for dialect, keys in _NAMING.items():
        for key in keys:
            for text in ("x" * 65536, "\u00e9" * 4000, "x " * 4200):
                yield asked_with(f"{len(text)} characters in {key}", dialect, sets(key, text))
    for dialect, keys in _NAMING.items():
        halves = [sets(key, "x" * 2500) for key in keys]
        if len(halves) > 3:
            yield asked_with("several names of a user", dialect, *halves)


def fields() -> Iterator[Asked]:
    yield from _naming()
    for dialect, settings in _OTHER_FIELDS.items():
        for key, value in settings:
            yield asked_with(f"{key}: {value}", dialect, sets(key, value))
    for dialect in BODIES:
        for key in _TOP:
            yield asked_with(f"the field {key}", dialect, sets(key, "x"))
        for key in _NESTED[dialect]:
            yield asked_with(f"a field in {key}", dialect, sets(f"{key}.webhook", WEB))
    body = json.dumps(BODIES["gemini"]).encode()
    for old, new in (
        (b"systemInstruction", b"system_Instruction"),
        (b"generationConfig", b"generation_Config"),
    ):
        yield asked_with(f"{new.decode()}, in neither spelling", "gemini", body=body.replace(old, new))
