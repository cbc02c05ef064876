"""What one container used of its network: budgets, open connections, and a record of every request."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress
from dataclasses import field
from time import monotonic_ns
from typing import Literal

from agentv_sandbox.base.dataclass import dataclass
from agentv_sandbox.base.logs import safe_text
from agentv_sandbox.egress.endpoint import Endpoint, Refused


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Bounds of one container's traffic."""

    total_bytes: int = 256 << 20
    """Both directions together."""
    requests: int = 10_000
    """Refused ones count."""
    connections: int = 64
    """At the same time; more wait."""


@dataclass(kw_only=True)
class Visit:
    """One request of a container, as it goes into the log."""

    time: str
    began_ns: int = field(default_factory=monotonic_ns)
    method: str = ""
    endpoint: Endpoint | None = None
    route: str = ""
    model: str = ""
    """That was asked, where the model gateway admitted the request."""
    gateway: bool = False
    """Whether the model gateway was asked."""
    replayed: bool = False
    """Whether the answer is from a recording."""
    decision: Literal["allowed", "refused"] = "refused"
    reason: str = ""
    status: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    duration_s: float = 0.0

    def to_json(self) -> dict[str, object]:
        """A row of the log; what the container chose is escaped."""
        return {
            "time": self.time,
            "method": safe_text(self.method, limit=20),
            "endpoint": str(self.endpoint or ""),
            "route": safe_text(self.route, limit=260),
            **({"gateway": True} if self.gateway else {}),
            **({"replayed": True} if self.replayed else {}),
            **({"model": safe_text(self.model, limit=200)} if self.model else {}),
            "decision": self.decision,
            "reason": safe_text(self.reason, limit=300),
            "status": self.status,
            "bytes_up": self.bytes_up,
            "bytes_down": self.bytes_down,
            "duration_s": round(self.duration_s, 3),
        }


class Ledger:
    """Thread-safe."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._lock = threading.Lock()
        self._requests = 0
        self._bytes = 0
        self._closed = False
        self._was_cut = False
        self._open: set[socket.socket] = set()
        self._finishing: set[socket.socket] = set()
        """Servers of models: what they answer costs money, whether anybody reads it or not."""
        self.visits: list[Visit] = []

    def note(self, visit: Visit) -> None:
        with self._lock:
            if len(self.visits) <= self._budget.requests:
                self.visits.append(visit)

    def admit(self) -> None:
        """Count one request. Raises Refused when there were enough."""
        with self._lock:
            self._requests += 1
            if self._requests > self._budget.requests:
                raise Refused(f"more than {self._budget.requests} requests in one container")

    def spend(self, size: int) -> None:
        """Count bytes before they are passed on. Raises Refused when the budget is spent."""
        with self._lock:
            self._bytes += size
            if self._bytes > self._budget.total_bytes:
                raise Refused(f"more than {self._budget.total_bytes} bytes in one container")

    def hold(self, sock: socket.socket, *, finishes: bool = False) -> None:
        """``finishes``: it stays open for a while when the container is gone. Raises Refused when it is."""
        with self._lock:
            (self._finishing if finishes else self._open).add(sock)
            if self._closed:
                raise Refused("the container is gone")

    def release(self, sock: socket.socket) -> None:
        with self._lock:
            self._open.discard(sock)
            self._finishing.discard(sock)

    @property
    def finishing(self) -> bool:
        """Whether a server of a model is still asked."""
        with self._lock:
            return bool(self._finishing)

    @property
    def was_cut(self) -> bool:
        """Whether calls of models were ended by ``cut``."""
        with self._lock:
            return self._was_cut

    def close(self) -> None:
        """End all connections but those to servers of models."""
        with self._lock:
            self._closed = True
            _shut(self._open)

    def cut(self) -> None:
        """End those, too."""
        with self._lock:
            self._was_cut = True
            _shut(self._finishing)

    def jsonl(self) -> str:
        """The log, in the order in which requests began; they are noted when they end."""
        with self._lock:
            visits = sorted(self.visits, key=lambda visit: visit.began_ns)
        return "".join(json.dumps(visit.to_json()) + "\n" for visit in visits)


def _shut(sockets: set[socket.socket]) -> None:
    for sock in sockets:
        with suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)
