"""What models are sent, beside what AgentV itself sends for the same suite: the same bytes to the same addresses.

AgentV speaks to public servers by name; ``agentv_fetch.mjs`` has it speak to the one here instead. For us the targets
have a ``base_url``, which AgentV ignores.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from agentv_sandbox.loading import load_suites
from agentv_sandbox.models.case import CaseResult
from agentv_sandbox.models.figures import TokenUsage
from agentv_sandbox.models.suite import Suite
from tests.agentv import agentv_command, agentv_modules
from tests.llm.servers import Answer, Asked, Server, stream_of
from tests.pipeline.helpers import Bench

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("requests")]

HERE = Path(__file__).parent
OPENROUTER, ANTHROPIC, GEMINI = (
    "base_url: ROOT/openrouter.ai/api/v1",
    "base_url: ROOT/api.anthropic.com/v1",
    "base_url: ROOT/generativelanguage.googleapis.com/v1beta",
)
TARGETS = {
    "chat": "provider: openai, base_url: ROOT, temperature: 0, max_output_tokens: 50",
    "chat-plain": "provider: openai, endpoint: ROOT/gateway/",
    "responses": "provider: openai, base_url: ROOT/v1, api_format: responses, temperature: 0.25",
    "azure": "provider: azure, endpoint: '${{ ROOT }}', temperature: 1, max_output_tokens: 50",
    "azure-version": "provider: azure-openai, endpoint: '${{ ROOT_OPENAI }}', version: api-version=preview",
    "openrouter": f"provider: openrouter, {OPENROUTER}, temperature: 0.7",
    "anthropic": f"provider: anthropic, {ANTHROPIC}, temperature: 0.5, max_output_tokens: 50",
    "thinking": f"provider: anthropic, {ANTHROPIC}, temperature: 0.5, thinking_budget: 2000",
    "gemini": f"provider: google, {GEMINI}, temperature: 0.5, max_output_tokens: 50",
    "gemini-plain": f"provider: gemini, {GEMINI}",
    "agentv-openai": "provider: agentv, model: 'openai:some-model', base_url: ROOT/api.openai.com/v1",
    "agentv-anthropic": f"provider: agentv, model: 'anthropic:claude-sonnet-4-5', {ANTHROPIC}, temperature: 0.5",
    "agentv-google": f"provider: agentv, model: 'google:gemini-2.5-flash', {GEMINI}",
}
MODELS = dict.fromkeys(("anthropic", "thinking", "agentv-anthropic"), "claude-sonnet-4-5") | dict.fromkeys(
    ("gemini", "gemini-plain"), "gemini-2.5-flash"
)
FINE = "{type: contains, value: fine}]"
SUITE = r"""
tests:
  - {id: plain, input: "  What is 2 + 2?\n", assertions: [A]}
  - {id: unicode, input: "héllo 🙈 \u2028 \u0001 \"quoted\" \\ /", assertions: [A]}
  - {id: object, input: {task: add, numbers: [1, 2], empty: {}}, assertions: [A]}
  - {id: vars, vars: {who: Ann}, input: "Greet {{ who }} and {{ nobody }}", assertions: [A]}
  - id: system
    input: [{role: system, content: " Be brief. "}, {role: user, content: "Hello"}]
    expected_output: Hi
    assertions: [A]
  - id: systems
    input: [{role: system, content: One}, {role: system, content: {two: 2}}, {role: user, content: Three}]
    assertions: [A]
  - {id: system-only, input: [{role: system, content: Alone}], assertions: [A]}
  - id: roles
    input:
      - {role: user, content: " First "}
      - {role: assistant, content: Answer}
      - {role: assistant, content: ""}
      - {role: tool, content: "42", name: calc}
      - {role: system, content: Later}
      - {role: user, content: "Last\n"}
    assertions: [A]
  - {id: two-users, input: [{role: user, content: One}, {role: user, content: Two}], assertions: [A]}
  - id: blocks
    input:
      - role: user
        content:
          - {type: text, value: " before "}
          - plain string
          - {type: file, value: data/a.txt}
          - {type: file, value: /data/empty.txt}
          - {type: text, value: after}
    assertions: [A]
  - id: blocks-in-roles
    input:
      - role: system
        content: [{type: file, value: data/a.txt}, {type: text, value: " rules "}]
      - {role: user, content: [{type: text, value: " look "}, {type: file, value: data/a.txt}]}
      - {role: assistant, content: [{type: text, value: seen}]}
      - {role: user, content: {and: now}}
    assertions: [A]
  - {id: files, input: "Sum up", input_files: [data/a.txt, data/spaces.txt], assertions: [A]}
  - id: talk
    mode: conversation
    input: [{role: system, content: Be brief}, {role: user, content: " Earlier "}, {role: tool, content: "7"}]
    turns:
      - {input: " Hello ", assertions: [A]}
      - {input: "And now?", assertions: [A]}
      - {input: "{\"a\": 1}", assertions: [A]}
    window_size: 2
    assertions: [A]
  - id: talk-alone
    mode: conversation
    input: "Start"
    turns: [{input: Hello, assertions: [A]}, {input: Bye, assertions: [A]}]
    assertions: [A]
""".replace("A]", FINE)


def suite_text(targets: Mapping[str, str], tests: str) -> str:
    return f"execution: {{targets: [{', '.join(targets)}]}}\n{tests}"


@dataclass(frozen=True)
class Both:
    ours: Counter[tuple[str, str]]
    """(address, body) of every request."""
    theirs: Counter[tuple[str, str]]
    results: Mapping[tuple[str, str], CaseResult]
    """Ours, by test and target."""
    rows: Mapping[tuple[str, str], dict[str, Any]]
    """AgentV's, likewise."""


def answer(asked: Asked) -> Answer:
    return stream_of(asked, "All is fine.")


def seen(server: Server) -> Counter[tuple[str, str]]:
    return Counter((asked.path, asked.raw.decode()) for asked in server.asked)


def agentv(folder: Path, env: Mapping[str, str]) -> dict[tuple[str, str], dict[str, Any]]:
    bun, cli = agentv_command()
    command = [bun, "--preload", str(HERE / "agentv_fetch.mjs"), cli, "eval", "run", "s.eval.yaml"]
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("AGENTV_", "AZURE_", "PI_"))}
    done = subprocess.run(
        [*command, "--max-retries", "0", "-o", "theirs"],
        cwd=folder,
        env={**clean, **env},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    index = folder / "theirs/index.jsonl"
    assert index.exists(), (done.stdout[-2000:], done.stderr[-2000:])
    rows = map(json.loads, index.read_text().splitlines())
    return {(row["test_id"], row["target"]): row for row in rows}


def ours(folder: Path, env: Mapping[str, str]) -> dict[tuple[str, str], CaseResult]:
    """On the fake engine: a container would be noticed."""
    loaded = load_suites([folder / "s.eval.yaml"], cwd=folder, environ=env)
    assert loaded.errors == ()
    bench = Bench(folder, {})
    results: dict[tuple[str, str], CaseResult] = {}

    def keep(_suite: Suite, result: CaseResult, _case: object) -> CaseResult:
        results[result.case_id, result.target] = result
        return result

    bench.deliver = keep
    try:
        bench.run(loaded.suites[0], workers=4, environ=env)
        assert bench.engine.runs == []
    finally:
        bench.engine.close()
    return results


def model_of(variable: str, text: str) -> str:
    return "" if "model:" in text else f"model: '${{{{ {variable} }}}}', "


def both_of(folder: Path, targets: Mapping[str, str], models: Mapping[str, str], tests: str) -> Both:
    (folder / "data").mkdir()
    (folder / "data/a.txt").write_bytes(b"\xef\xbb\xbf  one\r\ntwo \n\n")
    (folder / "data/spaces.txt").write_text(" \n")
    (folder / "data/empty.txt").write_text("")
    names = {name: f"MODEL_{number}" for number, name in enumerate(targets)}
    (folder / "s.eval.yaml").write_text(suite_text(targets, tests))
    sent = []
    for run in (agentv, ours):
        with Server([answer]) as server:
            root = server.url.removesuffix("/v1")
            lines = [
                f"  - {{name: '{name}', api_key: '${{{{ KEY }}}}', {model_of(names[name], text)}{text}}}\n"
                for name, text in targets.items()
            ]
            (folder / "targets.yaml").write_text(
                "targets:\n" + "".join(lines).replace("ROOT/", f"{root}/").replace("ROOT,", f"{root},")
            )
            env = {"KEY": "k" * 20, "ROOT": root, "ROOT_OPENAI": f"{root}/openai", "MODEL_SERVER": root}
            env |= dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"), "k" * 20)
            env |= {names[name]: models.get(name, "some-model") for name in targets}
            sent.append((run(folder, env), seen(server)))
    (rows, theirs), (results, own) = sent
    return Both(own, theirs, results, rows)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    return both_of(tmp_path_factory.mktemp("requests"), TARGETS, MODELS, SUITE)


def test_the_same_requests(both: Both) -> None:
    assert sorted(both.ours.elements()) == sorted(both.theirs.elements())
    turns = 5
    tests = SUITE.count("- {id: ") + SUITE.count("- id: ") - 2
    assert both.ours.total() == len(TARGETS) * (tests + turns)


def test_the_same_rows(both: Both) -> None:
    """But for what is meant: cached tokens are part of the input, and how many of the output were thoughts is said."""
    assert both.results.keys() == both.rows.keys()
    for key, row in both.rows.items():
        result = both.results[key]
        response = result.response
        assert response is not None
        ours = (result.score, result.status, len(result.scores), response.target_used)
        assert ours == (row["score"], row["execution_status"], len(row["scores"]), key[1])
        assert response.duration_ms and response.start_time and response.end_time
        thoughts = None if "claude" in MODELS.get(key[1], "") else 2
        if key[0].startswith("talk"):
            assert (
                not {"token_usage", "duration_ms", "start_time"} & row.keys()
            )  # AgentV measures no conversation
            continue
        assert {"duration_ms", "start_time", "end_time"} <= row.keys()
        assert row["token_usage"] == {"input": 7, "output": 7, "cached": 4}
        assert response.token_usage == TokenUsage(input=11, output=7, cached=4, reasoning=thoughts)


PROVIDERS_OF_MODELS = {
    "openai": {
        "chat": "provider: openai, base_url: ROOT, max_output_tokens: 50",
        "responses": "provider: openai, base_url: ROOT, api_format: responses",
    },
    "azure-openai-responses": {"azure": "provider: azure, endpoint: '${{ ROOT }}'"},
    "openrouter": {"openrouter": f"provider: openrouter, {OPENROUTER}"},
    "anthropic": {
        "anthropic": f"provider: anthropic, {ANTHROPIC}, temperature: 1",
        "thinking": f"provider: anthropic, {ANTHROPIC}, temperature: 1, thinking_budget: 1024",
    },
    "google": {"gemini": f"provider: gemini, {GEMINI}"},
}


def known_models() -> dict[str, list[dict[str, Any]]]:
    """The models that AgentV's library knows, by its names of providers."""
    modules = agentv_modules()
    library = modules / "@earendil-works/pi-ai/dist/models.js"
    command = [str(modules / ".bin/bun"), str(HERE / "agentv_models.mjs"), str(library)]
    return json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


def test_the_same_request_for_every_model_that_agentv_knows(tmp_path: Path) -> None:
    targets, models = {}, {}
    for provider, known in known_models().items():
        for kind, text in PROVIDERS_OF_MODELS[provider].items():
            for number, model in enumerate(known):
                if provider == "openrouter" and number % 10 and not model["id"].startswith("anthropic/"):
                    continue
                name = f"{kind}-{number}"
                targets[name], models[name] = text, model["id"]
    both = both_of(tmp_path, targets, models, f"tests: [{{id: a, input: Hello, assertions: [{FINE}}}]")
    assert both.ours.total() == len(targets) > 150
    assert sorted(both.ours.elements()) == sorted(map(as_we_mean_it, both.theirs.elements()))


def as_we_mean_it(request: tuple[str, str]) -> tuple[str, str]:
    """AgentV's request without what is left out here on purpose: OpenRouter's models are told nothing of reasoning, and
    models that cannot do without it are not told to."""
    path, text = request
    body = json.loads(text)
    if path.startswith("/openrouter.ai/"):
        for key in ("reasoning", "thinking"):
            body.pop(key, None)
        first = body["messages"][0]
        first["role"] = first["role"].replace("developer", "system")
    elif path.partition("?")[0].endswith("/responses") and re.match(r"o[134]", body["model"]):
        body.pop("reasoning", None)
    return path, json.dumps(body, ensure_ascii=False, separators=(",", ":"))
