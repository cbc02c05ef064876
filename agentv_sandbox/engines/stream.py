"""Reads what a container prints, bounded in memory, while feeding its standard input.

An attached stream that nobody reads makes the engine's kill and remove hang, so reading goes on, discarding,
for as long as the container lives.
"""

from __future__ import annotations

import io
import selectors
import time
from collections.abc import Callable, Mapping
from typing import Literal, Protocol

from agentv_sandbox import masking
from agentv_sandbox.base.logs import safe_text
from agentv_sandbox.models.container import ExecResult, Outcome, Stdin

_LOG_CHARS = 4000
_CHUNK = 1 << 18
_INPUT = 1 << 20
_POLL_S = 0.2


Sink = Callable[[int, bytes], None]
"""Gets 1 for standard output or 2 for standard error, and bytes."""


class Channel(Protocol):
    """A container's standard streams, as an engine gives them. Nothing of it blocks."""

    reads: Mapping[int, Callable[[bytes, Sink], None]]
    """Descriptors that output comes from, with what takes their bytes apart."""
    writes: int | None
    """The descriptor that input goes to, which may be one of ``reads``."""

    def receive(self, descriptor: int) -> bytes:
        """What is at hand, empty at the end. Raises BlockingIOError, OSError."""
        ...

    def send(self, data: bytes | memoryview) -> int:
        """How many bytes were taken. Raises BlockingIOError, OSError."""
        ...

    def end_input(self) -> None: ...

    def close(self) -> None: ...


class StdioConversation:
    """Standard input and output of a container that goes on until it is removed."""

    def __init__(self, container: str, channel: Channel) -> None:
        self.container = container
        self._channel = channel
        self._output, self._feed = next(iter(channel.reads.items()))
        if channel.writes is None:
            raise ValueError("a container that is talked to has an input")
        self.descriptors = (self._output, channel.writes)
        """What to wait on for reading and for writing."""

    def receive(self) -> bytes | None:
        """What it printed, as far as it is there; None when it has ended."""
        try:
            data = self._channel.receive(self._output)
        except BlockingIOError:
            return b""
        except OSError:
            return None
        printed = bytearray()
        self._feed(data, lambda stream, part: printed.extend(part) if stream == 1 else None)
        return bytes(printed) if data else None

    def send(self, data: bytes) -> int:
        """How much of ``data`` it was given. Raises OSError."""
        return self._channel.send(data)

    def end_input(self) -> None:
        """Say that nothing more comes; its output goes on."""
        self._channel.end_input()

    def close(self) -> None:
        self._channel.close()


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
        """What was kept; shorter than ``total`` when the middle was cut, with stars for a secret that was cut."""
        if self.total > 2 * self._half:
            head, tail = bytes(self._head), bytes(self._tail[-self._half :])
            return masking.head_of(head) + masking.tail_of(tail)
        return bytes(self._head + self._tail)


class Printed:
    """What a container prints: both streams, kept within a bound, and the result that they are part of."""

    def __init__(
        self,
        most_bytes: int,
        on_output: Callable[[bytes], None] | None = None,
        on_errors: Callable[[bytes], None] | None = None,
    ) -> None:
        """``on_output`` and ``on_errors`` receive the streams as they arrive."""
        self._out, self._err = BoundedCapture(most_bytes), BoundedCapture(most_bytes)
        self._on_output, self._on_errors = on_output, on_errors

    def sink(self, stream: int, data: bytes) -> None:
        kept, listener = (self._err, self._on_errors) if stream == 2 else (self._out, self._on_output)
        kept.write(data)
        if listener is not None:
            listener(data)

    def result(self, outcome: Outcome, exit_code: int, *, duration_s: float, container: str) -> ExecResult:
        return ExecResult(
            outcome=outcome,
            exit_code=exit_code,
            stdout=self._out.value(),
            stderr=self._err.value(),
            stdout_total=self._out.total,
            stderr_total=self._err.total,
            duration_s=duration_s,
            container=container,
        )


Ended = Literal["eof", "timeout", "flood", "cancelled", "lost"]


def pump(
    channel: Channel,
    *,
    stdin: Stdin,
    deadline: Callable[[], float],
    flood_bytes: int,
    sink: Sink,
    cancelled: Callable[[], bool],
) -> Ended:
    """Write ``stdin``, then end-of-input; read until all output ends or a bound is reached.

    ``deadline`` says ``time.monotonic`` seconds; it may move.
    """
    with selectors.DefaultSelector() as selector:
        transfer = _Transfer(channel, selector, stdin, sink)
        while transfer.goes_on:
            if cancelled():
                return "cancelled"
            left = deadline() - time.monotonic()
            if left <= 0:
                return "timeout"
            for key, events in selector.select(min(left, _POLL_S)):
                if events & selectors.EVENT_WRITE:
                    transfer.write(key.fd)
                if events & selectors.EVENT_READ and not transfer.read(key.fd):
                    return "lost"
            if transfer.total > flood_bytes:
                return "flood"
    return "eof"


class _Transfer:
    """What is under way on a channel: input not yet taken, outputs not yet at their end."""

    def __init__(self, channel: Channel, selector: selectors.BaseSelector, stdin: Stdin, sink: Sink) -> None:
        self._channel, self._selector, self._sink = channel, selector, sink
        self._source = io.BytesIO(stdin) if isinstance(stdin, bytes) else stdin
        self._source.seek(0)
        self._pending = memoryview(self._source.read(_INPUT))
        self._open = set(channel.reads)
        self.total = 0
        """Bytes that were read."""
        for descriptor in self._open:
            self._watch(descriptor, selectors.EVENT_READ)
        if channel.writes is not None:
            self._watch(channel.writes, selectors.EVENT_WRITE)

    @property
    def goes_on(self) -> bool:
        return bool(self._open)

    def _watch(self, descriptor: int, events: int) -> None:
        known = self._selector.get_map().get(descriptor)
        if known is None:
            self._selector.register(descriptor, events)
        else:
            self._selector.modify(descriptor, known.events | events)

    def write(self, descriptor: int) -> None:
        """Send what is pending; after the last byte the input ends."""
        self._pending = _send(self._channel, self._pending) or memoryview(self._source.read(_INPUT))
        if self._pending:
            return
        if descriptor in self._open:
            self._selector.modify(descriptor, selectors.EVENT_READ)
        else:
            self._selector.unregister(descriptor)
        self._channel.end_input()

    def read(self, descriptor: int) -> bool:
        """Take what is there; False where the stream was lost."""
        try:
            data = self._channel.receive(descriptor)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not data:
            self._open.discard(descriptor)
            self._selector.unregister(descriptor)
            return True
        self.total += len(data)
        self._channel.reads[descriptor](data, self._sink)
        return True


def _send(channel: Channel, pending: memoryview) -> memoryview:
    try:
        return pending[channel.send(pending[:_CHUNK]) :] if pending else pending
    except BlockingIOError:
        return pending
    except OSError:
        # The program closed its input or ended: what it printed still counts.
        return pending[len(pending) :]


class Tail:
    """The end of a build's log, for its error."""

    def __init__(self) -> None:
        self._text = ""

    def add(self, text: str) -> None:
        self._text = (self._text + text)[-2 * _LOG_CHARS :]

    def __str__(self) -> str:
        return masking.last(safe_text(self._text), _LOG_CHARS)
