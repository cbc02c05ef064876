"""A small scripted registry (OCI distribution, reading only) over HTTP on 127.0.0.1, with faults on request.

Engines take plain HTTP from 127.0.0.0/8. Every request counts: who asked for what with which credentials.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_CONFIG = "application/vnd.docker.container.image.v1+json"
_LAYER = "application/vnd.docker.image.rootfs.diff.tar"
_TOKEN = "bearerTokenThatMustNotLeak"


@dataclass
class Registry:
    host: str = ""
    """``127.0.0.1:PORT``, what image names begin with."""
    blobs: dict[str, bytes] = field(default_factory=dict)
    """Content of layers and configurations by digest."""
    manifests: dict[tuple[str, str], bytes] = field(default_factory=dict)
    """By (repository, tag or digest)."""
    asked: list[tuple[str, str, str]] = field(default_factory=list)
    """(method, path, Authorization header) of every request."""
    faults: dict[str, int] = field(default_factory=dict)
    """Status that is answered where the path contains the key."""
    stalls: set[str] = field(default_factory=set)
    """Paths that contain one of these are never answered."""
    drip: bool = False
    """Layers are sent a few bytes a second."""
    dropped: threading.Event = field(default_factory=threading.Event)
    """Set when a client has left a drip or a stall."""
    login: tuple[str, str] | None = None
    """User and password that are demanded."""
    bearer: bool = False
    """They are demanded by a token service, as of the big registries."""

    def add(self, repository: str, tag: str, layers: list[bytes], config: dict[str, Any]) -> str:
        """Hold an image; returns its manifest's digest."""
        config = {**config, "rootfs": {"type": "layers", "diff_ids": [_digest(layer) for layer in layers]}}
        raw = json.dumps(config, sort_keys=True).encode()
        manifest = {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": {"mediaType": _CONFIG, "size": len(raw), "digest": _digest(raw)},
            "layers": [{"mediaType": _LAYER, "size": len(x), "digest": _digest(x)} for x in layers],
        }
        for blob in (raw, *layers):
            self.blobs[_digest(blob)] = blob
        data = json.dumps(manifest).encode()
        self.manifests[repository, tag] = self.manifests[repository, _digest(data)] = data
        return _digest(data)

    def paths(self) -> list[str]:
        return [path for _, path, _ in self.asked]


def saved_image(chunks: Iterator[bytes]) -> tuple[list[bytes], dict[str, Any]]:
    """(layers, configuration) of what an engine saved."""
    with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:

        def read(name: str) -> bytes:
            file = archive.extractfile(name)
            assert file is not None
            return file.read()

        manifest = json.loads(read("manifest.json"))[0]
        config: dict[str, Any] = json.loads(read(manifest["Config"]))
        return [read(name) for name in manifest["Layers"]], config


def tiny_image(text: str) -> tuple[list[bytes], dict[str, Any]]:
    """One layer with one file; nothing in it runs."""
    return [one_file("hello.txt", text)], {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Labels": {"text": text}},
    }


def one_file(path: str, text: str) -> bytes:
    """A layer."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        info = tarfile.TarInfo(path)
        info.size = len(text.encode())
        tar.addfile(info, io.BytesIO(text.encode()))
    return out.getvalue()


@contextmanager
def registry() -> Iterator[Registry]:
    state = Registry()
    over = threading.Event()

    class Handler(_Handler):
        registry = state
        ending = over

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    state.host = f"127.0.0.1:{server.server_port}"
    try:
        yield state
    finally:
        over.set()
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    registry: Registry
    ending: threading.Event

    def do_GET(self) -> None:
        state = self.registry
        path = urlsplit(self.path).path
        sent = self.headers.get("Authorization", "")
        state.asked.append((self.command, self.path, sent))
        if any(part in path for part in state.stalls):
            return self._stall()
        for part, status in state.faults.items():
            if part in path:
                code = "TOOMANYREQUESTS" if status == 429 else "UNKNOWN"
                return self._error(status, code, "a fault that was asked for")
        if path == "/token":
            return self._token(sent)
        if not self._may(sent):
            return self._demand()
        return self._read(path)

    do_HEAD = do_GET

    def _read(self, path: str) -> None:
        if path == "/v2/":
            return self._answer(200, b"{}", "application/json")
        repository, _, rest = path.removeprefix("/v2/").rpartition("/")
        repository, _, kind = repository.rpartition("/")
        if kind == "manifests":
            data = self.registry.manifests.get((repository, rest))
            if data is None:
                return self._error(404, "MANIFEST_UNKNOWN", "manifest unknown")
            return self._answer(200, data, _MANIFEST, digest=_digest(data))
        blob = self.registry.blobs.get(rest)
        if kind != "blobs" or blob is None:
            return self._error(404, "BLOB_UNKNOWN", "blob unknown to registry")
        if self.registry.drip:
            return self._drip(blob)
        return self._answer(200, blob, "application/octet-stream")

    # -- who asks -------------------------------------------------------------------------------------
    def _may(self, sent: str) -> bool:
        if self.registry.login is None:
            return True
        return sent == (f"Bearer {_TOKEN}" if self.registry.bearer else self._basic())

    def _basic(self) -> str:
        user, password = self.registry.login or ("", "")
        return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()

    def _demand(self) -> None:
        host = self.registry.host
        if self.registry.bearer:
            challenge = f'Bearer realm="http://{host}/token",service="{host}"'
        else:
            challenge = 'Basic realm="test"'
        self._error(401, "UNAUTHORIZED", "authentication required", challenge)

    def _token(self, sent: str) -> None:
        if sent != self._basic():
            return self._error(401, "UNAUTHORIZED", "incorrect username or password")
        assert parse_qs(urlsplit(self.path).query)["scope"]
        return self._answer(200, json.dumps({"token": _TOKEN}).encode(), "application/json")

    # -- answers --------------------------------------------------------------------------------------
    def _error(self, status: int, code: str, message: str, challenge: str = "") -> None:
        data = json.dumps({"errors": [{"code": code, "message": message}]}).encode()
        self._answer(status, data, "application/json", challenge=challenge)

    def _answer(self, status: int, data: bytes, kind: str, *, digest: str = "", challenge: str = "") -> None:
        self.send_response(status)
        self.send_header("Docker-Distribution-API-Version", "registry/2.0")
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        if digest:
            self.send_header("Docker-Content-Digest", digest)
        if challenge:
            self.send_header("WWW-Authenticate", challenge)
        self.end_headers()
        if self.command != "HEAD":
            with suppress(ConnectionError):
                self.wfile.write(data)

    def _stall(self) -> None:
        self._until_left(lambda: None)
        self.close_connection = True

    def _drip(self, blob: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(blob)))
        self.end_headers()
        position = iter(range(0, len(blob), 100))
        self._until_left(lambda: self._send(blob, next(position)))
        self.close_connection = True

    def _send(self, blob: bytes, start: int) -> None:
        self.wfile.write(blob[start : start + 100])

    def _until_left(self, act: Callable[[], None]) -> None:
        """``act`` five times a second until the client goes."""
        self.connection.settimeout(0.2)
        while not self.ending.is_set():
            try:
                act()
                if not self.connection.recv(1):
                    break
            except TimeoutError:
                continue
            except (ConnectionError, StopIteration):
                break
            time.sleep(0.2)
        self.registry.dropped.set()

    def log_message(self, *_: object) -> None:
        pass


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"
