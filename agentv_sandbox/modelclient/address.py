"""Which server a request goes to, as the HTTP client reads its address."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentv_sandbox.base.lazy import lazily

if TYPE_CHECKING:
    import httpx
else:
    httpx = lazily("httpx")


def server_of(url: str) -> str:
    """``host`` or ``host:port`` of an https address, ``http://host…`` of another one; an address that nobody could be
    asked at as it is."""
    try:
        address = httpx.URL(url)
    except (httpx.InvalidURL, TypeError, ValueError):
        return url
    server = address.netloc.decode("ascii", "replace")
    if not server:
        return url
    return server if address.scheme == "https" else f"{address.scheme}://{server}"
