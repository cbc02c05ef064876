"""A real socket before the real engine, which tests can cut: what a client of a restarted or lost engine meets."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.unix import short_folder


@contextmanager
def relay_before(address: str) -> Iterator[Relay]:
    """Open, before the engine at ``address``."""
    with short_folder() as folder:
        relay = Relay(folder / "engine.sock", address.removeprefix("unix://"))
        relay.open()
        yield relay
        relay.close()


class Relay:
    """A UNIX socket before the engine's. ``forget`` takes part of a request whose answer is lost once."""

    def __init__(self, path: Path, engine: str) -> None:
        self.path = path
        self.forget = b""
        self.requests: list[bytes] = []
        self._engine = engine
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._listener: socket.socket | None = None

    @property
    def address(self) -> str:
        return f"unix://{self.path}"

    def open(self) -> None:
        self.path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen(64)
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def close(self) -> None:
        """Refuse new connections and drop those that exist."""
        assert self._listener is not None
        self.path.unlink(missing_ok=True)
        for sock in (self._listener, *(end for pair in self._pairs for end in pair)):
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._pairs.clear()

    def away(self, seconds: float) -> threading.Timer:
        """Close, and open again later."""
        self.close()
        timer = threading.Timer(seconds, self.open)
        timer.start()
        return timer

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(self._engine)
                self._pairs.append((client, server))
                lost = threading.Event()
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(target=self._carry, args=(source, sink, lost), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket, lost: threading.Event) -> None:
        upwards = source.getsockname() == str(self.path)
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if upwards and b" HTTP/1.1\r\n" in data:
                    self.requests.append(data.split(b"\r\n")[0])
                    if self.forget and self.forget in data:
                        self.forget = b""
                        lost.set()
                if not upwards and lost.is_set():  # the engine has done it; its answer does not arrive
                    for sock in (source, sink):
                        sock.shutdown(socket.SHUT_RDWR)
                    return
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)


@contextmanager
def forwarded(target: str) -> Iterator[tuple[str, list[bytes]]]:
    """A TCP address that leads to a unix socket; how each connection to it began."""
    seen: list[bytes] = []

    def copy(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)

    def serve() -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                seen.append(client.recv(200, socket.MSG_PEEK))
                engine_side = socket.socket(socket.AF_UNIX)
                engine_side.connect(target)
                for pair in ((client, engine_side), (engine_side, client)):
                    threading.Thread(target=copy, args=pair, daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, daemon=True).start()
        yield f"tcp://127.0.0.1:{listener.getsockname()[1]}", seen
        listener.shutdown(socket.SHUT_RDWR)
