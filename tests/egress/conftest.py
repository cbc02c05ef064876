"""A real model server on 127.0.0.1."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


@dataclass
class ModelServer:
    port: int
    seen: list[dict[str, Any]] = field(default_factory=list)


@pytest.fixture
def model_server() -> Iterator[ModelServer]:
    """Records requests; answers with what it got, the credential included, as an unkind server may."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            if self.headers.get("Transfer-Encoding") == "chunked":
                body = b""
                while size := int(self.rfile.readline(), 16):
                    body += self.rfile.read(size + 2)[:-2]
                self.rfile.readline()
            else:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            record = {
                "path": self.path,
                "headers": list(self.headers.items()),
                "body": body.decode("latin-1"),
            }
            server.seen.append(record)
            answer = json.dumps(record).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.send_header("X-Echo", self.headers.get("x-api-key") or "none")
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    http.handle_error = lambda *_: None  # clients that go away are part of the tests
    server = ModelServer(http.server_address[1])
    threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True).start()
    yield server
    http.shutdown()
    http.server_close()
