"""OpenAI's Responses API; Azure and OpenRouter speak it too."""

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
    kind_of,
    names,
    number,
    object_of,
    only,
    rows_of,
)
from agentv_sandbox.models_api.usage import Usage

API_VERSION = re.compile(r"[0-9A-Za-z-]{1,40}")
"""Of Azure."""
_FIELDS = names(
    "model input instructions tools tool_choice parallel_tool_calls reasoning store stream stream_options include "
    "prompt_cache_key prompt_cache_retention text temperature top_p top_logprobs max_output_tokens max_tool_calls "
    "metadata client_metadata user safety_identifier service_tier truncation context_management"
)
_GRANTED_FIELDS = {
    "previous_response_id": "stored_responses",
    "conversation": "stored_responses",
    "prompt": "stored_responses",
}
_SERVER_TOOLS = (
    ("web_search", "web_search"),
    ("file_search", "file_search"),
    ("code_interpreter", "code_execution"),
    ("shell", "code_execution"),
    ("mcp", "mcp"),
    ("computer", "computer_use"),
    ("image_generation", "image_generation"),
    ("tool_search", "tool_search"),
    ("item_reference", "stored_responses"),
)
_CLIENT_TOOLS = frozenset({"function", "custom", "namespace", "local_shell", "apply_patch"})
_CLIENT_ITEMS = names(
    "message function_call function_call_output custom_tool_call custom_tool_call_output reasoning "
    "local_shell_call local_shell_call_output shell_call shell_call_output apply_patch_call "
    "apply_patch_call_output additional_tools compaction compaction_summary compaction_trigger "
    "context_compaction"
)
_PARTS = names(
    "input_text output_text text summary_text reasoning_text refusal input_image input_file encrypted_content"
)
_PART = names(
    "type text annotations logprobs refusal image_url detail file_id file_data file_url filename encrypted_content "
    "input_audio cache_control"
)
_INCLUDES = frozenset({"reasoning.encrypted_content", "message.output_text.logprobs"})
_TIERS = frozenset({"auto", "default"})
SHORT_CACHES: frozenset[Json] = frozenset({"in_memory", "in-memory"})
"""Values of ``prompt_cache_retention`` under which nothing of a prompt is kept for longer."""
_USER = ("metadata", "client_metadata", "user", "safety_identifier", "prompt_cache_key")
_REASONING = names("effort summary generate_summary max_tokens exclude enabled context encrypted_content")
_TEXT = names("format verbosity")
_STREAM = names("include_usage include_obfuscation")
_CHOICE = names("type name namespace mode tools")
_CHOICES: frozenset[Json] = frozenset({"auto", "none", "required"})
_EDIT = names("type compact_threshold")
_COMPACTION = frozenset({"compaction"})


class Responses(Dialect):
    name: ClassVar = "OpenAI's Responses API"
    key: ClassVar = "responses"
    maker: ClassVar = "OpenAI"

    def operation(self, path: str, query: Mapping[str, str]) -> Operation | None:
        if path != "/responses":
            return None
        only(query, {"api-version": API_VERSION})
        version = f"?api-version={query['api-version']}" if query else ""
        return Operation(name="generate", path=f"{path}{version}")

    def check(self, body: dict[str, Json], operation: Operation, check: Check) -> tuple[str, dict[str, Json]]:
        check.fields(body, _FIELDS | {"background"}, _GRANTED_FIELDS)
        if body.get("background"):
            raise Denial(403, "answers in the background are not allowed, and nothing permits them")
        check.choice(body, "service_tier", _TIERS, "priority")
        if body.get("store") is None and _may_keep(check):
            body = {**body, "store": False}
        check.choice(body, "store", frozenset({False}), "stored_responses")
        check.choice(body, "prompt_cache_retention", SHORT_CACHES, "stored_responses")
        check.names_of_user(body, _USER)
        _options(body, check)
        include = body.get("include")
        for name in include if isinstance(include, list) else []:
            if name not in _INCLUDES:
                _tool_of_include(name, check)
        if not isinstance(body.get("input"), str):
            for item in rows_of(body.get("input"), "input"):
                _item(item, check)
        _tools(body.get("tools"), check)
        _choice(body, check)
        return check.model(body, operation), body

    def error(self, status: int, message: str) -> Json:
        return openai_error(status, message)

    def usage(self, event: Row, so_far: Usage | None) -> Usage | None:
        row = event.get("usage", object_of(event.get("response")).get("usage"))
        if not isinstance(row, dict):
            return so_far
        details = object_of(row.get("input_tokens_details"))
        return Usage(
            input=number(row, "input_tokens"),
            output=number(row, "output_tokens"),
            cached=number(details, "cached_tokens"),
            cache_write=number(details, "cache_write_tokens"),
            reasoning=number(object_of(row.get("output_tokens_details")), "reasoning_tokens"),
        )


def openai_error(status: int, message: str) -> Json:
    """The form that all of OpenAI's APIs share."""
    kind = "permission_error" if status == 403 else "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": "gateway_refused"}}


def _may_keep(check: Check) -> bool:
    """Whether an answer is kept of which nothing says that it should not be."""
    return "stored_responses" not in check.policy.allow and not check.server.openrouter


def _options(body: Row, check: Check) -> None:
    check.number(body, "max_output_tokens", "output_tokens")
    check.number(body, "max_tool_calls", "hosted_calls")
    check.number(body, "top_logprobs", "logprobs", least=0)
    reasoning = check.inner(body.get("reasoning"), "reasoning", _REASONING)
    check.number(reasoning, "max_tokens", "thinking_tokens")
    check.inner(body.get("text"), "text", _TEXT)
    check.inner(body.get("stream_options"), "stream_options", _STREAM)
    for edit in rows_of(body.get("context_management"), "context_management"):
        check.tool(
            kind_of(check.inner(edit, "context_management", _EDIT), "an edit"), _SERVER_TOOLS, _COMPACTION
        )


def _choice(body: Row, check: Check) -> None:
    if not isinstance(body.get("tool_choice"), dict):
        check.choice(body, "tool_choice", _CHOICES, "")
        return
    choice = check.inner(body["tool_choice"], "tool_choice", _CHOICE)
    several = kind_of(choice, "tool_choice") == "allowed_tools"
    here = {
        kind for tool in rows_of(body.get("tools"), "tools") if _runs_here(kind := kind_of(tool, ""), tool)
    }
    for tool in rows_of(choice.get("tools") if several else [body["tool_choice"]], "tool_choice"):
        check.tool(kind_of(tool, "a chosen tool"), _SERVER_TOOLS, _CLIENT_TOOLS | here)


def _tool_of_include(name: Json, check: Check) -> None:
    check.tool(masking.first(str(name), 80), _SERVER_TOOLS, frozenset())


def _item(item: Row, check: Check) -> None:
    kind = kind_of(item, "an item of input", "message" if "role" in item else None)
    if not _runs_here(kind.removesuffix("_call").removesuffix("_output"), item):
        check.tool(kind, _SERVER_TOOLS, _CLIENT_ITEMS)
    for key in ("content", "output", "summary"):
        value = item.get(key)
        if not isinstance(value, str):
            for part in rows_of([value] if isinstance(value, dict) else value, f"{key} of {kind}"):
                _part(part, kind, check)
    if isinstance(item.get("tools"), list) and kind in ("additional_tools", "tool_search_output"):
        _tools(item.get("tools"), check)


def _part(part: Row, where: str, check: Check) -> None:
    if where.startswith("shell_call"):
        return  # rows of stdout, stderr and how it ended
    kind = kind_of(check.inner(part, where, _PART), f"a part of {where}")
    if kind == "input_audio" or part.get("input_audio") is not None:
        check.need("audio", "sound in a message")
        return
    if kind == "computer_screenshot":
        check.need("computer_use", kind)
    else:
        check.tool(kind, (), _PARTS)
    if part.get("file_id") is not None:
        check.need("files", f"{kind} by the id of a stored file")
    if part.get("file_url") is not None:
        check.need("urls", f"{kind} from an address")
    if part.get("file_data") is not None:
        check.data(part["file_data"], kind)
    if part.get("image_url") is not None:
        check.stays_inline(part["image_url"], kind)


def _tools(value: Json, check: Check) -> None:
    for tool in rows_of(value, "tools"):
        kind = kind_of(tool, "a tool")
        if kind == "namespace":
            _tools(tool.get("tools"), check)
        elif not _runs_here(kind, tool):
            check.tool(kind, _SERVER_TOOLS, _CLIENT_TOOLS)


def _runs_here(kind: str, tool: Row) -> bool:
    """Whether a tool that exists on both sides is the container's own."""
    if kind == "shell":
        return object_of(tool.get("environment")).get("type") == "local"
    return kind == "tool_search" and tool.get("execution") == "client"
