"""Abuses of a key, made of what may be asked and of the ways to write it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

from agentv_sandbox.models_api.policy import GatewayPolicy

from .abuses_of_content import media
from .abuses_of_fields import fields, hosted, numbers
from .asked import Asked, asked_with
from .probes import BODIES, MODELS, PATHS, PROBES

# -- betas ----------------------------------------------------------------------------------------------------
_BETAS = [
    "files-api-2025-04-14",
    "skills-2025-10-02",
    "mcp-client-2025-04-04",
    "mcp-client-2025-11-20",
    "mcp-servers-2025-12-04",
    "mcp-tunnels-2026-05-19",
    "code-execution-2025-05-22",
    "code-execution-2025-08-25",
    "remote-agents-2026-01-01",
    "managed-agents-2026-04-01",
    "web-search-2025-03-05",
    "web-fetch-2025-09-10",
    "computer-use-2025-01-24",
    "tool-search-tool-2025-10-19",
    "fast-mode-2026-02-01",
    "message-batches-2024-09-24",
    "context-1m-2025-08-07",
    "advisor-tool-2026-03-01",
    "task-budgets-2026-03-13",
    "unknown-2027-01-01",
]
_KNOWN_BETA = "interleaved-thinking-2025-05-14"


def _betas() -> Iterator[Asked]:
    name = "anthropic-beta"
    for beta in _BETAS:
        for spelling, lines in {
            "alone": ((name, beta),),
            "behind a known one": ((name, f"{_KNOWN_BETA},{beta}"),),
            "with spaces": ((name, f" {beta} , {_KNOWN_BETA}"),),
            "a second line": ((name, _KNOWN_BETA), (name.title(), beta)),
            "in capitals": ((name, beta.upper()),),
        }.items():
            carried = beta.upper() if spelling == "in capitals" else beta
            yield asked_with(f"beta {beta}, {spelling}", "anthropic", headers=lines, betas=(carried,))
    yield asked_with("a beta of 3 kB", "anthropic", headers=((name, "x" * 3000),), betas=("x" * 3000,))


# -- other places ---------------------------------------------------------------------------------------------
_PLACES = {
    "anthropic": ("/v1/messages", "/anthropic/v1/messages", "/api/v1/messages", "/api/anthropic/v1/messages"),
    "responses": ("/v1/responses", "/openai/v1/responses", "/api/v1/responses"),
    "chat": (
        "/v1/chat/completions",
        "/v1beta/openai/chat/completions",
        "/openai/deployments/gpt-5/chat/completions",
    ),
    "gemini": ("/v1beta/models/gemini-2.5-pro:generateContent", "/v1/models/gemini-2.5-pro:generateContent"),
}
_AT_HOME = {
    "anthropic": ("api.anthropic.com", ("/v1/messages",)),
    "responses": ("api.openai.com", ("/v1/responses",)),
    "gemini": ("generativelanguage.googleapis.com", _PLACES["gemini"]),
}
_NO_OPERATIONS = [
    "/v1/files",
    "/v1/batches",
    "/v1/messages/batches",
    "/v1/skills",
    "/v1/agents",
    "/v1/sessions",
    "/v1/environments",
    "/v1/embeddings",
    "/v1/images/generations",
    "/v1/audio/speech",
    "/v1/audio/transcriptions",
    "/v1/videos",
    "/v1/responses/resp_1",
    "/v1/responses/compact",
    "/v1/vector_stores",
    "/v1/containers",
    "/v1/fine_tuning/jobs",
    "/v1/realtime/sessions",
    "/v1/completions",
    "/v1/organization/usage",
    "/v1/models/gpt-5/permissions",
    "/v1beta/cachedContents",
    "/v1beta/files",
    "/v1beta/interactions",
    "/v1beta/models/gemini-2.5-pro:batchGenerateContent",
    "/v1beta/models/gemini-2.5-pro:embedContent",
    "/v1/mcp/tunnels",
]


def _at_makers() -> Iterator[Asked]:
    """At the makers' own servers, whatever the program."""
    anybody = GatewayPolicy(models=MODELS)
    for ours, (host, fine) in _AT_HOME.items():
        for theirs, path in _every_place():
            body = json.dumps(BODIES[theirs]).encode()
            if path in fine:
                continue
            yield Asked(name=f"{path} at {host}", dialect=ours, path=path, body=body, host=host)
            if theirs != "chat" or ours == "anthropic":
                of_any = {"path": path, "body": body, "host": host, "policy": anybody}
                yield Asked(name=f"{path} at {host}, any program", dialect=ours, **of_any)


def _every_place() -> Iterator[tuple[str, str]]:
    return ((dialect, path) for dialect, paths in _PLACES.items() for path in paths)


def _at_own_servers() -> Iterator[Asked]:
    for ours in BODIES:
        for theirs, path in _every_place():
            family = ours == "chat" and theirs == "responses"
            usual = theirs == ours and not path.startswith(("/anthropic", "/api", "/v1beta/openai"))
            if not usual and not (family and not path.startswith("/api")):
                body = json.dumps(BODIES[theirs]).encode()
                yield Asked(name=f"{path} at an own server of {ours}", dialect=ours, path=path, body=body)


def _no_operations() -> Iterator[Asked]:
    for ours in BODIES:
        for path in _NO_OPERATIONS:
            yield Asked(name=f"POST {path}", dialect=ours, path=path, body=b"{}")
            yield Asked(name=f"GET {path}", dialect=ours, path=path, method="GET")
        for method in ("DELETE", "PUT", "PATCH", "HEAD", "OPTIONS"):
            yield Asked(name=f"{method} a model", dialect=ours, path="/v1/models/gpt-5", method=method)
        yield Asked(name="a list with a body", dialect=ours, path="/v1/models", method="GET", body=b"{}")
        yield Asked(name="a list's own query", dialect=ours, path="/v1/models?carried=out", method="GET")


def abuses() -> list[Asked]:
    """Every one of them once."""
    known = [
        Asked(
            name=f"{probe.dialect}: {probe.name}",
            dialect=probe.dialect,
            path=probe.path or PATHS[probe.dialect],
            body=probe.body,
            method=probe.method,
            headers=tuple(probe.headers.items()),
        )
        for probe in PROBES
    ]
    made: list[Callable[[], Iterator[Asked]]] = [
        numbers,
        _betas,
        hosted,
        media,
        fields,
        _at_makers,
        _at_own_servers,
        _no_operations,
    ]
    return [*known, *(each for make in made for each in make())]
