"""A request to a target, and ways to write one."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agentv_sandbox.models.suite import Target
from agentv_sandbox.models_api.policy import GatewayPolicy, ModelRequest
from agentv_sandbox.models_api.servers import Server
from agentv_sandbox.providers import PROVIDERS

from .probes import BODIES, PATHS, Body, Change

_TARGETS = {
    "anthropic": ("claude-cli", {"model": "claude-sonnet-4-5"}),
    "responses": ("codex", {"model": "gpt-5"}),
    "chat": ("opencode", {"model": "own/gpt-5", "base_url": "http://127.0.0.1:9/v1"}),
    "gemini": ("gemini-cli", {"model": "gemini-2.5-pro"}),
}


def policy_of(dialect: str) -> GatewayPolicy:
    """The rules of a coding agent that speaks ``dialect``."""
    kind, settings = _TARGETS[dialect]
    return PROVIDERS[kind].gateway_policy(Target(name="t", provider=kind, settings=settings))


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request to a target that speaks ``dialect``."""

    name: str
    dialect: str
    path: str
    body: bytes = b""
    method: str = "POST"
    headers: tuple[tuple[str, str], ...] = ()
    """A name may stand twice."""
    betas: tuple[str, ...] = ()
    """Must not arrive; what is left of the request may."""
    host: str = ""
    server: str = ""
    """Path of the base URL."""
    policy: GatewayPolicy | None = field(default=None, repr=False)
    """None: that of a coding agent."""

    @property
    def request(self) -> ModelRequest:
        before, _, query = self.path.partition("?")
        headers = {"content-type": "application/json"} if self.body else {}
        for key, value in self.headers:
            name = key.lower()
            joined = name in headers and name != "content-type"
            headers[name] = f"{headers[name]}, {value}" if joined else value
        return ModelRequest(method=self.method, path=before, query=query, headers=headers, body=self.body)

    @property
    def rules(self) -> GatewayPolicy:
        return self.policy or policy_of(self.dialect)

    @property
    def at(self) -> Server:
        return Server(self.host, self.server, self.rules.below_base_url)


def asked_with(name: str, dialect: str, *changes: Change, **more: Any) -> Asked:
    body = copy.deepcopy(BODIES[dialect])
    for change in changes:
        change(body)
    known: dict[str, Any] = {"path": PATHS[dialect], "body": json.dumps(body).encode()}
    return Asked(name=name, dialect=dialect, **known | more)


def sets(path: str, value: Any) -> Change:
    """Sets ``outer.inner``."""

    def change(body: Body) -> None:
        *outer, last = path.split(".")
        for key in outer:
            body = body.setdefault(key, {})
        body[last] = value

    return change


def snake(text: str) -> str:
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in text)


def _whole_snake(value: Any) -> Any:
    if isinstance(value, dict):
        return {snake(key): _whole_snake(each) for key, each in value.items()}
    return [_whole_snake(each) for each in value] if isinstance(value, list) else value


def snake_body(body: Body) -> None:
    whole = _whole_snake(dict(body))
    body.clear()
    body.update(whole)


def tool(**values: Any) -> Change:
    return lambda body: body["tools"].append(values)


def says(block: Mapping[str, Any]) -> Change:
    def change(body: Body) -> None:
        if "contents" in body:
            body["contents"][0]["parts"].append(block)
        elif "input" in body:
            body["input"].append({"type": "message", "role": "user", "content": [block]})
        else:
            body["messages"].append({"role": "user", "content": [block]})

    return change


def compact(body: Any) -> bytes:
    """As JavaScript and Rust write it."""
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
