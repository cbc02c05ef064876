"""A scripted model server for tests: one HTTP port on 127.0.0.1 that speaks Anthropic Messages, OpenAI Responses,
OpenAI chat completions and Gemini generateContent, streamed or not.

A prompt names its script as ``script:NAME``. Each step of a script says something, calls tools, or fails. Calls are
played with whatever tools the client declared, so that any coding agent can be driven. Which step is due is read off
the conversation (how often tools were called since the prompt), so retries and restarts need no state. Requests
without tools (titles, summaries) get ``plain``.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = Any
INPUT, CACHED, OUTPUT, REASONING = 1000, 400, 50, 10
"""Tokens of every answer. INPUT includes CACHED, OUTPUT includes REASONING; each protocol says it its way."""
CREDENTIALS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")
_WORKING_FOLDER = re.compile(r'(?:orking directory: |<cwd>(?:\\n)?)(/[^\s<"\\]+)')
_MARK = re.compile(r"script:([a-z0-9-]+)")
_NAMES = {
    "write": ("write", "write_file", "create", "create_file"),
    "edit": ("edit", "replace", "str_replace_editor"),
    "run": ("bash", "exec_command", "shell", "shell_command", "run_shell_command", "exec"),
    "read": ("read", "read_file", "view"),
    "skill": ("skill", "activate_skill"),
    "recite": (
        "recite",
        *(f"{start}recite" for start in ("mcp__poems__", "mcp_poems_", "poems__", "poems_", "poems-")),
    ),
}
"""Names of tools, lower case, by what is done with them."""
_FIELDS = {
    "path": ("file_path", "path", "filePath", "filename", "absolute_path"),
    "content": ("content", "contents", "file_text", "text"),
    "old": ("old_string", "oldString", "old_str", "oldText"),
    "new": ("new_string", "newString", "new_str", "newText"),
    "command": ("command", "cmd", "commands"),
    "skill": ("skill", "name"),
    "note": ("description", "purpose", "reason", "instruction"),
}
_FIELD_OF = {name: key for key, names in _FIELDS.items() for name in names}


@dataclass(frozen=True)
class Do:
    """One call of a tool, by what it does: ``write`` (path, content), ``edit`` (path, old, new), ``run`` (command),
    ``read`` (path), ``skill`` (skill), ``recite`` (what the MCP server of the tests offers)."""

    kind: str
    values: Mapping[str, str]

    @property
    def command(self) -> str:
        """The same as a shell command, for clients without such a tool."""
        v = self.values
        match self.kind:
            case "write":
                return f"cat > {v['path']} <<'EOF'\n{v['content']}EOF"
            case "edit":
                return f"sed -i 's/{v['old']}/{v['new']}/' {v['path']}"
            case "read":
                return f"cat {v['path']}"
            case "skill":
                return f"cat {v['folder']}/{v['skill']}/SKILL.md"
            case "recite":
                return "echo there is no tool for it"
        return v["command"]


def do(kind: str, **values: str) -> Do:
    return Do(kind, values)


@dataclass(frozen=True)
class Step:
    """One answer of the model."""

    text: str = ""
    calls: tuple[Do, ...] = ()
    status: int = 200
    """Of the HTTP answer."""
    cut: bool = False
    """The connection is closed in the middle of the answer."""
    wait_s: float = 0
    """Before the answer."""
    refused: bool = False
    id: str = ""
    """Of an Anthropic answer; a new one where it is empty."""
    times: int = 1_000_000
    """How many requests get the ``status``; later ones get the answer."""


def say(text: str, *calls: Do, **more: Any) -> Step:
    return Step(text, calls, **more)


Script = Sequence[Step]


@dataclass(frozen=True)
class Tool:
    """A tool that a client declared."""

    name: str
    schema: Mapping[str, Json]
    freeform: bool = False
    """Takes text instead of arguments."""
    space: str | None = None


@dataclass(frozen=True)
class Call:
    tool: Tool
    id: str
    arguments: Mapping[str, Json]
    raw: str = ""
    """Input of a freeform tool."""


@dataclass(frozen=True)
class Reply:
    text: str = ""
    calls: tuple[Call, ...] = ()
    refused: bool = False
    id: str = ""


@dataclass
class Seen:
    """One request."""

    method: str
    path: str
    headers: dict[str, str]
    body: Json
    kind: str = ""
    script: str = ""
    step: int | None = None
    """None: not part of a script."""
    status: int = 200
    at: float = field(default_factory=time.time)


# -- reading requests -----------------------------------------------------------------------------------------
def declared(body: Mapping[str, Json], space: str | None = None) -> list[Tool]:
    """Tools of a request in any of the four protocols; a group of tools counts as its members."""
    tools: list[Tool] = []
    given = body.get("input")
    items = given if isinstance(given, list) else []
    rows = [*(body.get("tools") or []), *(t for item in items for t in item.get("tools") or [])]
    for row in rows:
        members = row.get("functionDeclarations") or (
            row.get("tools") if row.get("type") == "namespace" else None
        )
        if members:
            tools += declared({"tools": members}, row.get("name"))
            continue
        inner = row["function"] if isinstance(row.get("function"), dict) else row
        keys = ("parameters", "input_schema", "parametersJsonSchema")
        schema: Mapping[str, Json] = next(
            (inner[key] for key in keys if isinstance(inner.get(key), dict)), {}
        )
        name = str(inner.get("name") or row.get("type") or "")
        tools.append(Tool(name, schema, freeform=row.get("type") == "custom", space=space))
    return tools


def _rows(value: Json) -> list[Json]:
    return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def _talk(kind: str, body: Json) -> Iterator[tuple[int, str]]:
    """(how many answers of the model called tools there, its text) for each message of a conversation."""
    if kind == "anthropic":
        for message in _rows(body.get("messages")):
            # A program may join answers of the same id; a call's own id begins with its step.
            ids = [str(b.get("id")) for b in _rows(message.get("content")) if b.get("type") == "tool_use"]
            yield (
                len({each.rpartition("_")[0] for each in ids}),
                json.dumps(message.get("content")) if message.get("role") == "user" else "",
            )
    elif kind == "responses":
        before = False
        for item in _rows(body.get("input")):
            calls = str(item.get("type")).endswith("_call")
            yield calls and not before, json.dumps(item.get("content")) if item.get("role") == "user" else ""
            before = calls
    elif kind == "chat":
        for message in _rows(body.get("messages")):
            user = message.get("role") == "user"
            yield bool(message.get("tool_calls")), json.dumps(message.get("content")) if user else ""
    else:
        for turn in _rows(body.get("contents")):
            called = any("functionCall" in part for part in _rows(turn.get("parts")))
            yield called, json.dumps(turn.get("parts")) if turn.get("role") == "user" else ""


def position(kind: str, body: Json) -> tuple[str, int]:
    """The script that the last prompt names, and the step that is due."""
    name, step = "", 0
    for called, text in _talk(kind, body):
        # A program may show the prompt again, as a reminder.
        if (mark := _MARK.findall(text)) and mark[-1] != name:
            name, step = mark[-1], 0
        step += called
    return name, step


def _arguments(tool: Tool, values: Mapping[str, str]) -> dict[str, Json]:
    """Arguments after the tool's own schema: known names get their value, other required ones a harmless one."""
    properties = tool.schema.get("properties") or {}
    given: dict[str, Json] = {}
    for name, schema in properties.items():
        kind = str(schema.get("type", "")).lower() if isinstance(schema, dict) else ""
        if (value := values.get(_FIELD_OF.get(name, ""))) is not None:
            given[name] = ["bash", "-lc", value] if kind == "array" else value
        elif name in (tool.schema.get("required") or ()):
            harmless = {"string": "x", "integer": 1, "number": 1, "boolean": False, "array": [], "object": {}}
            choices = schema.get("enum") if isinstance(schema, dict) else None
            given[name] = choices[0] if choices else harmless.get(kind)
            items = schema.get("items") if isinstance(schema, dict) else None
            if kind == "array" and isinstance(items, dict) and items.get("properties"):
                given[name] = [_arguments(Tool(name, items), values)]
    return given


def _call(action: Do, tools: Mapping[str, Tool], identity: str) -> Call | None:
    tool = next((tools[name] for name in _NAMES[action.kind] if name in tools), None)
    values: Mapping[str, str] = {"note": "as the script says", **action.values}
    if tool is None and action.kind == "skill" and "read" in tools:
        # Clients without a tool for skills have their instructions read.
        tool, values = tools["read"], {"path": f"{values['folder']}/{values['skill']}/SKILL.md"}
    if tool is None:
        tool = next((tools[name] for name in _NAMES["run"] if name in tools), None)
        values = {"note": "as the script says", "command": action.command}
    if tool is None:
        return None
    if tool.freeform:
        # JavaScript around other tools, as Codex offers it.
        raw = f"const r = await tools.exec_command({{cmd: {json.dumps(action.command)}}}); text(r.output)"
        if action.kind == "recite":
            raw = "const r = await tools.mcp__poems__recite({}); text(JSON.stringify(r))"
        return Call(tool, identity, {}, raw)
    return Call(tool, identity, _arguments(tool, values))


# -- the protocols: an answer as one body, and as events ------------------------------------------------------
Events = Iterator[tuple[str, Json]]
"""(name of the event or "", data)."""


def anthropic_body(reply: Reply, model: str) -> Json:
    content: list[Json] = [{"type": "text", "text": reply.text}] if reply.text else []
    content += [
        {"type": "tool_use", "id": c.id, "name": c.tool.name, "input": dict(c.arguments)} for c in reply.calls
    ]
    usage = {
        "input_tokens": INPUT - CACHED,
        "cache_read_input_tokens": CACHED,
        "cache_creation_input_tokens": 0,
        "output_tokens": OUTPUT,
    }
    reason = "refusal" if reply.refused else "tool_use" if reply.calls else "end_turn"
    identity = reply.id or f"msg_{time.monotonic_ns()}"
    return {
        "id": identity,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": usage,
    }


def anthropic_events(reply: Reply, model: str) -> Events:
    whole = anthropic_body(reply, model)
    start = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
    yield "message_start", {"type": "message_start", "message": start}
    for index, block in enumerate(whole["content"]):
        text = block["type"] == "text"
        empty = {**block, "text": ""} if text else {**block, "input": {}}
        delta = (
            {"type": "text_delta", "text": block["text"]}
            if text
            else {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        )
        for name, data in (("start", {"content_block": empty}), ("delta", {"delta": delta}), ("stop", {})):
            yield f"content_block_{name}", {"type": f"content_block_{name}", "index": index, **data}
    end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield "message_delta", {"type": "message_delta", "delta": end, "usage": whole["usage"]}
    yield "message_stop", {"type": "message_stop"}


def responses_body(reply: Reply, model: str) -> Json:
    output: list[Json] = []
    if reply.text:
        part = (
            {"type": "refusal", "refusal": reply.text}
            if reply.refused
            else {"type": "output_text", "text": reply.text, "annotations": []}
        )
        output.append(
            {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
        )
    for call in reply.calls:
        tool = call.tool
        same = {"id": f"fc_{call.id}", "call_id": call.id, "name": tool.name, "status": "completed"}
        same |= {"namespace": tool.space} if tool.space else {}
        output.append(
            {**same, "type": "custom_tool_call", "input": call.raw}
            if tool.freeform
            else {**same, "type": "function_call", "arguments": json.dumps(call.arguments)}
        )
    usage = {
        "input_tokens": INPUT,
        "input_tokens_details": {"cached_tokens": CACHED},
        "output_tokens": OUTPUT,
        "output_tokens_details": {"reasoning_tokens": REASONING},
        "total_tokens": INPUT + OUTPUT,
    }
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": int(time.time()),
        "model": model,
        "status": "completed",
        "output": output,
        "usage": usage,
        "error": None,
        "incomplete_details": None,
        "parallel_tool_calls": True,
        "tools": [],
        "tool_choice": "auto",
    }


def responses_events(reply: Reply, model: str) -> Events:
    whole = responses_body(reply, model)
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    rows: list[Json] = [{"type": "response.created", "response": begun}]
    for index, item in enumerate(whole["output"]):
        same, first = {"output_index": index, "item_id": item["id"]}, {**item, "status": "in_progress"}
        parts: list[Json] = []
        if item["type"] == "message" and not reply.refused:
            part, at = item["content"][0], {"content_index": 0}
            first["content"] = []
            parts = [
                {"type": "response.content_part.added", **at, "part": {**part, "text": ""}},
                {"type": "response.output_text.delta", **at, "delta": part["text"]},
                {"type": "response.output_text.done", **at, "text": part["text"]},
                {"type": "response.content_part.done", **at, "part": part},
            ]
        elif item["type"] == "function_call":
            first["arguments"], name = "", "response.function_call_arguments"
            parts = [
                {"type": f"{name}.delta", "delta": item["arguments"]},
                {"type": f"{name}.done", "arguments": item["arguments"]},
            ]
        rows.append({"type": "response.output_item.added", "output_index": index, "item": first})
        rows += [{**part, **same} for part in parts]
        rows.append({"type": "response.output_item.done", "output_index": index, "item": item})
    rows.append({"type": "response.completed", "response": whole})
    for number, row in enumerate(rows):
        yield row["type"], {**row, "sequence_number": number}


def chat_body(reply: Reply, model: str, *, piece: bool = False) -> Json:
    message: dict[str, Json] = {"role": "assistant", "content": reply.text or None}
    if reply.calls:
        message["tool_calls"] = [
            {
                "index": index,
                "id": call.id,
                "type": "function",
                "function": {"name": call.tool.name, "arguments": json.dumps(call.arguments)},
            }
            for index, call in enumerate(reply.calls)
        ]
    usage = {
        "prompt_tokens": INPUT,
        "completion_tokens": OUTPUT,
        "total_tokens": INPUT + OUTPUT,
        "prompt_tokens_details": {"cached_tokens": CACHED},
        "completion_tokens_details": {"reasoning_tokens": REASONING},
    }
    ended = "content_filter" if reply.refused else "tool_calls" if reply.calls else "stop"
    choice = {"index": 0, "delta" if piece else "message": message, "finish_reason": None if piece else ended}
    kind = "chat.completion.chunk" if piece else "chat.completion"
    return {
        "id": "chatcmpl-1",
        "object": kind,
        "created": int(time.time()),
        "model": model,
        "choices": [choice],
        "usage": None if piece else usage,
    }


def chat_events(reply: Reply, model: str) -> Events:
    piece, whole = chat_body(reply, model, piece=True), chat_body(reply, model)
    yield "", piece
    end = {"index": 0, "delta": {}, "finish_reason": whole["choices"][0]["finish_reason"]}
    yield "", {**piece, "choices": [end]}
    yield "", {**piece, "choices": [], "usage": whole["usage"]}
    yield "", None


def gemini_body(reply: Reply, model: str) -> Json:
    parts: list[Json] = [{"text": reply.text}] if reply.text else []
    parts += [{"functionCall": {"name": c.tool.name, "args": dict(c.arguments)}} for c in reply.calls]
    usage = {
        "promptTokenCount": INPUT,
        "cachedContentTokenCount": CACHED,
        "thoughtsTokenCount": REASONING,
        "candidatesTokenCount": OUTPUT - REASONING,
        "totalTokenCount": INPUT + OUTPUT,
    }
    ended = "SAFETY" if reply.refused else "STOP"
    candidate = {"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": ended}
    return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": model, "responseId": "r1"}


def gemini_events(reply: Reply, model: str) -> Events:
    third = len(reply.text) // 3 + 1
    for start in (0, third, 2 * third):
        part = {"text": reply.text[start : start + third]}
        yield "", {"candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}]}
    yield "", gemini_body(replace(reply, text=""), model)


PROTOCOLS: Mapping[str, tuple[str, Callable[[Reply, str], Json], Callable[[Reply, str], Events]]] = {
    "anthropic": (r"/messages$", anthropic_body, anthropic_events),
    "responses": (r"/responses$", responses_body, responses_events),
    "chat": (r"/chat/completions$", chat_body, chat_events),
    "gemini": (r":(stream)?[gG]enerateContent$", gemini_body, gemini_events),
}
"""Each with the end of its path, so that a server behind a prefix is recognised too."""


# -- the server ------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Answer:
    body: Json = None
    events: Events | None = None
    cut: bool = False


class _ManyCallers(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128
    """With five, as by default, a busy machine's kernel resets some of many connections at once."""


class ModelServer:
    """``key``: the one credential that is accepted (any without). ``folder``: what in the scripts stands for the
    working folder, of which a client tells the model. ``waits``: whether it takes the time
    that scripts say, and lets others wait who asked too often."""

    def __init__(
        self,
        scripts: Mapping[str, Script],
        *,
        key: str | None = None,
        plain: str = "ok",
        folder: str | None = None,
        waits: bool = True,
    ) -> None:
        self.seen: list[Seen] = []
        self._scripts, self._key, self._plain, self._folder = scripts, key, plain, folder
        self.waits = waits
        self._lock = threading.Lock()
        self._server = _ManyCallers(("127.0.0.1", 0), type("Handler", (_Handler,), {"models": self}))
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> ModelServer:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def steps(self, script: str) -> list[int]:
        """The steps of ``script`` that were answered, in order."""
        rows = [seen for seen in self.seen if seen.script == script and seen.status == 200]
        return [seen.step for seen in rows if seen.step is not None]

    def answer(self, seen: Seen) -> Answer:
        """Fills in what ``seen`` is."""
        path, body = seen.path.partition("?")[0], seen.body if isinstance(seen.body, dict) else {}
        if not path.startswith("/"):
            return self._error(seen, "proxy", 403, "nothing is proxied")
        if seen.method == "GET" and path.endswith("/models"):
            seen.kind = "models"
            rows = [{"id": "fake-model", "object": "model", "name": "models/fake-model"}]
            return Answer({"object": "list", "data": rows, "models": rows})
        if seen.method == "POST" and path.endswith(("/count_tokens", ":countTokens")):
            seen.kind = "count"
            return Answer({"input_tokens": INPUT, "totalTokens": INPUT})
        kind = next((kind for kind, (end, *_) in PROTOCOLS.items() if re.search(end, path)), None)
        if kind is None or seen.method != "POST":
            return self._error(seen, "other", 404, f"no {seen.method} {path}")
        if self._key is not None and not any(self._key in seen.headers.get(name, "") for name in CREDENTIALS):
            return self._error(seen, kind, 401, "wrong key")
        return self._play(seen, kind, body)

    def _play(self, seen: Seen, kind: str, body: Mapping[str, Json]) -> Answer:
        seen.kind = kind
        tools = {tool.name.lower(): tool for tool in reversed(declared(body))}
        known = {name for names in _NAMES.values() for name in names}
        step = Step(self._plain)
        if tools.keys() & known:
            seen.script, seen.step = position(kind, body)
            script = self._scripts.get(seen.script, [Step(f"there is no script {seen.script!r}")])
            step = script[min(seen.step, len(script) - 1)]
        if step.wait_s and self.waits:
            time.sleep(step.wait_s)
        earlier = [s for s in list(self.seen) if (s.script, s.step) == (seen.script, seen.step)]
        if step.status != 200 and len(earlier) < step.times:
            return self._error(seen, kind, step.status, f"status {step.status}")
        actions = [self._placed(act, body) for act in step.calls]
        calls = [_call(act, tools, f"{seen.script}_{seen.step}_{n}") for n, act in enumerate(actions)]
        made = tuple(call for call in calls if call is not None)
        reply = Reply(step.text, made, step.refused, step.id)
        path = seen.path.partition("?")[0]
        model = str(body.get("model") or path.rpartition("/")[2].partition(":")[0])
        streamed = ":stream" in path if kind == "gemini" else bool(body.get("stream"))
        _, whole, events = PROTOCOLS[kind]
        if streamed:
            return Answer(events=events(reply, model), cut=step.cut)
        return Answer(whole(reply, model), cut=step.cut)

    def _placed(self, action: Do, body: Mapping[str, Json]) -> Do:
        """``action`` in the client's working folder."""
        folder = _WORKING_FOLDER.search(json.dumps(body)) if self._folder else None
        if self._folder is None or folder is None:
            return action
        return Do(
            action.kind, {key: value.replace(self._folder, folder[1]) for key, value in action.values.items()}
        )

    def _error(self, seen: Seen, kind: str, status: int, message: str) -> Answer:
        seen.kind, seen.status = kind, status
        return Answer(
            {"type": "error", "error": {"type": "scripted_error", "code": status, "message": message}}
        )

    def record(self, seen: Seen) -> None:
        with self._lock:
            self.seen.append(seen)


class _Handler(BaseHTTPRequestHandler):
    models: ModelServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _serve(self) -> None:
        data = self._read()
        try:
            body = json.loads(data) if data else None
        except ValueError:
            body = data.decode("utf-8", "replace")
        seen = Seen(self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body)
        answer = self.models.answer(seen)
        self.models.record(seen)
        self.close_connection = True
        with suppress(OSError):  # the client may have gone
            self._send(seen.status, answer)

    def _send(self, status: int, answer: Answer) -> None:
        self.send_response(status)
        self.send_header("connection", "close")
        if status == 429 and not self.models.waits:
            self.send_header("x-should-retry", "false")
        if answer.events is not None:
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            for number, (name, row) in enumerate(answer.events):
                if answer.cut and number == 3:
                    return
                text = "[DONE]" if row is None else json.dumps(row)
                self.wfile.write((f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode())
                self.wfile.flush()
            return
        payload = json.dumps(answer.body).encode()
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(payload)))
        self.end_headers()
        whole = len(payload) // 2 if answer.cut else len(payload)
        self.wfile.write(payload[:whole] if self.command != "HEAD" else b"")

    def _read(self) -> bytes:
        if "chunked" not in self.headers.get("transfer-encoding", ""):
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        data = b""
        while (size := int(self.rfile.readline().split(b";")[0], 16)) > 0:
            data += self.rfile.read(size)
            self.rfile.readline()
        return data

    do_GET = do_POST = do_HEAD = do_PUT = do_DELETE = do_CONNECT = _serve


__all__ = ["CACHED", "INPUT", "OUTPUT", "REASONING", "ModelServer", "Seen", "Step", "do", "say"]
