"""Honest requests: of the recorded sessions, and those that were refused or changed without need."""

from __future__ import annotations

import json

from agentv_sandbox.models_api.policy import GatewayPolicy
from tests.agents import recording

from .asked import Asked, asked_with, compact, says, sets, snake_body
from .probes import BODIES, MODELS

PROGRAMS = ("claude", "codex", "copilot", "gemini", "opencode", "pi")


def _dialect_of(path: str) -> str:
    marks = {"anthropic": "/messages", "responses": "/responses", "chat": "/chat/completions"}
    return next((dialect for dialect, mark in marks.items() if mark in path), "gemini")


def recorded() -> list[Asked]:
    """What the six programs asked in their recorded sessions, each request once."""
    found: dict[bytes, Asked] = {}
    for program in PROGRAMS:
        for session in recording.read(recording.FOLDER / f"{program}.json")["sessions"]:
            for asked in session["asked"]:
                path = "/" + asked["path"].split("/", 2)[2]
                dialect, model = _dialect_of(path), asked["body"].get("model", "gemini-2.5-*")
                body = compact(asked["body"])
                found.setdefault(
                    body,
                    Asked(
                        name=f"{program}: {session['test']} {path}",
                        dialect=dialect,
                        path=path,
                        body=body,
                        method=asked["method"],
                        headers=tuple(asked["headers"].items()),
                        server="/api/v1" if path.startswith("/api/v1/") else "",
                        policy=_policy_of_recorded(dialect, model),
                    ),
                )
    return list(found.values())


def _policy_of_recorded(dialect: str, model: str) -> GatewayPolicy:
    apis = {"responses", "chat"} if dialect in ("responses", "chat") else {dialect}
    return GatewayPolicy(models=(model,), apis=frozenset(apis), below_base_url=True)


def once_hurt() -> list[Asked]:
    """Honest requests that were refused or changed."""
    found = []
    hosts = {
        "anthropic": ("api.anthropic.com", "/v1/models", "claude-sonnet-4-5"),
        "responses": ("api.openai.com", "/v1/models", "gpt-5"),
        "chat": ("openrouter.ai", "/api/v1/models", "gpt-5"),
        "gemini": ("generativelanguage.googleapis.com", "/v1beta/models", "gemini-2.5-pro"),
    }
    for dialect, (host, path, model) in hosts.items():
        for name, at in {
            "list": path,
            "one": f"{path}/{model}",
            "page": f"{path}?pageSize=50" if dialect == "gemini" else f"{path}?limit=50",
        }.items():
            anybody = GatewayPolicy(models=MODELS)
            found.append(
                Asked(
                    name=f"{name} of {host}",
                    dialect=dialect,
                    path=at,
                    method="GET",
                    host=host,
                    policy=anybody,
                )
            )
    for dialect in BODIES:
        for kind in (
            " application/json ",
            "application/json ; charset=utf-8",
            "application/json;charset=UTF-8",
            "application / json",
        ):
            found.append(asked_with(f"{dialect} {kind}", dialect, headers=(("Content-Type", kind),)))
        for style, body in {
            "python": json.dumps(BODIES[dialect]).encode(),
            "javascript": compact(BODIES[dialect]),
            "beyond ASCII": compact(BODIES[dialect]).replace(
                b"hello", "h\u00e9llo \u2192 \U0001f600".encode()
            ),
        }.items():
            found.append(asked_with(f"{dialect} as {style}", dialect, body=body))
    found += [
        asked_with("snake_case", "gemini", snake_body),
        asked_with("snake_case", "gemini", sets("generationConfig.maxOutputTokens", 65536), snake_body),
        asked_with(
            "a result in snake_case",
            "gemini",
            says({"functionResponse": {"name": "f", "response": {}}}),
            snake_body,
        ),
    ]
    azure = "/openai/deployments/gpt-5/chat/completions?api-version="
    plain = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 100}
    for name, path, body in (
        ("Azure", f"{azure}2024-10-21", plain),
        ("Azure", f"{azure}2024-10-21", {**plain, "model": "gpt-5"}),
        ("Azure", f"{azure}2024-10-21", {**plain, "model": "gpt-4.1"}),
        ("Azure of old", f"{azure}2023-05-15", {**plain, "stream": True}),
        ("Azure", f"{azure}2024-10-21", {**plain, "stream": True, "stream_options": {"include_usage": True}}),
    ):
        host = "me.openai.azure.com"
        anybody = GatewayPolicy(models=MODELS)
        found.append(
            Asked(name=name, dialect="chat", path=path, body=compact(body), host=host, policy=anybody)
        )
    router = GatewayPolicy(models=("anthropic/claude-sonnet-4.5",))
    routed = {**plain, "model": "anthropic/claude-sonnet-4.5"}
    for path, more in (
        ("chat/completions", {"stream": True}),
        ("chat/completions", {"stream": True, "usage": {"include": True}}),
        ("chat/completions", {"reasoning": {"max_tokens": 2000}, "include_reasoning": True}),
        ("chat/completions", {"reasoning": {"effort": "high", "exclude": True}, "top_k": 5}),
    ):
        at = {"path": f"/api/v1/{path}", "host": "openrouter.ai", "policy": router}
        found.append(Asked(name=f"OpenRouter {more}", dialect="chat", body=compact({**routed, **more}), **at))
    answer = {"model": routed["model"], "input": "hi", "stream": True}
    at = {"path": "/api/v1/responses", "host": "openrouter.ai", "policy": router}
    found.append(Asked(name="OpenRouter's answers", dialect="responses", body=compact(answer), **at))
    return found
