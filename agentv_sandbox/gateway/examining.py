"""What of a request is sent on: which API it speaks, whether its server and target have that, and what its headers and
its body may say."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from agentv_sandbox import masking
from agentv_sandbox.gateway.modelcall import Admitted
from agentv_sandbox.models_api.denial import Denial
from agentv_sandbox.models_api.dialects import DIALECTS, spoken_in
from agentv_sandbox.models_api.dialects.base import (
    Dialect,
    Operation,
    RequestCheck,
    names,
    only,
)
from agentv_sandbox.models_api.dialects.strict import read_object, write_object
from agentv_sandbox.models_api.policy import GatewayPolicy, ModelRequest
from agentv_sandbox.models_api.servers import Server

BODY_BYTES = 32 << 20
"""Of a request."""
ANY_SERVER = Server()
_PASSED_HEADERS = names("accept user-agent x-app idempotency-key").union(
    *(each.passed_headers for each in DIALECTS)
)
"""Of a request; all others, among them those that override methods, addresses and accounts, are dropped. Those that ask
for novelties go by their values."""
_LONGEST_HEADER = 2000
_MODELS = re.compile(r"/models(?:/[A-Za-z0-9][A-Za-z0-9._@-]{0,199})?")
_MODELS_QUERY = {
    **dict.fromkeys(("limit", "pageSize"), re.compile(r"[0-9]{1,4}")),
    **dict.fromkeys(("before_id", "after_id", "pageToken"), re.compile(r"[A-Za-z0-9._=-]{1,300}")),
    "beta": re.compile("true"),
    "api-version": re.compile(r"[0-9A-Za-z-]{1,40}"),
}


def examine(request: ModelRequest, policy: GatewayPolicy, *, server: Server = ANY_SERVER) -> Admitted:
    """What of ``request`` is sent on to ``server`` under ``policy``; the model is checked by its form alone. Raises
    Denial."""
    dialect, operation, before = _routed(request, policy, server)
    headers, lost = _headers(request, policy)
    if operation.name == "models":
        return Admitted(
            dialect=dialect,
            operation=operation,
            method="GET",
            path=before + operation.path,
            model="",
            headers=headers,
            body=b"",
            lost_betas=lost,
        )
    if request.method != "POST":
        raise _no_operation(request)
    if (coding := request.headers.get("content-encoding", "identity").strip().lower()) != "identity":
        raise Denial(
            400, f"a body in content-encoding {masking.first(coding, 40)!r} is not read; send it as it is"
        )
    media_type = "".join(request.headers.get("content-type", "").partition(";")[0].split()).lower()
    if media_type != "application/json":
        raise Denial(400, f"content-type must be application/json, found {masking.first(media_type, 60)!r}")
    if len(request.body) > BODY_BYTES:
        raise Denial(413, f"the body is larger than {BODY_BYTES >> 20} MiB")
    asked = read_object(request.body)
    check = RequestCheck(policy, dialect.name, server)
    model, body = dialect.check(dict(asked), operation, check)
    return Admitted(
        dialect=dialect,
        operation=replace(operation, stream=operation.stream or body.get("stream") is True),
        method="POST",
        path=before + operation.path,
        model=model,
        headers=headers,
        body=write_object(body if dialect.sends_own else asked, request.body),
        understood=body,
        adds_usage_event=dialect.adds_usage_event(asked, operation, check),
        lost_betas=lost,
    )


def refusal(denial: Denial, request: ModelRequest) -> bytes:
    """The body that says ``denial`` in the form of the API that was spoken, as far as that can be seen."""
    text = f"agentv-sandbox's model gateway refused this request: {denial.reason}"
    return json.dumps(spoken_in(request).error(denial.status, text)).encode()


def _routed(request: ModelRequest, policy: GatewayPolicy, server: Server) -> tuple[Dialect, Operation, str]:
    """The API that is spoken, what is asked, and the prefix of the path. Raises Denial."""
    path = request.path
    if "%" in path or "//" in path or "/../" in path or "/./" in path:
        raise Denial(404, "the address has more than one reading")
    query = _query(request.query)
    spoken = spoken_in(request)
    for dialect in sorted(DIALECTS, key=lambda each: each is not spoken):
        if policy.apis and dialect.key not in policy.apis:
            continue
        for before in _prefixes(server, dialect):
            if not path.startswith(before):
                continue
            rest = path[len(before) :]
            operation = _models_of(request, rest, query) or dialect.operation(rest, query)
            if operation is not None:
                return dialect, operation, before
    raise _no_operation(request)


def _no_operation(request: ModelRequest) -> Denial:
    asked = f"{request.method[:10]} {masking.first(request.path, 80)}"
    return Denial(404, f"{asked} is not an operation that the gateway knows at this server, for this target")


@lru_cache(maxsize=64)
def _prefixes(server: Server, dialect: Dialect) -> tuple[str, ...]:
    return server.prefixes(dialect.key, dialect.places, dialect.more_places)


def _models_of(request: ModelRequest, path: str, query: Mapping[str, str]) -> Operation | None:
    """The list of models, or what one of them is; it costs nothing. Raises Denial for a query that it does not
    have."""
    if request.method != "GET" or request.body or not _MODELS.fullmatch(path):
        return None
    only(query, _MODELS_QUERY)
    more = f"?{request.query}" if query else ""
    return Operation(name="models", path=f"{path}{more}")


def _query(text: str) -> dict[str, str]:
    """A query without escapes and repetitions. Raises Denial."""
    if not text:
        return {}
    pairs = [part.partition("=") for part in text.split("&")]
    query = {key: value for key, _, value in pairs}
    if len(query) != len(pairs) or "%" in text or "+" in text:
        raise Denial(403, "the query is not one that the gateway knows")
    return query


def _headers(request: ModelRequest, policy: GatewayPolicy) -> tuple[dict[str, str], tuple[str, ...]]:
    """(what goes on, values of headers for novelties that do not)."""
    kept = {
        name: value
        for name, value in request.headers.items()
        if name in _PASSED_HEADERS and len(value) <= _LONGEST_HEADER
    }
    lost: tuple[str, ...] = ()
    for dialect in DIALECTS:
        betas, taken_out = dialect.betas(request.headers, policy)
        kept, lost = kept | betas, lost + taken_out
    return {**kept, "content-type": "application/json"} if request.body else kept, lost
