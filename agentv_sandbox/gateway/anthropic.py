"""Anthropic's Messages API."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from agentv_sandbox import masking
from agentv_sandbox.gateway.denial import Denial
from agentv_sandbox.gateway.dialect import (
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
from agentv_sandbox.gateway.usage import Usage
from agentv_sandbox.models.foreign_json import count
from agentv_sandbox.models.suite import Json

_FIELDS = names(
    "model messages system max_tokens metadata stop_sequences stream temperature top_k top_p tools tool_choice "
    "thinking context_management output_config output_format service_tier cache_control speed"
)
_GRANTED_FIELDS = {"container": "code_execution", "mcp_servers": "mcp"}
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


class Anthropic(Dialect):
    name: ClassVar = "Anthropic's Messages API"

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
        if not isinstance(body.get("system"), str):
            _blocks(body.get("system"), "system", check)
        for message in rows_of(body.get("messages"), "messages"):
            if not isinstance(message.get("content"), str):
                _blocks(message.get("content"), "a message's content", check)
        for tool in rows_of(body.get("tools"), "tools"):
            kind = kind_of(tool, "a tool", "custom")
            if kind != "custom" and not _CLIENT_TOOLS.fullmatch(kind):
                check.tool(kind, _SERVER_TOOLS, frozenset())
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


def _blocks(value: Json, where: str, check: Check) -> None:
    for block in rows_of(value, where):
        kind = kind_of(block, f"a block of {where}")
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
    source = row_of(block.get("source"), f"the source of {kind}")
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
