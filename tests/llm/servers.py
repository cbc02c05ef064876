"""Real HTTP servers on 127.0.0.1 that answer from a script, and note exactly what they were sent."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Answer:
    """One response. ``cut``: close the connection after so many bytes of the body; ``drip_s``: a pause after each."""

    status: int = 200
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    cut: int | None = None
    drip_s: float = 0.0


@dataclass
class Asked:
    path: str
    headers: dict[str, str]
    body: Any
    raw: bytes = b""
    at: float = field(default_factory=time.monotonic)
    client: tuple[str, int] = ("", 0)
    """The other end of its connection."""


@dataclass
class Server:
    """Hands out ``answers`` in order, the last one for ever."""

    answers: list[Answer | Callable[[Asked], Answer]]
    asked: list[Asked] = field(default_factory=list)
    url: str = ""
    tls: ssl.SSLContext | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    stopping: threading.Event = field(default_factory=threading.Event)

    def next(self, asked: Asked) -> Answer:
        with self._lock:
            self.asked.append(asked)
            answer = self.answers[min(len(self.asked), len(self.answers)) - 1]
        return answer(asked) if callable(answer) else answer

    def __enter__(self) -> Server:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {k.lower(): v for k, v in self.headers.items()}
                asked = Asked(self.path, headers, json.loads(body), body, client=self.client_address)
                answer = server.next(asked)
                server.stopping.wait(answer.delay_s)
                data = answer.body if answer.cut is None else answer.body[: answer.cut]
                try:
                    self.send_response(answer.status)
                    for name, value in {"content-length": str(len(answer.body)), **answer.headers}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    pieces = [data] if not answer.drip_s else [data[n : n + 1] for n in range(len(data))]
                    for piece in pieces:
                        self.wfile.write(piece)
                        server.stopping.wait(answer.drip_s)
                except OSError:
                    pass
                if answer.cut is not None:
                    self.close_connection = True

            def log_message(self, *_args: object) -> None:
                pass

        class Threads(ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

        self._server = Threads(("127.0.0.1", 0), Handler)
        scheme = "http"
        if self.tls is not None:
            scheme = "https"
            self._server.socket = self.tls.wrap_socket(self._server.socket, server_side=True)
        self.url = f"{scheme}://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True
        ).start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stopping.set()
        self._server.shutdown()
        self._server.server_close()


def chat(text: str, **extra: Any) -> Answer:
    """A chat completion that says ``text``."""
    body = {
        "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 7, **extra},
    }
    return Answer(body=json.dumps(body).encode())


def sse(*events: Any, done: bool = True) -> Answer:
    """A server-sent stream of JSON events."""
    lines = [f"data: {json.dumps(event)}\n\n" for event in events]
    if done:
        lines.append("data: [DONE]\n\n")
    return Answer(body="".join(lines).encode(), headers={"content-type": "text/event-stream; charset=utf-8"})


def stream_of(asked: Asked, text: str) -> Answer:
    """A streamed answer that says ``text``, in the protocol of what was asked: 11 tokens in, 4 of them cached, and 7
    out, 2 of them thoughts."""
    path = asked.path.partition("?")[0]
    if path.endswith("/chat/completions"):
        usage = {
            "prompt_tokens": 11,
            "completion_tokens": 7,
            "prompt_tokens_details": {"cached_tokens": 4},
            "completion_tokens_details": {"reasoning_tokens": 2},
        }
        end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "model": "m-1"}
        start = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": text}}], "model": "m-1"}
        return sse(start, end, {"choices": [], "usage": usage, "model": "m-1"})
    if path.endswith("/responses"):
        part = {"type": "output_text", "text": text, "annotations": []}
        item = {
            "type": "message",
            "id": "msg_a",
            "role": "assistant",
            "status": "completed",
            "content": [part],
        }
        usage = {
            "input_tokens": 11,
            "output_tokens": 7,
            "total_tokens": 18,
            "input_tokens_details": {"cached_tokens": 4},
            "output_tokens_details": {"reasoning_tokens": 2},
        }
        whole = {"id": "r", "status": "completed", "model": "m-1", "output": [item], "usage": usage}
        return sse(
            {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed", "response": whole},
        )
    if path.endswith("/messages"):
        usage = {"input_tokens": 7, "cache_read_input_tokens": 4, "output_tokens": 1}
        block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        delta = {"type": "text_delta", "text": text}
        return named_events(
            {"type": "message_start", "message": {"id": "x", "model": "m-1", "usage": usage}},
            block,
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 7}},
            {"type": "message_stop"},
        )
    return sse(
        {
            "candidates": [{"content": {"parts": [{"text": text}], "role": "model"}, "finishReason": "STOP"}],
            "usageMetadata": {
                "promptTokenCount": 11,
                "cachedContentTokenCount": 4,
                "candidatesTokenCount": 5,
                "thoughtsTokenCount": 2,
            },
            "modelVersion": "m-1",
        },
        done=False,
    )


def named_events(*events: Any) -> Answer:
    """As ``sse``, each event under the name of its type."""
    lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
    return Answer(body="".join(lines).encode(), headers={"content-type": "text/event-stream"})
