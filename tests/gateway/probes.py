"""Abuses of a key: requests that a plain reverse proxy passes on and the gateway does not."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Body = dict[str, Any]
Change = Callable[[Body], object]

CLAUDE: Body = {
    "model": "claude-sonnet-4-5",
    "messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}],
    "system": [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}],
    "tools": [
        {"name": "Bash", "description": "Runs", "input_schema": {"type": "object", "properties": {}}},
        {"name": "Later", "description": "d", "input_schema": {"type": "object"}, "defer_loading": True},
    ],
    "metadata": {"user_id": "{}"},
    "max_tokens": 32000,
    "thinking": {"budget_tokens": 31999, "type": "enabled", "display": "updates"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "stream": True,
}
"""The fields that Claude Code 2.1.330 sends."""
CODEX: Body = {
    "model": "gpt-5",
    "stream": True,
    "input": [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hello"}]},
        {"type": "function_call", "id": "f", "name": "exec", "arguments": "{}", "call_id": "c"},
        {"type": "function_call_output", "call_id": "c", "output": "fine"},
    ],
    "tools": [
        {"type": "function", "name": "exec_command", "description": "", "strict": False, "parameters": {}},
        {"type": "namespace", "name": "n", "description": "", "tools": []},
    ],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "reasoning": {"effort": "low", "summary": "auto"},
    "store": False,
    "include": ["reasoning.encrypted_content"],
    "prompt_cache_key": "k",
    "client_metadata": {"session_id": "s"},
}
"""The fields that Codex 0.169.0 sends."""
CHAT: Body = {
    "model": "gpt-5",
    "messages": [{"role": "user", "content": "hello"}],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
    "stream": True,
    "stream_options": {"include_usage": True},
}
GEMINI: Body = {
    "contents": [{"role": "user", "parts": [{"text": "hello"}]}],
    "systemInstruction": {"parts": [{"text": "Be brief."}]},
    "tools": [{"functionDeclarations": [{"name": "f", "description": "", "parametersJsonSchema": {}}]}],
    "generationConfig": {"temperature": 0, "thinkingConfig": {"includeThoughts": True}},
}
BODIES = {"anthropic": CLAUDE, "responses": CODEX, "chat": CHAT, "gemini": GEMINI}
PATHS = {
    "anthropic": "/v1/messages?beta=true",
    "responses": "/v1/responses",
    "chat": "/v1/chat/completions",
    "gemini": "/v1beta/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
}
MODELS = ("claude-sonnet-4-5", "gpt-5", "gemini-2.5-pro")


@dataclass(frozen=True, kw_only=True)
class Probe:
    """One abuse."""

    name: str
    dialect: str
    body: bytes
    status: int = 403
    method: str = "POST"
    path: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    grant: str = ""
    """What permits it, where something does."""


def probe(name: str, dialect: str, change: Change, **more: Any) -> Probe:
    """A request as the CLI sends it, with one change."""
    body = copy.deepcopy(BODIES[dialect])
    change(body)
    return Probe(name=name, dialect=dialect, body=json.dumps(body).encode(), **more)


def raw(name: str, dialect: str, body: bytes | None = None, **more: Any) -> Probe:
    return Probe(
        name=name,
        dialect=dialect,
        body=json.dumps(BODIES[dialect]).encode() if body is None else body,
        **more,
    )


def replaced(dialect: str, old: bytes, new: bytes) -> bytes:
    data = json.dumps(BODIES[dialect]).encode()
    assert old in data
    return data.replace(old, new, 1)


def sets(**values: Any) -> Change:
    return lambda body: body.update(values)


def tool(**values: Any) -> Change:
    return lambda body: body["tools"].append(values)


def says(*blocks: Mapping[str, Any]) -> Change:
    def change(body: Body) -> None:
        messages = body.get("messages")
        if messages is None:
            body["input"].append({"type": "message", "role": "user", "content": list(blocks)})
        else:
            messages.append({"role": "user", "content": list(blocks)})

    return change


def item(**values: Any) -> Change:
    return lambda body: body["input"].append(values)


def part(**values: Any) -> Change:
    return lambda body: body["contents"][0]["parts"].append(values)


WEB = "https://evil.example/?carried=out"
PROBES = (
    # -- models ---------------------------------------------------------------------------------------
    probe("a dearer model", "anthropic", sets(model="claude-opus-4-1")),
    probe("a dearer model of the same maker", "responses", sets(model="gpt-5-pro")),
    probe("a model that searches", "chat", sets(model="gpt-5-search-api")),
    probe("a suffix that turns on search", "chat", sets(model="gpt-5:online")),
    raw("another model in the path", "gemini", path="/v1beta/models/gemini-3-ultra:generateContent"),
    probe("two models", "gemini", sets(model="models/gemini-3-ultra"), status=400),
    probe("a list of models", "chat", sets(models=["gpt-5-pro"])),
    probe("a model as a list", "chat", sets(model=["gpt-5-pro"]), status=400),
    probe("no model", "responses", lambda body: body.pop("model"), status=400),
    probe("a fast lane", "anthropic", sets(speed="fast"), grant="priority"),
    probe("a dearer class of service", "responses", sets(service_tier="priority"), grant="priority"),
    # -- tools that run at the provider ---------------------------------------------------------------
    probe("web search", "anthropic", tool(type="web_search_20250305", name="web_search"), grant="web_search"),
    probe("web fetch", "anthropic", tool(type="web_fetch_20250910", name="web_fetch"), grant="web_fetch"),
    probe(
        "code execution",
        "anthropic",
        tool(type="code_execution_20250825", name="code_execution"),
        grant="code_execution",
    ),
    probe(
        "remote MCP",
        "anthropic",
        sets(mcp_servers=[{"type": "url", "url": WEB, "name": "m"}]),
        grant="mcp",
    ),
    probe("an MCP toolset", "anthropic", tool(type="mcp_toolset", mcp_server_name="m"), grant="mcp"),
    probe(
        "computer use",
        "anthropic",
        tool(type="computer_20250124", name="computer", display_width_px=1, display_height_px=1),
        grant="computer_use",
    ),
    probe("a container", "anthropic", sets(container="container_1"), grant="code_execution"),
    probe("a tool of tomorrow", "anthropic", tool(type="teleport_20270101", name="teleport")),
    probe(
        "a result of a search that was not granted",
        "anthropic",
        says({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": WEB}}),
        grant="web_search",
    ),
    probe("web search", "responses", tool(type="web_search"), grant="web_search"),
    probe("web search, preview", "responses", tool(type="web_search_preview"), grant="web_search"),
    probe(
        "file search", "responses", tool(type="file_search", vector_store_ids=["vs_1"]), grant="file_search"
    ),
    probe(
        "code interpreter",
        "responses",
        tool(type="code_interpreter", container={"type": "auto"}),
        grant="code_execution",
    ),
    probe(
        "hosted shell",
        "responses",
        tool(type="shell", environment={"type": "container_auto"}),
        grant="code_execution",
    ),
    probe("remote MCP", "responses", tool(type="mcp", server_label="m", server_url=WEB), grant="mcp"),
    probe("image generation", "responses", tool(type="image_generation"), grant="image_generation"),
    probe("computer use", "responses", tool(type="computer_use_preview"), grant="computer_use"),
    probe(
        "a tool inside a namespace",
        "responses",
        lambda body: body["tools"][1]["tools"].append({"type": "web_search"}),
        grant="web_search",
    ),
    probe(
        "a tool inside the input",
        "responses",
        item(type="additional_tools", tools=[{"type": "web_search"}]),
        grant="web_search",
    ),
    probe(
        "a tool that a search found",
        "responses",
        item(type="tool_search_output", execution="client", tools=[{"type": "mcp", "server_url": WEB}]),
        grant="mcp",
    ),
    probe("search by a field", "chat", sets(web_search_options={}), grant="web_search"),
    probe("a plugin", "chat", sets(plugins=[{"id": "web"}]), grant="web_search"),
    probe("a search parameter", "chat", sets(search_parameters={"mode": "on"}), grant="web_search"),
    probe("web search", "gemini", tool(googleSearch={}), grant="web_search"),
    probe("web search, the other spelling", "gemini", tool(google_search={}), grant="web_search"),
    probe("fetching pages", "gemini", tool(urlContext={}), grant="web_fetch"),
    probe("code execution", "gemini", tool(code_execution={}), grant="code_execution"),
    probe(
        "a tool beside declarations",
        "gemini",
        lambda body: body["tools"][0].update(googleMaps={}),
        grant="web_search",
    ),
    probe(
        "sound",
        "chat",
        says({"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}),
        grant="audio",
    ),
    probe("answers that are read aloud", "chat", sets(modalities=["text", "audio"]), grant="audio"),
    probe(
        "a video",
        "gemini",
        part(inline_data={"mime_type": "video/mp4", "data": "AAAA"}),
        grant="audio",
    ),
    # -- what the provider fetches or keeps -----------------------------------------------------------
    probe(
        "an image from an address",
        "anthropic",
        says({"type": "image", "source": {"type": "url", "url": WEB}}),
        grant="urls",
    ),
    probe(
        "a document by its id",
        "anthropic",
        says({"type": "document", "source": {"type": "file", "file_id": "file_1"}}),
        grant="files",
    ),
    probe(
        "an image inside a tool's result",
        "anthropic",
        says(
            {
                "type": "tool_result",
                "tool_use_id": "t",
                "content": [{"type": "image", "source": {"type": "url", "url": WEB}}],
            }
        ),
        grant="urls",
    ),
    probe(
        "a file for the container",
        "anthropic",
        says({"type": "container_upload", "file_id": "f"}),
        grant="files",
    ),
    probe(
        "an image from an address",
        "responses",
        says({"type": "input_image", "image_url": WEB}),
        grant="urls",
    ),
    probe(
        "an image in the output of a call",
        "responses",
        item(
            type="function_call_output",
            call_id="c",
            output=[{"type": "input_image", "image_url": WEB}],
        ),
        grant="urls",
    ),
    probe("a file by its id", "responses", says({"type": "input_file", "file_id": "f"}), grant="files"),
    probe("a file from an address", "responses", says({"type": "input_file", "file_url": WEB}), grant="urls"),
    probe(
        "an image from an address",
        "chat",
        says({"type": "image_url", "image_url": {"url": WEB}}),
        grant="urls",
    ),
    probe(
        "a file from an address",
        "chat",
        says({"type": "file", "file": {"filename": "a.pdf", "file_data": WEB}}),
        grant="urls",
    ),
    probe("a file by its id", "chat", says({"type": "file", "file": {"file_id": "f"}}), grant="files"),
    probe("a file from an address", "gemini", part(fileData={"fileUri": WEB}), grant="urls"),
    probe("the same in the other spelling", "gemini", part(file_data={"file_uri": WEB}), grant="urls"),
    probe(
        "a cache that is kept", "gemini", sets(cached_content="cachedContents/1"), grant="stored_responses"
    ),
    probe("an answer that is kept", "responses", sets(store=True), grant="stored_responses"),
    probe("an answer in the background", "responses", sets(background=True)),
    probe("an earlier answer", "responses", sets(previous_response_id="resp_1"), grant="stored_responses"),
    probe("a kept talk", "responses", sets(conversation="conv_1"), grant="stored_responses"),
    probe("a kept prompt", "responses", sets(prompt={"id": "pmpt_1"}), grant="stored_responses"),
    probe("a kept item", "responses", item(type="item_reference", id="rs_1"), grant="stored_responses"),
    probe("a field of tomorrow", "responses", sets(webhook=WEB)),
    # -- other operations -----------------------------------------------------------------------------
    raw("the file store", "anthropic", path="/v1/files"),
    raw("a batch", "anthropic", path="/v1/messages/batches", status=404),
    raw("stored files", "chat", method="GET", path="/v1/files", body=b"", status=404),
    raw("deleting", "responses", method="DELETE", path="/v1/responses/resp_1", body=b"", status=404),
    raw("a vector store", "responses", path="/v1/vector_stores", status=404),
    raw("a thread's messages", "chat", path="/v1/threads/thread_1/messages", status=404),
    raw("fine-tuning", "chat", path="/v1/fine_tuning/jobs", status=404),
    raw("administration", "chat", method="GET", path="/v1/organization/users", body=b"", status=404),
    raw("speech", "chat", path="/v1/audio/speech", status=404),
    raw("a tuned model", "gemini", path="/v1beta/tunedModels/x:generateContent", status=404),
    raw("an upload", "gemini", path="/upload/v1beta/files", status=404),
    raw("another method", "anthropic", method="PUT", status=404),
    raw("a key in the query", "gemini", path=PATHS["gemini"] + "&key=AIza"),
    # -- what two readers read differently ------------------------------------------------------------
    raw("a path with dots", "anthropic", path="/v1/messages/../files", status=404),
    raw("a path with escapes", "anthropic", path="/v1/%6dessages/batches", status=404),
    raw(
        "a key that stands twice",
        "anthropic",
        replaced("anthropic", b'"max_tokens"', b'"model": "claude-opus-4-1", "max_tokens"'),
        status=400,
    ),
    raw(
        "a key in two cases",
        "chat",
        replaced("chat", b'"stream": true', b'"Model": "gpt-5-pro", "stream": true'),
        status=400,
    ),
    raw(
        "two spellings of one key",
        "gemini",
        replaced("gemini", b'{"text": "hello"}', b'{"inlineData": {}, "inline_data": {}}'),
        status=400,
    ),
    raw("bytes that are not UTF-8", "chat", replaced("chat", b"hello", b"\xff\xfe"), status=400),
    raw("UTF-16", "chat", json.dumps(CHAT).encode("utf-16"), status=400),
    raw("a mark before the body", "chat", b"\xef\xbb\xbf" + json.dumps(CHAT).encode(), status=400),
    raw("two bodies", "chat", json.dumps(CHAT).encode() * 2, status=400),
    raw("half a body", "chat", json.dumps(CHAT).encode()[:-9], status=400),
    raw("no object", "chat", b"[]", status=400),
    raw("a number that is none", "chat", replaced("chat", b'"stream": true', b'"seed": NaN'), status=400),
    raw("a number out of range", "chat", replaced("chat", b'"stream": true', b'"seed": 1e999'), status=400),
    raw("depth", "chat", replaced("chat", b'"hello"', b"[" * 300 + b"]" * 300), status=400),
    raw("another dialect", "anthropic", json.dumps(CODEX).encode()),
    raw("a coded body", "chat", b"\x1f\x8b\x08", headers={"Content-Encoding": "gzip"}, status=400),
    raw("a form", "chat", b"a=b", headers={"Content-Type": "application/x-www-form-urlencoded"}, status=400),
    raw("two types of content", "chat", headers={"Content-Type": "application/json, text/x"}, status=400),
)
