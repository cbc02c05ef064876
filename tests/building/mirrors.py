"""Small real servers for tests: files by path, with faults on request."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from agentv_sandbox.fetching.origins import Origins


class Anywhere(Origins):
    """Servers of tests are on this machine, and their files in folders of the test."""

    def refusal(self, url: str) -> str:
        return ""


@dataclass
class FileServer:
    """``files`` by path; ``faults`` maps a path to statuses that are answered first."""

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    faults: dict[str, list[int]] = field(default_factory=dict)
    redirects: dict[str, str] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    """(path, Authorization header) of every request."""
    user: str = ""
    """``Basic …`` that is demanded."""


def _server(handler: type[BaseHTTPRequestHandler], tls: ssl.SSLContext | None) -> ThreadingHTTPServer:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    return server


@contextmanager
def serving(tls: ssl.SSLContext | None = None) -> Iterator[FileServer]:
    state = FileServer()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            sent = self.headers.get("Authorization", "")
            state.asked.append((self.path, sent))
            faults = state.faults.get(self.path)
            if faults:
                return self._answer(faults.pop(0), b"fault")
            if state.user and sent != state.user:
                return self._answer(401, b"who are you")
            if place := state.redirects.get(self.path):
                return self._answer(302, b"", place)
            data = state.files.get(self.path)
            return self._answer(404 if data is None else 200, data or b"")

        def _answer(self, status: int, data: bytes, place: str = "") -> None:
            self.send_response(status)
            if place:
                self.send_header("Location", place)
            if self.path.endswith("/"):
                self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            pass

    server = _server(Handler, tls)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    state.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_port}"
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
