"""The one HTTP way out of this process: certificates, proxies, and connections that are kept.

Whoever asks a server from this machine, for an agent, a grader, a target or an image, trusts the same certificates and
goes by the same proxies of the environment. Clients of httpx are made with ``tls_context``; calls whose address is
chosen here and must not be looked up again go through ``KeptConnections``, on httpcore, which is httpx's own pool.
"""

from __future__ import annotations

import hashlib
import os
import socket
import ssl
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote, urlsplit

import certifi

from agentv_sandbox.base.dataclass import dataclass
from agentv_sandbox.base.lazy import lazily

if TYPE_CHECKING:
    from urllib import request as urllib_request

    import httpcore
    from httpcore import NetworkBackend, NetworkStream
else:
    httpcore = lazily("httpcore")
    urllib_request = lazily("urllib.request")
    NetworkBackend = NetworkStream = object  # so that importing this loads nothing

CONNECT_S = 15.0
PROXY_HINT = "HTTPS_PROXY, HTTP_PROXY or ALL_PROXY of the environment names the proxy"
LOCAL = ("localhost", "127.0.0.1", "::1")
"""Asked directly, whatever the environment says: no proxy leads to this machine."""
_KEEP_S = 4.0
"""How long a connection waits for its next request: servers close theirs after 5 s and more."""
_MOST_POOLS = 64
_MOST_KEPT = 64
"""Connections to one server."""


def tls_context(more: str = "") -> ssl.SSLContext:
    """What all connections trust: the system's certificates, or those of ``SSL_CERT_FILE`` and ``SSL_CERT_DIR``, the
    common ones, and those in the file ``more``. The same object for the same environment: reading them takes longer
    than a call."""
    return _context(os.environ.get("SSL_CERT_FILE", ""), os.environ.get("SSL_CERT_DIR", ""), more)


@lru_cache(maxsize=8)
def _context(_file: str, _folder: str, more: str) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.load_verify_locations(certifi.where())
    if more and Path(more).is_file():
        context.load_verify_locations(more)
    return context


def without_proxy() -> Mapping[str, None]:
    """The same for clients of httpx, as their ``mounts``."""
    return {f"all://{f'[{name}]' if ':' in name else name}": None for name in LOCAL}


def proxy_of(scheme: str, host: str, port: int) -> str:
    """Address of the proxy that the environment names for a server; empty where it names none."""
    if host in LOCAL:
        return ""
    proxies = urllib_request.getproxies()
    proxy = proxies.get(scheme) or proxies.get("all", "")
    if not proxy or urllib_request.proxy_bypass(f"[{host}]:{port}" if ":" in host else f"{host}:{port}"):
        return ""
    return proxy if "://" in proxy else f"http://{proxy}"


class Watch(Protocol):
    """What an exchange is held to while it lasts. Methods may raise OSError to end it."""

    def hold(self, sock: socket.socket) -> None:
        """``sock`` carries it; shutting it down from another thread ends the exchange."""
        ...

    def left_s(self) -> float:
        """Seconds for which the next bytes are waited for."""
        ...

    def came(self, size: int) -> None:
        """So many bytes have come."""
        ...


@dataclass(frozen=True, kw_only=True)
class ServerAddress:
    """A server, and the credential that it is asked with: a connection is kept for both together."""

    scheme: str
    host: str
    """Name or address, without brackets."""
    port: int
    credential: bytes = field(default=b"", repr=False)

    @property
    def key(self) -> tuple[str, str, int, bytes]:
        return self.scheme, self.host, self.port, hashlib.sha256(self.credential).digest()


@dataclass(frozen=True, kw_only=True)
class WebRequest:
    method: str
    target: str
    """Path and query, sent as they are."""
    headers: Mapping[str, str]
    body: bytes = field(repr=False)


class KeptConnections:
    """Connections to servers, kept for the next exchange. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pools: OrderedDict[tuple[object, ...], _Pool] = OrderedDict()

    @contextmanager
    def exchange(
        self, to: ServerAddress, addresses: Callable[[], Sequence[str]], request: WebRequest, watch: Watch
    ) -> Iterator[httpcore.Response]:
        """Ask ``to``; the body of what it answers is read within the block. ``addresses``: those that may be connected
        to; not asked where a proxy of the environment stands before the server. Raises OSError as sockets do."""
        pool = self._pool(to, proxy_of(to.scheme, to.host, to.port))
        with pool.in_use(), _as_sockets_do():
            response = pool.ask(addresses, request, watch)
            try:
                yield response
            finally:
                response.close()

    def _pool(self, to: ServerAddress, proxy: str) -> _Pool:
        trusted = tls_context() if to.scheme == "https" else None
        key = (to.key, proxy, id(trusted))
        with self._lock:
            pool = self._pools.get(key)
            if pool is None:
                pool = self._pools[key] = _Pool(to, proxy, trusted)
            self._pools.move_to_end(key)
            if len(self._pools) > _MOST_POOLS:
                self._pools.popitem(last=False)
        return pool


class _Pool:
    """The connections to one server with one credential."""

    def __init__(self, to: ServerAddress, proxy: str, trusted: ssl.SSLContext | None) -> None:
        self._to = to
        self._proxied = bool(proxy)
        self._last = ""
        """The address that was connected to last: a kept connection is to it."""
        self._lock = threading.Lock()
        self._running = 0
        self._used_at = 0.0
        self._rests = False
        """Whether a thread waits for the time at which its connections are of no more use."""
        self.connections = httpcore.ConnectionPool(
            ssl_context=trusted,
            proxy=_proxy(proxy, trusted) if proxy else None,
            max_connections=None,
            max_keepalive_connections=_MOST_KEPT,
            keepalive_expiry=_KEEP_S,
            network_backend=_Backend(),
        )

    @contextmanager
    def in_use(self) -> Iterator[None]:
        with self._lock:
            self._running += 1
        try:
            yield
        finally:
            with self._lock:
                self._running -= 1
                self._used_at = time.monotonic()
                if not self._rests:
                    self._rests = True
                    threading.Thread(target=self._close_when_idle, name="kept", daemon=True).start()

    def _close_when_idle(self) -> None:
        """A server may serve no one else as long as it is connected."""
        while True:
            with self._lock:
                idle_s = 0.0 if self._running else time.monotonic() - self._used_at
                if idle_s >= _KEEP_S:
                    self.connections.close()
                    self._rests = False
                    return
            time.sleep(_KEEP_S - idle_s)

    def ask(
        self, addresses: Callable[[], Sequence[str]], request: WebRequest, watch: Watch
    ) -> httpcore.Response:
        found = [self._to.host] if self._proxied else list(addresses())
        found.sort(key=lambda address: address != self._last)
        deadline = time.monotonic() + CONNECT_S
        error: Exception = OSError("no address")
        for address in found:
            try:
                response = self._ask_at(address, request, watch, max(deadline - time.monotonic(), 0.1))
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as failure:
                if isinstance(_behind(failure), ssl.SSLError):
                    raise
                error = failure
            else:
                self._last = address
                return response
        raise error

    def _ask_at(self, address: str, request: WebRequest, watch: Watch, connect_s: float) -> httpcore.Response:
        to = self._to
        asked = httpcore.Request(
            request.method,
            httpcore.URL(scheme=to.scheme, host=address, port=to.port, target=request.target),
            headers=[
                (name.encode("latin-1"), value.encode("latin-1")) for name, value in request.headers.items()
            ],
            content=request.body,
            extensions={"timeout": {"connect": connect_s}, "sni_hostname": to.host},
        )
        while True:
            _exchange.at_hand = at_hand = _Exchange(watch)
            try:
                return self.connections.handle_request(asked)
            except (httpcore.RemoteProtocolError, httpcore.ReadError, httpcore.WriteError):
                # A kept connection that its server had closed meanwhile is none of the caller's business.
                if at_hand.connected or at_hand.received:
                    raise


class KeptStream(NetworkStream):
    """A connection that reports to whichever exchange uses it."""

    def __init__(self, inner: NetworkStream) -> None:
        self._inner = inner

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        at_hand: _Exchange = _exchange.at_hand
        data = self._inner.read(max_bytes, at_hand.left_s(timeout))
        at_hand.received = at_hand.received or bool(data)
        at_hand.watch.came(len(data))
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        at_hand: _Exchange = _exchange.at_hand
        at_hand.watch.hold(self._inner.get_extra_info("socket"))
        self._inner.write(buffer, at_hand.left_s(timeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> NetworkStream:
        return KeptStream(self._inner.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> object:
        return self._inner.get_extra_info(info)


class _Backend(NetworkBackend):
    """Makes connections that report what happens on them."""

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> NetworkStream:
        _exchange.at_hand.connected = True
        return KeptStream(
            httpcore.SyncBackend().connect_tcp(host, port, timeout, local_address, socket_options)
        )


@dataclass
class _Exchange:
    """The exchange of a thread; all that its connection does happens in that thread."""

    watch: Watch
    connected: bool = False
    received: bool = False

    def left_s(self, timeout: float | None) -> float:
        left = self.watch.left_s()
        return left if timeout is None else min(left, timeout)


_exchange = threading.local()


def _proxy(address: str, trusted: ssl.SSLContext | None) -> httpcore.Proxy:
    """Raises OSError where it is of a kind that needs a package which is not there."""
    parts = urlsplit(address)
    if parts.scheme.startswith("socks") and find_spec("socksio") is None:
        raise OSError(
            f"the proxy {parts.scheme}://{parts.hostname} of the environment needs the package socksio"
        )
    login = (unquote(parts.username), unquote(parts.password or "")) if parts.username else None
    port = f":{parts.port}" if parts.port else ""
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    secured = (trusted or tls_context()) if parts.scheme == "https" else None
    return httpcore.Proxy(f"{parts.scheme}://{host}{port}", auth=login, ssl_context=secured)


@contextmanager
def _as_sockets_do() -> Iterator[None]:
    """What went wrong as an OSError that says it in a few words."""
    try:
        yield
    except httpcore.TimeoutException as error:
        raise TimeoutError(str(error) or "timed out") from error
    except httpcore.NetworkError as error:
        raise _behind(error) or OSError(str(error)) from error
    except httpcore.ProxyError as error:
        raise OSError(f"the proxy of the environment refused: {error}") from error
    except (httpcore.ProtocolError, httpcore.UnsupportedProtocol) as error:
        if "disconnected without" in str(error) or "peer closed" in str(error):
            raise OSError("the server closed the connection") from error
        raise OSError(f"the server's answer is not understood: {error}") from error


def _behind(error: BaseException) -> OSError | None:
    """What the socket itself said. The pool raises again "from None", which leaves only the context."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, OSError):
        seen = seen.__cause__ or seen.__context__
    return seen


KEPT = KeptConnections()
"""Of this process."""
