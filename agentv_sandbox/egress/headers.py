"""What heads of requests and answers say, and which of it goes no further."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agentv_sandbox import masking
from agentv_sandbox.base.lazy import lazily
from agentv_sandbox.egress.endpoint import Endpoint, Refused
from agentv_sandbox.egress.mask import Mask
from agentv_sandbox.models_api.dialects import KEY_HEADERS
from agentv_sandbox.models_api.policy import ModelRequest

if TYPE_CHECKING:
    import h11
else:
    h11 = lazily("h11")

HOP_BY_HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"proxy-connection",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
        b"expect",
        b"host",
    }
)
IDENTITY = KEY_HEADERS | {b"cookie", b"accept-encoding", b"range"}
"""Not passed on where we add a credential: with one of its own a client would be somebody else there."""

READING = frozenset(
    {
        b"accept",
        b"accept-encoding",
        b"accept-language",
        b"cache-control",
        b"if-match",
        b"if-modified-since",
        b"if-none-match",
        b"if-range",
        b"if-unmodified-since",
        b"range",
        b"user-agent",
    }
)
"""What passes of the head of a request that only reads."""


def model_request(request: h11.Request, path: str) -> ModelRequest:
    """Without the body. What stands in several headers of one name is joined, as HTTP has it."""
    headers: dict[str, str] = {}
    for key, value in request.headers:
        name, text = key.decode("latin-1"), value.decode("latin-1")
        headers[name] = f"{headers[name]}, {text}" if name in headers else text
    before, _, query = path.partition("?")
    return ModelRequest(
        method=request.method.decode("ascii"), path=before, query=query, headers=headers, body=b""
    )


def reading_request(request: h11.Request, endpoint: Endpoint) -> h11.Request:
    """``request`` with what a reader needs to say. Raises Refused when it does more than read."""
    method = request.method.decode("ascii")
    if method not in ("GET", "HEAD"):
        raise Refused(f"{endpoint} may only be read, with GET or HEAD, not {masking.first(method, 20)}")
    lengths = [value for key, value in request.headers if key == b"content-length"]
    if any(int(length) for length in lengths) or any(
        key == b"transfer-encoding" for key, _ in request.headers
    ):
        raise Refused(f"{endpoint} may only be read; a request with a body does more")
    kept = [(key, value) for key, value in request.headers if key in READING]
    return h11.Request(
        method=request.method,
        target=request.target,
        headers=[(b"host", str(endpoint).encode()), *kept],
        http_version=request.http_version,
    )


def is_encoded(response: h11.Response) -> bool:
    """Whether a body is compressed, so that nobody can look for secrets in it."""
    codings = [value.strip().lower() for key, value in response.headers if key == b"content-encoding"]
    return any(coding not in (b"", b"identity") for coding in codings)


def checked_target(raw: bytes) -> str:
    """The target of a request line as text. Raises Refused."""
    try:
        text = raw.decode("ascii")
    except UnicodeDecodeError:
        raise Refused("the address is not ASCII") from None
    if not text.isprintable() or " " in text or "\\" in text:
        raise Refused("the address holds characters that none has")
    return text


def split_address(text: str) -> tuple[str, str]:
    """``authority/path?query`` -> (authority, ``/path?query``). A fragment has no place in a request: Refused."""
    if "#" in text:
        raise Refused("the address holds a fragment")
    end = next((i for i, char in enumerate(text) if char in "/?"), len(text))
    rest = text[end:]
    return text[:end], rest if rest.startswith("/") else "/" + rest


def named_in_connection(request: h11.Request) -> frozenset[bytes]:
    """Headers that a request declares to be of this connection alone."""
    values = [value for key, value in request.headers if key == b"connection"]
    return frozenset(part.strip().lower() for value in values for part in value.split(b","))


def named_headers(answer: h11.Response, mask: Mask) -> dict[str, str]:
    """The headers of an answer by their names; of several of one name the first."""
    named = [(key, mask.whole(value)) for key, value in reversed(list(answer.headers))]
    return {key.decode("latin-1"): value.decode("latin-1") for key, value in named}
