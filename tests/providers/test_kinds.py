"""Every kind of target: its names, its schema, and what is said where it cannot be evaluated."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from typer.testing import CliRunner

from agentv_sandbox.authoring.docs import known_keys
from agentv_sandbox.cli import app
from agentv_sandbox.documents.targets import TargetDoc
from agentv_sandbox.loading.schema import schema, targets_schema
from agentv_sandbox.providers import EVALUATED, PROVIDERS

SUITE = "tests: [{id: a, input: x, assertions: [{type: contains, value: x}]}]\n"
REFUSED = [name for name, kind in PROVIDERS.items() if kind.refusal]


def test_no_name_means_two_kinds() -> None:
    names = [name for kind in PROVIDERS.values() for name in (kind.name, *kind.aliases)]
    assert len(names) == len(set(names))
    assert names == [name.lower() for name in names]


@pytest.mark.parametrize("name", PROVIDERS)
def test_a_setting_is_not_also_a_key_of_every_target(name: str) -> None:
    assert not known_keys(PROVIDERS[name].settings).keys() & known_keys(TargetDoc).keys()


@pytest.fixture(scope="module", params=["targets file", "eval file"])
def accepts(request: pytest.FixtureRequest) -> Any:
    made = targets_schema() if request.param == "targets file" else schema()
    validator = Draft202012Validator(made)

    def accepts(entry: Mapping[str, Any]) -> bool:
        target = {"name": "t", **entry}
        if request.param == "targets file":
            return validator.is_valid({"targets": [target]}) and validator.is_valid([target])
        return validator.is_valid({"tests": [{"id": "a", "input": "x"}], "execution": {"targets": [target]}})

    return accepts


@pytest.mark.parametrize(
    ("entry", "good"),
    [
        ({"provider": "cli", "command": "x", "timeout_seconds": 5}, True),
        ({"provider": "cli", "command": "x", "timeout_seconds": "${{ SECONDS }}"}, True),
        ({"provider": "cli", "command": "x", "attachments_format": "{path}"}, True),
        ({"provider": "cli"}, False),
        ({"provider": "cli", "command": "x", "timeout_seconds": 0}, False),
        ({"provider": "cli", "command": "x", "workers": 0}, False),
        ({"provider": "openai", "api_key": "${{ KEY }}"}, True),
        ({"provider": "openai", "api_key": "sk-123"}, False),
        ({"provider": "azure-openai", "api_format": "chta"}, False),
        ({"provider": "codex", "model_reasoning_effort": "huge"}, False),
        ({"provider": "mine", "command": "x", "anything": {"goes": 1}}, True),
        ({"use_target": "other"}, True),
    ],
)
def test_the_schema_knows_the_settings(accepts: Any, entry: Mapping[str, Any], good: bool) -> None:
    assert accepts(entry) is good


@pytest.mark.parametrize("command", ["validate", "run"])
def test_what_cannot_be_evaluated_is_refused_in_the_same_words(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All at once, and before an engine is asked for: there is none here."""
    (tmp_path / "a.eval.yaml").write_text(f"execution: {{targets: {REFUSED}}}\n{SUITE}")
    entries = [f"  - {{name: {name}, provider: {name}}}\n" for name in REFUSED]
    (tmp_path / "targets.yaml").write_text(f"targets:\n{''.join(entries)}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    done = CliRunner().invoke(app, [command, "a.eval.yaml"])
    assert done.exit_code == 2
    said = "".join(done.output.split())
    for line, name in enumerate(REFUSED, 2):
        message = f"provider '{name}', which cannot be evaluated here; these can: {', '.join(EVALUATED)}"
        assert "".join(message.split()) in said
        assert f"targets.yaml:{line}" in said
        assert "".join(PROVIDERS[name].refusal.split()) in said


def test_the_listing_has_every_kind() -> None:
    listed = CliRunner().invoke(app, ["providers"]).output
    for kind in PROVIDERS.values():
        assert ", ".join((kind.name, *kind.aliases)) in listed
        assert all(key in listed for key in known_keys(kind.settings))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("model: gpt-5-mini", "model: must be SERVER:MODEL, such as openai:gpt-5-mini"),
        ("model: 'mistral:large'", "servers are openai, anthropic, azure, google"),
        ("model: 'azure:mine'", "endpoint: is required: where is the server?"),
        ("model: 'anthropic:m'", "the environment variable ANTHROPIC_API_KEY is not set"),
        ("model: 'google:m'", "the environment variable GEMINI_API_KEY is not set"),
    ],
)
def test_what_a_model_by_one_name_lacks(
    settings: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before an engine is asked for."""
    (tmp_path / "a.eval.yaml").write_text(f"execution: {{target: m}}\n{SUITE}")
    (tmp_path / "targets.yaml").write_text(f"targets: [{{name: m, provider: agentv, {settings}}}]\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    for name in ("ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    done = CliRunner().invoke(app, ["run", "a.eval.yaml"])
    assert (done.exit_code, said in done.output) == (2, True), done.output
