"""Anthropic's Messages API."""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from typing import ClassVar

from agentv_sandbox import masking
from agentv_sandbox.models.foreign_json import count
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
    row_of,
    rows_of,
)
from agentv_sandbox.models_api.policy import GatewayPolicy
from agentv_sandbox.models_api.usage import Usage

_FIELDS = names(
    "model messages system max_tokens metadata stop_sequences stream temperature top_k top_p tools tool_choice "
    "thinking context_management output_config output_format service_tier cache_control speed"
)
_GRANTED_FIELDS = {"container": "code_execution", "mcp_servers": "mcp"}
_TOOL = names(
    "type name description input_schema cache_control defer_loading allowed_callers eager_input_streaming strict "
    "input_examples max_characters"
)
_CHOICE = names("type name disable_parallel_tool_use")
_CHOICES: frozenset[Json] = frozenset({"auto", "any", "none", "tool"})
_THINKING = names("type budget_tokens display")
_OUTPUT = names("effort format")
_SOURCE = names("type media_type data url file_id content")
_EDITS = re.compile(r"(clear_tool_uses|clear_thinking|compact)_[0-9]{8}")
_EDIT = names(
    "type trigger keep clear_at_least exclude_tools clear_tool_inputs instructions pause_after_compaction"
)
_SERVER_TOOLS = (
    ("web_search", "web_search"),
    ("web_fetch", "web_fetch"),
    ("code_execution", "code_execution"),
    ("bash_code_execution", "code_execution"),
    ("text_editor_code_execution", "code_execution"),
    ("mcp_", "mcp"),
    ("computer", "computer_use"),
    ("tool_search", "tool_search"),
    ("container_upload", "files"),
)
_CLIENT_TOOLS = re.compile(r"(bash|text_editor|memory)_[0-9]{8}")
_CLIENT_BLOCKS = names(
    "text image document tool_use tool_result tool_reference thinking redacted_thinking search_result "
    "compaction"
)
_ERRORS = {
    400: "invalid_request_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}


_BETA = re.compile(r"[A-Za-z0-9._-]{1,80}")
_BETAS = names(
    "claude-code-20250219 interleaved-thinking-2025-05-14 context-management-2025-06-27 "
    "thinking-token-count-2026-05-13 thinking-display-updates-2026-08-18 advanced-tool-use-2025-11-20 "
    "structured-outputs-2025-11-13 structured-outputs-2025-12-15 fine-grained-tool-streaming-2025-05-14 "
    "oauth-2025-04-20 prompt-caching-2024-07-31 prompt-caching-scope-2026-01-05 extended-cache-ttl-2025-04-11 "
    "effort-2025-11-24 token-efficient-tools-2025-02-19 token-counting-2024-11-01 output-128k-2025-02-19 "
    "tool-examples-2025-10-29 redact-thinking-2026-02-12 pdfs-2024-09-25 compact-2026-01-12"
)
"""Those that change how an ordinary call is written or answered."""
_GRANTED_BETAS = (
    ("web-search-", "web_search"),
    ("web-fetch-", "web_fetch"),
    ("code-execution-", "code_execution"),
    ("mcp-client-", "mcp"),
    ("mcp-servers-", "mcp"),
    ("computer-use-", "computer_use"),
    ("tool-search-tool-", "tool_search"),
    ("files-api-", "files"),
    ("fast-mode-", "priority"),
)


def betas_of(header: str, policy: GatewayPolicy) -> tuple[str, tuple[str, ...]]:
    """(what of an ``anthropic-beta`` header is sent, what is taken out of it): several lines of it are joined by
    commas. A header that loses nothing stays as it is."""
    values = [value for each in header.split(",") if (value := each.strip())]
    lost = tuple(dict.fromkeys(value for value in values if not _may_ask(value, policy)))
    return (",".join(value for value in values if value not in lost) if lost else header), lost


def _may_ask(beta: str, policy: GatewayPolicy) -> bool:
    if beta in _BETAS or beta in policy.betas:
        return True
    granted = any(beta.startswith(start) and grant in policy.allow for start, grant in _GRANTED_BETAS)
    return granted and _BETA.fullmatch(beta) is not None


class Anthropic(Dialect):
    name: ClassVar = "Anthropic's Messages API"
    key: ClassVar = "anthropic"
    maker: ClassVar = "Anthropic"

    def operation(self, path: str, query: Mapping[str, str]) -> Operation | None:
        if path not in ("/messages", "/messages/count_tokens"):
            return None
        only(query, {"beta": re.compile("true")})
        beta = "?beta=true" if query else ""
        return Operation(name="count" if path.endswith("count_tokens") else "generate", path=f"{path}{beta}")

    def check(self, body: dict[str, Json], operation: Operation, check: Check) -> tuple[str, dict[str, Json]]:
        check.fields(body, _FIELDS, _GRANTED_FIELDS)
        check.choice(body, "service_tier", frozenset({"auto", "standard_only"}), "priority")
        check.choice(body, "speed", frozenset({"standard"}), "priority")
        check.number(body, "max_tokens", "output_tokens")
        thinking = check.inner(body.get("thinking"), "thinking", _THINKING)
        check.number(thinking, "budget_tokens", "thinking_tokens")
        check.inner(body.get("output_config"), "output_config", _OUTPUT)
        check.names_of_user(body, ("metadata",))
        if not isinstance(body.get("system"), str):
            _blocks(body.get("system"), "system", check)
        for message in rows_of(body.get("messages"), "messages"):
            if not isinstance(message.get("content"), str):
                _blocks(message.get("content"), "a message's content", check)
        declared = frozenset(_tool(tool, check) for tool in rows_of(body.get("tools"), "tools"))
        _choice(body.get("tool_choice"), declared, check)
        _context(body.get("context_management"), declared, check)
        return check.model(body, operation), body

    def error(self, status: int, message: str) -> Json:
        kind = _ERRORS.get(status, "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": message}}

    def usage(self, event: Row, so_far: Usage | None) -> Usage | None:
        row = event.get("usage")
        if event.get("type") == "message_start":
            row = object_of(event.get("message")).get("usage")
        if not isinstance(row, dict):
            return so_far
        # Each report is of the whole call; later ones may leave out what has not changed.
        before = so_far or Usage()
        fresh = before.input - before.cached - before.cache_write
        cached = _reported(row, "cache_read_input_tokens", before.cached)
        written = _reported(row, "cache_creation_input_tokens", before.cache_write)
        hour = object_of(row.get("cache_creation"))
        return Usage(
            input=_reported(row, "input_tokens", fresh) + cached + written,
            output=_reported(row, "output_tokens", before.output),
            cached=cached,
            cache_write=written,
            cache_write_1h=min(_reported(hour, "ephemeral_1h_input_tokens", before.cache_write_1h), written),
            reasoning=number(object_of(row.get("output_tokens_details")), "thinking_tokens"),
        )


def _reported(row: Row, name: str, before: int) -> int:
    value = count(row.get(name))
    return before if value is None else value


def _tool(tool: Row, check: Check) -> str:
    """The name of a tool, where it is the container's own."""
    kind, name = kind_of(tool, "a tool", "custom"), tool.get("name")
    if kind != "custom" and not _CLIENT_TOOLS.fullmatch(kind):
        check.tool(kind, _SERVER_TOOLS, frozenset())
        check.number(tool, "max_uses", "hosted_calls")
        return ""
    check.inner(tool, "tools", _TOOL)
    for caller in tool.get("allowed_callers") or ():
        _caller(caller, check)
    return name if isinstance(name, str) else ""


def _caller(caller: Json, check: Check) -> None:
    """Who may call a tool, or did: the model, or a program that runs at the provider."""
    check.forced(caller, frozenset({"direct"}), _SERVER_TOOLS)


def _choice(value: Json, declared: Set[str], check: Check) -> None:
    choice = check.inner(value, "tool_choice", _CHOICE)
    if choice:
        check.choice(choice, "type", _CHOICES, "")
    if choice.get("name") is not None:
        check.forced(choice["name"], declared, _SERVER_TOOLS)


def _context(value: Json, declared: Set[str], check: Check) -> None:
    """What the provider takes out of a conversation before its model reads it."""
    for edit in rows_of(check.inner(value, "context_management", names("edits")).get("edits"), "edits"):
        kind = kind_of(edit, "an edit")
        if not _EDITS.fullmatch(kind):
            check.tool(kind, _SERVER_TOOLS, frozenset())
        check.inner(edit, "edits", _EDIT)
        spared = edit.get("exclude_tools")
        for name in spared if isinstance(spared, list) else ():
            if isinstance(name, str) and name not in declared:
                check.server_side(name, _SERVER_TOOLS)


def _blocks(value: Json, where: str, check: Check) -> None:
    for block in rows_of(value, where):
        kind = kind_of(block, f"a block of {where}")
        if block.get("caller") is not None:
            _caller(kind_of(row_of(block["caller"], "a caller"), "a caller"), check)
        if kind == "server_tool_use":
            _server_call(block, check)
        elif kind not in _CLIENT_BLOCKS:
            check.tool(kind, _SERVER_TOOLS, _CLIENT_BLOCKS)
        elif kind in ("image", "document"):
            _source(block, kind, check)
        elif kind in ("tool_result", "search_result") and not isinstance(block.get("content"), str):
            _blocks(block.get("content"), f"a {kind}", check)


def _server_call(block: Row, check: Check) -> None:
    name = block.get("name")
    if not isinstance(name, str):
        raise Denial(400, "a server_tool_use has no name")
    check.tool(name, _SERVER_TOOLS, frozenset())


def _source(block: Row, kind: str, check: Check) -> None:
    source = check.inner(row_of(block.get("source"), f"the source of {kind}"), f"{kind}.source", _SOURCE)
    if source.get("media_type") is not None:
        check.media(source["media_type"])
    match kind_of(source, f"the source of {kind}"):
        case "base64" | "text":
            pass
        case "content":
            if not isinstance(source.get("content"), str):
                _blocks(source.get("content"), f"the source of {kind}", check)
        case "url":
            check.need("urls", f"{kind} from an address")
        case "file":
            check.need("files", f"{kind} by the id of a stored file")
        case other:
            raise Denial(403, f"a {kind} from {masking.first(other, 40)!r} is not one that the gateway knows")
