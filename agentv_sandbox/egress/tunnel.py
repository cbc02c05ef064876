"""Bytes carried both ways once a client is connected to a server that it may reach."""

from __future__ import annotations

import selectors
import socket
import time
from contextlib import suppress

from agentv_sandbox.egress.connection import CHUNK, IDLE_TIMEOUT_S, ClientConnection
from agentv_sandbox.egress.endpoint import Refused
from agentv_sandbox.egress.hello import ALERT, HelloGuard

_HELLO_TIMEOUT_S = 20.0
_ALERT_RECORD = 0x15
_TLS_RECORDS = frozenset({0x16, _ALERT_RECORD})
_ALERT_SIZE = 7


class Tunnel:
    """One connection through the proxy. What is wrong with the start of TLS stands in the visit's reason."""

    def __init__(self, client: ClientConnection, server: socket.socket, guard: HelloGuard) -> None:
        self._client, self._server, self._guard = client, server, guard
        self._answered = False
        self._deadline: float | None = time.monotonic() + _HELLO_TIMEOUT_S

    def carry(self, early: bytes) -> None:
        """Carry until both ends have closed. ``early``: what the client has sent already. Raises Refused."""
        try:
            self._carry(early)
        except Refused as refusal:
            self._client.visit.decision = "refused"
            self._client.visit.reason = str(refusal)
            with suppress(OSError):
                self._client.sock.sendall(ALERT)
            raise
        except OSError:
            if not self._client.visit.reason:
                raise  # else what led to it is known

    def _carry(self, early: bytes) -> None:
        self._from_client(early)
        client, server = self._client.sock, self._server
        with selectors.DefaultSelector() as selector:
            selector.register(client, selectors.EVENT_READ)
            selector.register(server, selectors.EVENT_READ)
            while selector.get_map():
                for key, _ in self._ready(selector):
                    source = key.fileobj
                    assert isinstance(source, socket.socket)
                    if data := source.recv(CHUNK):
                        (self._from_client if source is client else self._from_server)(data)
                    else:
                        if (
                            source is server
                            and self._guard.hellos
                            and not self._answered
                            and not self._client.left()
                        ):
                            self._client.visit.reason = (
                                "the server closed the connection in place of a TLS answer"
                            )
                        selector.unregister(source)
                        with suppress(OSError):  # the other end may be gone, too
                            (server if source is client else client).shutdown(socket.SHUT_WR)

    def _ready(self, selector: selectors.BaseSelector) -> list[tuple[selectors.SelectorKey, int]]:
        """What can be read. Raises Refused when nothing comes for too long."""
        if not self._guard.is_waiting:
            self._deadline = None
        elif self._deadline is None:
            self._deadline = time.monotonic() + _HELLO_TIMEOUT_S
        left = IDLE_TIMEOUT_S if self._deadline is None else self._deadline - time.monotonic()
        ready = selector.select(left) if left > 0 else []
        if not ready:
            raise Refused(
                "idle for too long" if self._deadline is None else "the TLS hello did not come in time"
            )
        return ready

    def _from_client(self, data: bytes) -> None:
        self._client.up(data)
        if passed := self._guard.feed(data):
            self._server.sendall(passed)

    def _from_server(self, data: bytes) -> None:
        self._client.down(data)
        if self._guard.hellos and not self._answered:
            self._answered = True
            self._client.visit.reason = _tls_fault(data)
        self._client.sock.sendall(data)


def _tls_fault(first: bytes) -> str:
    """What is wrong with the first bytes of a server's answer to a hello; empty when nothing is."""
    if first[0] not in _TLS_RECORDS:
        return "the server does not speak TLS"
    if first[0] == _ALERT_RECORD and len(first) >= _ALERT_SIZE:
        return f"the server refused the TLS connection (alert {first[6]})"
    return ""
