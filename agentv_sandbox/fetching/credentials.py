"""Who we are to mirrors and indexes: user info in URLs, netrc, apt's auth.conf. Stays on the host."""

from __future__ import annotations

import base64
import netrc
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

APT_AUTH = (Path("/etc/apt/auth.conf"), Path("/etc/apt/auth.conf.d"))


def without_credentials(url: str) -> str:
    """The URL without user info, fit for logs, lock files and images."""
    parts = urlsplit(url)
    if "@" not in parts.netloc:
        return url
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


class Credentials:
    """Request headers by host. A credential is only ever sent to the host that it was given for."""

    def __init__(self, urls: Iterable[str] = (), *, tokens: dict[str, str] | None = None) -> None:
        self._basic: dict[str, str] = {}
        self._bearer = dict(tokens or {})
        for host, user, password in _known():
            self._basic[host] = _encoded(user, password)
        for url in urls:
            parts = urlsplit(url)
            if parts.username is not None:
                key = parts.netloc.rpartition("@")[2]
                self._basic[key] = _encoded(unquote(parts.username), unquote(parts.password or ""))

    def headers(self, url: str) -> dict[str, str]:
        parts = urlsplit(url)
        host = parts.netloc.rpartition("@")[2]
        if parts.username is not None:
            own = _encoded(unquote(parts.username), unquote(parts.password or ""))
            return {"Authorization": f"Basic {own}"}
        if host in self._bearer:
            return {"Authorization": f"Bearer {self._bearer[host]}"}
        for key in (host, parts.hostname or ""):
            if key in self._basic:
                return {"Authorization": f"Basic {self._basic[key]}"}
        return {}


def _encoded(user: str, password: str) -> str:
    return base64.b64encode(f"{user}:{password}".encode()).decode()


def _known() -> Iterable[tuple[str, str, str]]:
    """(host, user, password) of the user's netrc and of apt's files, which have the same form."""
    files = [APT_AUTH[0], *sorted(APT_AUTH[1].glob("*.conf")), Path.home() / ".netrc"]
    for path in files:
        with suppress(OSError, netrc.NetrcParseError):
            if path.is_file():
                for host, (user, _account, password) in netrc.netrc(str(path)).hosts.items():
                    yield host.partition("/")[0], user, password or ""
