"""What a client says at the start of an encrypted connection: the server that it means must be the one it asked for.

Many servers stand behind one address and are chosen by a name in the first message of TLS. A tunnel to an allowed host
could reach another one there, so that name is read, and what hides it is refused. Nothing is decrypted.
"""

from __future__ import annotations

from agentv_sandbox.egress.endpoint import LOCAL, Endpoint, Refused

ALERT = b"\x15\x03\x03\x00\x02\x02\x31"
"""Tells a client of TLS that it is denied access."""
_HANDSHAKE, _CHANGE_CIPHER = 0x16, 0x14
_CLIENT_HELLO = 1
_SERVER_NAME = 0
_ENCRYPTED = frozenset({0xFE0D, 0xFD00, 0xFFCE})
"""Encrypted Client Hello, its outer extensions, and its predecessor."""
_MAX_RECORD = 1 << 14
_MAX_HELLO = 1 << 15
_MOST_HELLOS = 2
"""A server may ask for a second one, which must name the same server."""


class HelloGuard:
    """Watches what a client sends until it has said which server it means. Feed it all; it gives back what may pass.
    Memory and work are bounded by ``_MAX_HELLO`` and linear in what comes."""

    def __init__(self, endpoint: Endpoint, *, needs_tls: bool) -> None:
        """``needs_tls``: anything else is refused."""
        self._endpoint = endpoint
        self._needs_tls = needs_tls
        self._buffer = bytearray()
        """Bytes that have not passed yet."""
        self._next = 0
        """Where the next record in it begins."""
        self._message = bytearray()
        """What its records hold of the handshake's message."""
        self.hellos = 0
        self.done = False
        """Whether everything passes from here on."""

    @property
    def is_waiting(self) -> bool:
        """Whether more must come before anything passes."""
        return not self.done and (bool(self._buffer) or (self._needs_tls and self.hellos == 0))

    def feed(self, data: bytes) -> bytes:
        """What passes. Raises Refused."""
        if self.done:
            return data
        self._buffer += data
        passed = bytearray()
        while not self.done and (size := self._passable()):
            passed += self._buffer[:size]
            del self._buffer[:size]
            self._next = 0
        if self.done:
            passed += self._buffer
            self._buffer.clear()
        return bytes(passed)

    def _passable(self) -> int:
        """How many bytes of the buffer may pass; 0: more must come, or everything passes."""
        while (size := self._record_size()) is not None:
            kind = self._buffer[self._next]
            body = self._buffer[self._next + 5 : self._next + size]
            self._next += size
            if kind == _CHANGE_CIPHER:
                return self._next
            self._message += body
            if self._hello_is_whole():
                server = server_name(bytes(self._message[4:]))
                _check(server, self._endpoint)
                self._message.clear()
                self.hellos += 1
                self.done = self.hellos == _MOST_HELLOS
                return self._next
            if self.done:
                break
        return 0

    def _record_size(self) -> int | None:
        """Of the record that comes next, with its head; None where it is not whole, or where everything passes."""
        head = self._buffer[self._next : self._next + 5]
        if not head or self.done:
            return None
        if not self._is_expected(head):
            if self._message or (self.hellos == 0 and self._needs_tls):
                raise Refused(f"what is sent to {self._endpoint} is not TLS, or not as TLS begins")
            self.done = True
            return None
        if len(head) < 5:
            return None
        size = int.from_bytes(head[3:5], "big")
        if not 0 < size <= _MAX_RECORD or len(self._message) + size > _MAX_HELLO:
            raise Refused(f"the TLS hello to {self._endpoint} is malformed or too large")
        return 5 + size if len(self._buffer) >= self._next + 5 + size else None

    def _is_expected(self, head: bytearray) -> bool:
        kinds = {_HANDSHAKE}
        if self.hellos and not self._message:
            kinds.add(_CHANGE_CIPHER)
        return head[0] in kinds and (len(head) < 2 or head[1] == 3) and (len(head) < 3 or head[2] <= 4)

    def _hello_is_whole(self) -> bool:
        message = self._message
        if message[0] != _CLIENT_HELLO:
            if self.hellos == 0:
                raise Refused(f"TLS to {self._endpoint} does not begin with a hello")
            self.done = True  # the handshake goes on
            return False
        if len(message) < 4:
            return False
        size = 4 + int.from_bytes(message[1:4], "big")
        if size > _MAX_HELLO or len(message) > size:
            raise Refused(f"the TLS hello to {self._endpoint} is malformed or too large")
        return len(message) == size


def server_name(hello: bytes) -> str | None:
    """The server that a ClientHello (without its head of four bytes) names. Raises Refused for one that is malformed
    or hides it."""
    try:
        return _server_name(_Reader(hello))
    except (IndexError, UnicodeDecodeError):
        raise Refused("the TLS hello is malformed") from None


def _server_name(hello: _Reader) -> str | None:
    hello.take(2 + 32)
    hello.block(1)
    hello.block(2)
    hello.block(1)
    if hello.is_empty:
        return None
    extensions = _Reader(hello.block(2))
    hello.end()
    seen: set[int] = set()
    name = None
    while not extensions.is_empty:
        kind, data = int.from_bytes(extensions.take(2), "big"), extensions.block(2)
        if kind in seen:
            raise IndexError
        seen.add(kind)
        if kind in _ENCRYPTED:
            raise Refused("the TLS hello is encrypted (ECH), so that nobody can see which server is meant")
        if kind == _SERVER_NAME:
            outer = _Reader(data)
            names = _Reader(outer.block(2))
            outer.end()
            if names.take(1) != b"\x00":
                raise IndexError
            name = names.block(2).decode("ascii")
            names.end()
    return name


def _check(name: str | None, endpoint: Endpoint) -> None:
    """Raise Refused unless ``name`` is the host of ``endpoint``. A host that is an address has no name to say."""
    if endpoint.address is not None:
        named = (None, "localhost") if endpoint.host == LOCAL else (None,)
        fits = name in named
    else:
        fits = name is not None and name.lower() == endpoint.host
    if not fits:
        said = f"names the server {name!r}" if name is not None else "names no server (SNI)"
        raise Refused(f"the TLS hello to {endpoint} {said}")


class _Reader:
    """Fields of a message in their order. Raises IndexError where it ends too soon."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def is_empty(self) -> bool:
        return self._at == len(self._data)

    def take(self, size: int) -> bytes:
        if self._at + size > len(self._data):
            raise IndexError
        self._at += size
        return self._data[self._at - size : self._at]

    def block(self, length_bytes: int) -> bytes:
        """Bytes that stand behind their own length."""
        return self.take(int.from_bytes(self.take(length_bytes), "big"))

    def end(self) -> None:
        if not self.is_empty:
            raise IndexError
