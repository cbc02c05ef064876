"""All names that AgentV knows: commands, options, keys of its schemas, providers, settings, variables. Recorded."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.agentv import agentv_command, agentv_modules, agentv_version

Json = Any
_SUBCOMMAND = re.compile(r"^- ([a-z-]+) - ", re.MULTILINE)
_OPTION = re.compile(r"^\s+(--[a-z0-9-]+)", re.MULTILINE)
_VARIABLE = re.compile(
    r"(?:process\.env\.|\benv\.|\benv\[['\"]|getenv\(['\"])([A-Z][A-Z0-9_]{3,})|['\"`](AGENTV_[A-Z_]+|CLAUDECODE|[A-Z]+_API_KEY)['\"`]"
)
_NO_VARIABLES = frozenset(
    {
        "AGENTV_REQUEST_TEMPLATE",
        "AGENTV_BATCH_REQUEST_TEMPLATE",
        "AGENTV_BATCH_ORCHESTRATOR_TEMPLATE",
        "PROVIDER_API_KEY",
    }
)
_LIST = re.compile(
    r"const (KNOWN_PROVIDERS|PROVIDER_ALIASES|[A-Z_]+_SETTINGS)\b[^=]*=\s*(?:new Set\()?\[(.*?)\]", re.DOTALL
)
_QUOTED = re.compile(r"^\s*'([a-z_-]+)'", re.MULTILINE)
_REFERENCES = "agentv/dist/skills/agentv-eval-writer/references"


class Interface:
    """Its recording."""

    name = "agentv-interface"

    def record(self, folder: Path, _tests: Sequence[str] = ()) -> dict[str, Any]:
        sources = dict(_sources())
        return {
            "agentv": agentv_version(),
            "commands": dict(_commands(folder, [])),
            **{f"{name} file": schema_keys(name) for name in ("eval", "config")},
            "providers": _listed(sources, "KNOWN_PROVIDERS", "PROVIDER_ALIASES"),
            "settings": _listed(sources, "_SETTINGS"),
            "variables": sorted(
                {
                    name
                    for text in sources.values()
                    for pair in _VARIABLE.findall(text)
                    for name in pair
                    if name
                }
                - _NO_VARIABLES
            ),
        }


RECORDED = Interface()


def schema_keys(name: str) -> list[str]:
    """Of AgentV's own schema of eval files or its configuration."""
    schema = _schema(name)
    return sorted(set(_keys(schema, schema, "", ())))


def _commands(folder: Path, words: list[str]) -> Iterator[tuple[str, list[str]]]:
    env = {"PATH": os.environ["PATH"], "HOME": str(folder), "NO_COLOR": "1"}
    command = [*agentv_command(), *words, "--help"]
    done = subprocess.run(
        command, env=env, cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    text = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)
    below = _SUBCOMMAND.findall(text) if "where <subcommand>" in text else []
    if not below:
        yield (
            " ".join(words),
            sorted({option for option in _OPTION.findall(text) if option not in ("--help", "--ref")}),
        )
    for word in below:
        yield from _commands(folder, [*words, word])


def _schema(name: str) -> Json:
    return json.loads((agentv_modules() / _REFERENCES / f"{name}-schema.json").read_text())


def _keys(part: Json, whole: Json, parent: str, seen: tuple[str, ...]) -> Iterator[str]:
    """Keys with the one above them, and the values of types: ``tests.id``, ``assertions.type=contains``."""
    if (place := part.get("$ref")) is not None:
        if place not in seen:
            found = whole
            for word in place.removeprefix("#/").split("/"):
                found = found[word]
            yield from _keys(found, whole, parent, (*seen, place))
        return
    for each in (one for kind in ("anyOf", "oneOf", "allOf") for one in part.get(kind, ())):
        yield from _keys(each, whole, parent, seen)
    if isinstance(part.get("items"), dict):
        yield from _keys(part["items"], whole, parent, seen)
    for key, value in part.get("properties", {}).items():
        yield f"{parent}.{key}" if parent else key
        if key == "type":
            yield from (f"type={each}" for each in (value.get("enum") or [value.get("const")]) if each)
        yield from _keys(value, whole, key, seen)


def _sources() -> Iterator[tuple[str, str]]:
    """AgentV's own files, from the maps that come with it."""
    for path in (agentv_modules() / "agentv/dist").glob("*.js.map"):
        stored: Mapping[str, Json] = json.loads(path.read_text())
        for name, text in zip(stored["sources"], stored.get("sourcesContent") or (), strict=False):
            if text and "node_modules" not in name:
                yield name, text


def _listed(sources: Mapping[str, str], *names: str) -> list[str]:
    found: set[str] = set()
    for text in sources.values():
        for name, body in _LIST.findall(text):
            if any(name.endswith(each) for each in names):
                found |= set(_QUOTED.findall(body))
    return sorted(found)
