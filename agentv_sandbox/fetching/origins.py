"""Where files of packages may come from: public addresses, and the indexes that the operator configured.

Lock files and index pages name addresses, and both come from others. Without this, one could have any file of this
machine read, or any server behind its firewall asked.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies

from agentv_sandbox.base.errors import BuildError
from agentv_sandbox.fetching.pipconf import LOCAL

_PRIVATE = [
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "224.0.0.0/4",
        "::/127",
        "fc00::/7",
        "fe80::/10",
        "ff00::/8",
    )
]
HINT = "Files come from public addresses, or from an index or folder that pip, npm or apt of this machine is set to."


class Origins:
    """The operator's own indexes; everything else must be public."""

    def __init__(self, indexes: Iterable[str] = (), *, resolve: bool = True) -> None:
        """``indexes`` are URLs or paths. Without ``resolve`` names are not looked up, as behind a proxy."""
        self._origins: set[tuple[str, int]] = set()
        self._folders: set[Path] = set()
        self._resolve = resolve and not getproxies()
        self._judged: dict[str, str] = {}
        for index in indexes:
            self._add(index)

    def _add(self, index: str) -> None:
        parts = urlsplit(index)
        if parts.scheme in ("http", "https"):
            self._origins.add(_origin(index))
        elif parts.scheme in ("", "file") and parts.path:
            folder = Path(unquote(parts.path)).resolve()
            # An index of PEP 503 keeps its pages in `simple` and its files beside it.
            self._folders.add(folder.parent if folder.name == "simple" else folder)

    def refusal(self, url: str) -> str:
        """Why nothing may be read from ``url``; empty when it may."""
        parts = urlsplit(url)
        if parts.scheme == "file":
            path = Path(unquote(parts.path)).resolve()
            inside = parts.netloc in ("", "localhost") and any(map(path.is_relative_to, self._folders))
            return "" if inside else "not in a folder of an index of this machine"
        if url.startswith(LOCAL):
            return ""  # found by name in the operator's own folders
        if parts.scheme not in ("http", "https"):
            return "not an address of a package index"
        host, port = _origin(url)
        if (host, port) in self._origins:
            return ""
        if host not in self._judged:
            self._judged[host] = self._host_refusal(host)
        return self._judged[host]

    def check(self, url: str) -> None:
        """Raises BuildError for an address that nothing may be read from."""
        if why := self.refusal(url):
            raise BuildError(f"{url}: {why}", hint=HINT)

    def open(self, url: str, *, limit: int) -> IO[bytes]:
        """The regular file of a ``file:`` address, of at most ``limit`` bytes. Raises BuildError, OSError."""
        self.check(url)
        return open_regular(Path(unquote(urlsplit(url).path)).resolve(), limit=limit)

    def _host_refusal(self, host: str) -> str:
        why = "neither a public address nor an index of this machine"
        try:
            return why if _private(ipaddress.ip_address(host.partition("%")[0])) else ""
        except ValueError:
            pass  # a name
        if self._is_sibling(host):
            return ""
        if "." not in host.strip(".") or host.rstrip(".").endswith((".localhost", ".local", ".internal")):
            return why
        if not self._resolve:
            return ""
        try:
            rows = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            return ""  # connecting says what is wrong
        addresses = [ipaddress.ip_address(str(row[4][0]).partition("%")[0]) for row in rows]
        return why if any(map(_private, addresses)) else ""

    def _is_sibling(self, host: str) -> bool:
        """``files.example.com`` beside the index ``pypi.example.com``: organisations keep the two apart."""
        parents = {name.partition(".")[2] for name, _ in self._origins}
        return any("." in parent and host.endswith(f".{parent}") for parent in parents)


def open_regular(path: Path, *, limit: int) -> IO[bytes]:
    """A regular file of at most ``limit`` bytes; nothing else is waited for. Raises BuildError, OSError."""
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    info = os.fstat(file.fileno())
    why = "" if stat.S_ISREG(info.st_mode) else "not a regular file"
    if not why and info.st_size > limit:
        why = f"more than the expected {limit} bytes"
    if why:
        file.close()
        raise BuildError(f"{path}: {why}")
    return file


def _origin(url: str) -> tuple[str, int]:
    """(host, port) of a web address; a port that is not a number is one that no index has."""
    parts = urlsplit(url)
    try:
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        port = -1
    return (parts.hostname or "").lower(), port


def _private(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address) and (address.ipv4_mapped or address.sixtofour):
        return True  # nobody publishes packages there
    return any(address in network for network in _PRIVATE if network.version == address.version)


def configured_indexes(environ: Mapping[str, str]) -> list[str]:
    """Indexes that uv's and npm's own settings name, beside those of pip and apt."""
    names = ("UV_DEFAULT_INDEX", "UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS")
    words = [word for name in names for word in environ.get(name, "").replace(",", " ").split()]
    indexes = [word.rpartition("=")[2] if "=" in word.partition("://")[0] else word for word in words]
    indexes.append(environ.get("NPM_CONFIG_REGISTRY") or environ.get("npm_config_registry") or "")
    return [url for url in indexes if url]
