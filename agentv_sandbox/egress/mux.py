"""Many connections over one stream of bytes. One file for both ends: imported on the host, and run as a script in a
relay's container, where it offers a UNIX socket (``mux.py PATH``) and speaks on its standard input and output.

A frame is a connection's number, a kind, and a length or an amount. Each end may have WINDOW bytes of a connection
under way until the other says that they were taken, so one that nobody reads holds up no other, and memory is bounded.
Standard library only.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import sys
from collections.abc import Callable
from contextlib import suppress

HEAD = struct.Struct(">IBI")
READY, OPEN, DATA, END, CREDIT = range(5)
WINDOW = 1 << 17
PIECE = 1 << 15
MOST_CONNECTIONS = 64
_MOST_OUT = 1 << 20
"""Of the stream, beyond which nothing more is read from connections."""


class Broken(Exception):
    """The other end does not keep to the form."""


class Link:
    """One connection at this end."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.out = bytearray()
        """For it, from the other end."""
        self.credit = WINDOW
        """Bytes that may be sent to the other end."""
        self.has_ended = False
        """It says nothing more."""
        self.ends = False
        """The other end says nothing more."""
        self.is_deaf = False
        """It takes nothing more."""


class Mux:
    """One end. ``receive`` gives bytes at hand (None: the stream has ended), ``send`` takes bytes and says how many."""

    def __init__(
        self,
        stream: tuple[int, int],
        receive: Callable[[], bytes | None],
        send: Callable[[bytes], int],
        *,
        on_open: Callable[[], socket.socket | None] = lambda: None,
        listener: socket.socket | None = None,
    ) -> None:
        """``stream``: descriptors to wait on for reading and writing. ``on_open``: this end of a connection that the
        other one opens; ``listener``: where connections are opened here."""
        self._reads, self._writes = stream
        self._receive, self._send = receive, send
        self._on_open, self._listener = on_open, listener
        self._links: dict[int, Link] = {}
        self._number = 0
        self._in = bytearray()
        self._out = bytearray()
        self.is_ready = False
        """Whether the other end has said that it is."""

    def frame(self, number: int, kind: int, data: bytes = b"", amount: int = 0) -> None:
        self._out += HEAD.pack(number, kind, amount or len(data)) + data

    def step(self, timeout_s: float) -> bool:
        """Carry what can be carried; whether the stream goes on. Raises Broken."""
        poll, wanted = select.poll(), self._wanted()
        for descriptor, (events, _) in wanted.items():
            poll.register(descriptor, events)
        goes_on = True
        for descriptor, events in poll.poll(timeout_s * 1000):
            link = wanted[descriptor][1]
            if link is not None:
                self._serve(link, events)
            elif self._listener is not None and descriptor == self._listener.fileno():
                self._accept()
            else:
                goes_on = self._carry(descriptor, events) and goes_on
        return goes_on

    def close(self) -> None:
        for link in self._links.values():
            link.sock.close()
        self._links.clear()

    def _wanted(self) -> dict[int, tuple[int, tuple[int, Link] | None]]:
        wanted: dict[int, tuple[int, tuple[int, Link] | None]] = {self._reads: (select.POLLIN, None)}
        if self._out:
            events = select.POLLOUT | (select.POLLIN if self._writes == self._reads else 0)
            wanted[self._writes] = (events, None)
        if self._listener is not None and len(self._links) < MOST_CONNECTIONS:
            wanted[self._listener.fileno()] = (select.POLLIN, None)
        for number, link in self._links.items():
            reads = not link.has_ended and link.credit > 0 and len(self._out) < _MOST_OUT
            events = (select.POLLIN if reads else 0) | (select.POLLOUT if link.out else 0)
            if events:
                wanted[link.sock.fileno()] = (events, (number, link))
        return wanted

    def _carry(self, descriptor: int, events: int) -> bool:
        if descriptor == self._writes and events & select.POLLOUT and self._out:
            try:
                del self._out[: self._send(bytes(self._out[: 4 * PIECE]))]
            except BlockingIOError:
                pass
            except OSError:
                return False
        if descriptor == self._reads and events & ~select.POLLOUT:
            data = self._receive()
            if data is None:
                return False
            self._in += data
            self._take()
        return True

    def _take(self) -> None:
        at = 0
        while len(self._in) - at >= HEAD.size:
            number, kind, size = HEAD.unpack_from(self._in, at)
            if kind != DATA:
                at += HEAD.size
                self._take_word(number, kind, size)
                continue
            if size > PIECE:
                raise Broken("a piece is too large")
            if len(self._in) - at < HEAD.size + size:
                break
            data = self._in[at + HEAD.size : at + HEAD.size + size]
            at += HEAD.size + size
            self._take_data(number, data)
        del self._in[:at]

    def _take_word(self, number: int, kind: int, amount: int) -> None:
        link = self._links.get(number)
        if kind == READY:
            self.is_ready = True
        elif kind == OPEN and link is None and len(self._links) < 2 * MOST_CONNECTIONS:
            sock = self._on_open()
            if sock is None:
                self.frame(number, END)
            else:
                self._add(number, sock)
        elif kind == CREDIT:
            if link is not None:
                link.credit += amount
                if link.credit > WINDOW:
                    raise Broken("more was taken than sent")
        elif kind == END:
            if link is not None:
                link.ends = True
                self._settle(number, link)
        else:
            raise Broken("a frame of no known kind")

    def _take_data(self, number: int, data: bytearray) -> None:
        link = self._links.get(number)
        if link is None:
            return  # it was on its way when the connection ended
        if link.is_deaf:
            self.frame(number, CREDIT, amount=len(data))
            return
        link.out += data
        if len(link.out) > WINDOW:
            raise Broken("more was sent than may be under way")

    def _add(self, number: int, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._links[number] = Link(sock)

    def _accept(self) -> None:
        assert self._listener is not None
        try:
            sock, _ = self._listener.accept()
        except OSError:
            return
        self._number += 1
        self._add(self._number, sock)
        self.frame(self._number, OPEN)

    def _serve(self, which: tuple[int, Link], events: int) -> None:
        number, link = which
        if link.out and events & ~select.POLLIN:
            try:
                sent = link.sock.send(link.out)
            except BlockingIOError:
                sent = 0
            except OSError:
                link.is_deaf, sent = True, len(link.out)
            del link.out[:sent]
            if sent:
                self.frame(number, CREDIT, amount=sent)
        if not link.has_ended and link.credit > 0 and events & ~select.POLLOUT:
            try:
                data: bytes | None = link.sock.recv(min(link.credit, PIECE))
            except BlockingIOError:
                data = None
            except OSError:
                data = b""
            if data:
                link.credit -= len(data)
                self.frame(number, DATA, data)
            elif data is not None:
                link.has_ended = True
                self.frame(number, END)
        self._settle(number, link)

    def _settle(self, number: int, link: Link) -> None:
        """Pass on the end of what the other end says; forget the connection once both have ended."""
        if link.ends and not link.out and not link.is_deaf:
            link.is_deaf = True
            with suppress(OSError):
                link.sock.shutdown(socket.SHUT_WR)
        if link.ends and link.has_ended and not link.out:
            link.sock.close()
            self._links.pop(number, None)


def main(path: str) -> None:
    """The end in the relay's container."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    os.chmod(path, 0o666)  # noqa: S103, PTH101 - the agent's user is nobody that this container knows
    listener.listen(MOST_CONNECTIONS)
    listener.setblocking(False)
    os.set_blocking(0, False)
    os.set_blocking(1, False)

    def receive() -> bytes | None:
        try:
            return os.read(0, 4 * PIECE) or None
        except BlockingIOError:
            return b""

    mux = Mux((0, 1), receive, lambda data: os.write(1, data), listener=listener)
    mux.frame(0, READY)
    while mux.step(60):
        pass


if __name__ == "__main__":
    main(sys.argv[1])
