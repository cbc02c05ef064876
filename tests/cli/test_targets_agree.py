"""``validate`` and ``run`` say the same about targets, and ``run`` says it before it asks for an engine."""

from __future__ import annotations

import json
import os
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.forkserver import command

SUITE = "tests:\n  - {id: a, input: x, criteria: y, assert: [{type: contains, value: x}]}\n"
CLI = "provider: cli, command: 'cat {OUTPUT_FILE}'"


def ended(folder: Path, *args: str) -> CompletedProcess[str]:
    return command(*args, cwd=folder, env={**os.environ, "DOCKER_HOST": "unix:///nowhere", "SET_X": "1"})


@pytest.mark.parametrize(
    ("target", "suite", "said"),
    [
        ("provider: vscode", SUITE, "cannot be evaluated"),
        ("provider: copilot-log, discover: latest", SUITE, "nothing of your home folder is read here"),
        ("provider: copilot, model: m", SUITE, "base_url is required: only your own server"),
        ("provider: copilot, base_url: 'https://x.example'", SUITE, "model is required"),
        ("provider: copilot, model: m, base_url: x", SUITE, "must be an http or https address"),
        ("provider: pi, subprovider: azure", SUITE, "base_url is required"),
        ("provider: pi-cli, subprovider: github", SUITE, "subprovider: must be 'google', 'gemini'"),
        ("provider: copilot-sdk, subprovider: github", SUITE, "must be 'openai', 'azure' or 'anthropic'"),
        ("provider: claude, base_url: 'ftp://x'", SUITE, "must be an http or https address"),
        ("provider: opencode", SUITE, "model must be PROVIDER/MODEL"),
        ("provider: opencode, model: my/own", SUITE, "the address of my is not known"),
        ("provider: codex, version: newest", SUITE, "must be one version of the package"),
        ("provider: openai, model: m", SUITE, "is required by the public server of openai"),
        ("provider: gemini", SUITE, "write api_key: ${{ GEMINI_API_KEY }}"),
        ("provider: anthropic, base_url: 'http://127.0.0.1:1'", SUITE, "model: is required"),
        ("provider: azure, model: m", SUITE, "endpoint: is required"),
        ("provider: cli, command: 'agent {PROMPT}'", SUITE, "does not mention {OUTPUT_FILE}"),
        ("use_target: other}, {name: other, env: {A: [b]}, " + CLI, SUITE, "env.A: must be text"),
        (
            "provider: cli, command: 'sh agents/no.sh {OUTPUT_FILE}'",
            SUITE,
            "'agents/no.sh' is neither in the project",
        ),
        ("provider: replay", SUITE, "must name a JSONL file"),
        (
            f"grader_target: gone, {CLI}",
            SUITE.replace(", assert: [{type: contains, value: x}]", ""),
            "no target is named 'gone'",
        ),
    ],
)
def test_validate_refuses_what_run_refuses(tmp_path: Path, target: str, suite: str, said: str) -> None:
    (tmp_path / "s.eval.yaml").write_text(suite)
    (tmp_path / "targets.yaml").write_text(f"targets: [{{name: default, {target}}}]\n")
    validate, run = ended(tmp_path, "validate", "s.eval.yaml"), ended(tmp_path, "run", "s.eval.yaml")
    assert (validate.returncode, run.returncode) == (2, 2), validate.stderr + run.stderr
    assert said in validate.stderr and said in run.stderr


def test_variables_that_are_not_set_stop_a_run_at_once_and_once(tmp_path: Path) -> None:
    for name in ("s", "t"):
        (tmp_path / f"{name}.eval.yaml").write_text(SUITE)
    target = "env: [SET_X, NOPE_X], secrets: {NOPE_Y: {host: api.example.com}}"
    (tmp_path / "targets.yaml").write_text(f"targets: [{{name: default, {CLI}, {target}}}]\n")
    run = ended(tmp_path, "run", ".")
    assert run.returncode == 2, run.stderr
    assert [run.stderr.count(f"{name} is not set") for name in ("NOPE_X", "NOPE_Y", "SET_X")] == [1, 1, 0]
    validate = ended(tmp_path, "validate", "--json", ".")
    assert validate.returncode == 0
    for most, status in (("1", 1), ("2", 0)):
        assert ended(tmp_path, "validate", "--max-warnings", most, ".").returncode == status
    many = ended(tmp_path, "validate", "--max-warnings", "-1", ".")
    assert many.returncode == 2 and "must be a whole number of at least 0" in many.stderr
    assert [(p["severity"], p["field"]) for p in json.loads(validate.stdout)] == [
        ("warning", "targets.default.env"),
        ("warning", "targets.default.secrets"),
    ]


def test_what_else_cannot_run_is_reported_with_a_missing_key(tmp_path: Path) -> None:
    (tmp_path / "in.bin").write_bytes(bytes(range(256)))
    entry = "{type: file, value: in.bin}"
    (tmp_path / "s.eval.yaml").write_text(
        SUITE.replace("input: x", f"input: [{{role: user, content: [{entry}]}}]")
    )
    (tmp_path / "targets.yaml").write_text(
        "targets:\n  - {name: default, provider: openai, model: m, api_key: '${{ NOPE_X }}'}\n"
    )
    for verb in ("validate", "run"):
        done = ended(tmp_path, verb, "s.eval.yaml")
        assert done.returncode == 2
        assert "cannot be sent the input file in.bin" in done.stderr and "NOPE_X is not set" in done.stderr


def test_a_missing_grader_target_matters_only_to_model_graders(tmp_path: Path) -> None:
    (tmp_path / "s.eval.yaml").write_text(SUITE)
    unused = "{name: spare, provider: copilot-cli, subprovider: azure, byok: {a: 1}, zork: 1}"
    used = f"{{name: default, grader_target: gone, {CLI}}}"
    (tmp_path / "targets.yaml").write_text(f"targets: [{used}, {unused}]\n")
    validate = ended(tmp_path, "validate", "--json", "s.eval.yaml")
    [problem] = json.loads(validate.stdout)
    assert (problem["severity"], problem["field"]) == ("warning", "targets.default.grader_target")
    assert ended(tmp_path, "run", "s.eval.yaml").returncode == 3  # it got as far as the engine


def test_a_variable_that_is_not_set_is_not_called_a_setting_that_is_missing(tmp_path: Path) -> None:
    (tmp_path / "s.eval.yaml").write_text(SUITE)
    (tmp_path / "targets.yaml").write_text(
        "targets: [{name: default, provider: openai, model: '${{ NOPE_M }}', api_key: '${{ SET_X }}'}]\n"
    )
    done = ended(tmp_path, "validate", "s.eval.yaml")
    assert "model: the environment variable NOPE_M is not set" in done.stdout
    assert "is required" not in done.stdout + done.stderr


def test_validate_says_of_every_target_whether_it_can_be_evaluated_and_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "s.eval.yaml").write_text(SUITE)
    entries = [
        "name: default, provider: openai, model: m, api_key: '${{ SET_X }}'",
        "name: other, provider: gemini, api_key: '${{ NOPE_X }}'",
        "name: half, provider: azure, api_key: '${{ SET_X }}'",
        "name: ide, provider: vscode",
        "name: deaf, provider: cli, command: echo",
        "name: router, provider: pi-cli, subprovider: azure, model: m",
    ]
    (tmp_path / "targets.yaml").write_text("targets:\n" + "".join(f"  - {{{entry}}}\n" for entry in entries))
    done = ended(tmp_path, "validate", "s.eval.yaml")
    assert done.stdout.partition("targets:\n")[2].splitlines() == [
        "  default (openai) can be evaluated; needs SET_X (set)",
        "  other (gemini) can be evaluated; needs NOPE_X (not set)",
        "  half (azure) cannot be evaluated yet: model is required: which model is to answer?;"
        " endpoint is required: where is the server?; needs SET_X (set)",
        "  ide (vscode) cannot be evaluated here",
        "  deaf (cli) cannot be evaluated yet: command: the command does not mention {OUTPUT_FILE}, so the agent cannot"
        " know where its answer goes",
        "  router (pi-cli) cannot be evaluated yet: base_url is required: where is the server, or what is the"
        " resource's name?",
    ]
