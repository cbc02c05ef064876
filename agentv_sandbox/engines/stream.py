"""Reads what a container prints, bounded in memory, while feeding its standard input.

An attached stream that nobody reads makes the engine's kill and remove hang, so reading goes on, discarding,
for as long as the container lives.
"""

from __future__ import annotations

import io
import selectors
import socket
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

from agentv_sandbox.logs import safe_text
from agentv_sandbox.models.container import Stdin

_LOG_CHARS = 4000
_HEADER = struct.Struct(">BxxxL")
_CHUNK = 1 << 18
_INPUT = 1 << 20
_POLL_S = 0.2


class AttachedStream:
    """A container's output and input, as the engine's library hands them out."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        self.socket: socket.socket = handle._sock

    def close(self) -> None:
        """End the socket, and the answer of the engine from which the library took it."""
        with suppress(OSError):
            self.socket.shutdown(socket.SHUT_RDWR)  # close() alone leaves the engine's writer blocked
        with suppress(OSError, ValueError, AttributeError):  # over TLS there is no reference to it
            self._handle._response.close()
        self.socket.close()


class Conversation:
    """Standard input and output of a container that goes on until it is removed."""

    def __init__(self, container: str, attached: AttachedStream) -> None:
        self.container = container
        self.socket = attached.socket
        self._attached = attached
        self._frames = _Frames()
        self.socket.setblocking(False)

    def receive(self) -> bytes | None:
        """What it printed, as far as it is there; None when it has ended."""
        try:
            data = self.socket.recv(_CHUNK)
        except BlockingIOError:
            return b""
        except OSError:
            return None
        printed = bytearray()
        self._frames.feed(data, lambda stream, part: printed.extend(part) if stream == 1 else None)
        return bytes(printed) if data else None

    def send(self, data: bytes) -> int:
        """How much of ``data`` it was given. Raises OSError."""
        return self.socket.send(data)

    def close(self) -> None:
        self._attached.close()


class BoundedCapture:
    """Keeps everything up to ``limit`` bytes, beyond that the first and the last half."""

    def __init__(self, limit: int) -> None:
        self._half = max(limit // 2, 1)
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def write(self, data: bytes) -> None:
        self.total += len(data)
        free = self._half - len(self._head)
        if free > 0:
            self._head += data[:free]
            data = data[free:]
        if data:
            self._tail += data
            if len(self._tail) > 4 * self._half:  # trim rarely: each trim copies half a limit
                del self._tail[: -self._half]

    def value(self) -> bytes:
        """What was kept; shorter than ``total`` when the middle was cut."""
        if self.total > 2 * self._half:
            return bytes(self._head) + bytes(self._tail[-self._half :])
        return bytes(self._head + self._tail)


@dataclass
class _Frames:
    """Splits the engine's multiplexed stream into (stream number, bytes)."""

    buffer: bytearray = field(default_factory=bytearray)
    stream: int = 0
    left: int = 0

    def feed(self, data: bytes, sink: Callable[[int, bytes], None]) -> None:
        if self.buffer:  # the start of a header that the last read cut
            data = bytes(self.buffer) + data
            self.buffer.clear()
        view = memoryview(data)
        while view:
            if self.left:
                part = view[: self.left]
                sink(self.stream, bytes(part))
                self.left -= len(part)
                view = view[len(part) :]
            elif len(view) >= _HEADER.size:
                self.stream, self.left = _HEADER.unpack_from(view)
                view = view[_HEADER.size :]
            else:
                self.buffer += view
                return


Ended = Literal["eof", "timeout", "flood", "cancelled", "lost"]


def pump(
    sock: socket.socket,
    *,
    stdin: Stdin,
    deadline: Callable[[], float],
    flood_bytes: int,
    sink: Callable[[int, bytes], None],
    cancelled: Callable[[], bool],
) -> Ended:
    """Write ``stdin``, then end-of-input; read until the stream ends or a bound is reached.

    ``deadline`` says ``time.monotonic`` seconds; it may move. ``sink`` gets (1 or 2, bytes).
    """
    sock.setblocking(False)
    frames = _Frames()
    source = io.BytesIO(stdin) if isinstance(stdin, bytes) else stdin
    source.seek(0)
    pending = memoryview(source.read(_INPUT))
    total = 0
    with selectors.DefaultSelector() as selector:
        selector.register(sock, selectors.EVENT_READ | selectors.EVENT_WRITE)
        while True:
            if cancelled():
                return "cancelled"
            left = deadline() - time.monotonic()
            if left <= 0:
                return "timeout"
            events = sum(events for _key, events in selector.select(min(left, _POLL_S)))
            if events & selectors.EVENT_WRITE:
                pending = _send(sock, pending) or memoryview(source.read(_INPUT))
                if not pending:
                    _end_input(sock)
                    selector.modify(sock, selectors.EVENT_READ)
            if events & selectors.EVENT_READ:
                data = _receive(sock)
                if not isinstance(data, bytes):
                    return data
                total += len(data)
                frames.feed(data, sink)
                if total > flood_bytes:
                    return "flood"


def _receive(sock: socket.socket) -> bytes | Literal["eof", "lost"]:
    """The bytes at hand, empty when there are none after all; else why the stream ended."""
    try:
        return sock.recv(_CHUNK) or "eof"
    except BlockingIOError:
        return b""
    except OSError:
        return "lost"


def _send(sock: socket.socket, pending: memoryview) -> memoryview:
    try:
        return pending[sock.send(pending[:_CHUNK]) :] if pending else pending
    except BlockingIOError:
        return pending
    except OSError:
        # The program closed its input or ended: what it printed still counts.
        return pending[len(pending) :]


def _end_input(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_WR)
    except OSError:
        return  # already ended


def drain(sock: socket.socket, *, seconds: float) -> None:
    """Read and discard until the stream ends, so that the engine can finish removing the container."""
    deadline = time.monotonic() + seconds
    sock.setblocking(True)
    try:
        while (left := deadline - time.monotonic()) > 0:
            sock.settimeout(left)
            if not sock.recv(_CHUNK):
                return
    except OSError:
        return


class Tail:
    """The end of a build's log, for its error."""

    def __init__(self) -> None:
        self._text = ""

    def add(self, text: str) -> None:
        self._text = (self._text + text)[-2 * _LOG_CHARS :]

    def __str__(self) -> str:
        return safe_text(self._text)[-_LOG_CHARS:]
