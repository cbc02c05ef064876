"""The action and the CI examples: read by the systems' own parsers where these can be had, and run."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from tests.agentv import agentv_modules

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "ci"
SUITE = """
name: small
execution: {target: canned}
tests:
  - {id: good, criteria: c, input: go, assertions: [{type: contains, value: yes}]}
  - {id: poor, criteria: c, input: go, assertions: [{type: contains, value: never}]}
"""
TARGETS = "targets: [{name: canned, provider: mock, response: yes it is}]\n"

pytestmark = pytest.mark.engine


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    (folder / "evals").mkdir(parents=True)
    (folder / "evals" / "small.eval.yaml").write_text(SUITE)
    (folder / "evals" / "targets.yaml").write_text(TARGETS)
    run(["agentv-sandbox", "lock", "evals"], folder)
    return folder


def run(argv: list[str], folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        argv,
        cwd=folder,
        env={**os.environ, "PATH": path, **more},
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )


def assert_small_results(results: Path) -> None:
    suites = ElementTree.parse(results / "junit.xml").getroot()
    assert (suites.get("tests"), suites.get("failures")) == ("2", "1")
    assert (results / "report.html").is_file()


def objections(*paths: Path) -> list[str]:
    modules = agentv_modules()
    script = str(Path(__file__).with_name("parse_actions.mjs"))
    # The parser imports JSON in a way that Node refuses.
    done = run([str(modules / ".bin/bun"), script, str(modules), *map(str, paths)], ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_githubs_parser_takes_the_action_and_the_workflow(tmp_path: Path) -> None:
    assert objections(ROOT / "action.yml", EXAMPLES / "github.yml") == []
    wrong = tmp_path / "action.yml"
    wrong.write_text((ROOT / "action.yml").read_text().replace("using: composite", "using: nothing"))
    workflow = tmp_path / "workflow.yml"
    workflow.write_text((EXAMPLES / "github.yml").read_text().replace("runs-on", "runs-under"))
    seen = objections(wrong, workflow)
    assert any("action.yml" in line for line in seen), "the parser sees mistakes"
    assert any("workflow.yml" in line for line in seen)


def test_the_workflow_gives_the_action_inputs_that_it_has_and_reads_outputs_that_it_has() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    text = (EXAMPLES / "github.yml").read_text()
    [step] = [s for s in yaml.safe_load(text)["jobs"]["evals"]["steps"] if s["uses"] == "./agentv-sandbox"]
    assert set(step["with"]) <= set(action["inputs"])
    assert set(re.findall(r"steps\.evals\.outputs\.(\w+)", text)) <= set(action["outputs"])


def composite(folder: Path, inputs: Mapping[str, str]) -> tuple[int, Path, dict[str, str], str]:
    """The action's steps as a runner runs them: exit status, summary, outputs, log."""
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    given = {name: str(each.get("default", "")) for name, each in action["inputs"].items()} | inputs
    temp = folder.parent / "runner"
    temp.mkdir(exist_ok=True)
    outputs, summary = temp / "outputs", temp / "summary.md"
    outputs.touch()
    files = {"GITHUB_OUTPUT": outputs, "GITHUB_STEP_SUMMARY": summary, "RUNNER_TEMP": temp}
    known = {"GITHUB_ACTIONS": "true", "GITHUB_WORKSPACE": str(folder), "GITHUB_ACTION_PATH": str(ROOT)}
    status, log = 0, ""
    for step in action["runs"]["steps"]:
        script = temp / "step.sh"
        script.write_text(step["run"])

        def value(text: str) -> str:
            return re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: given[found[1]], text)

        env = {name: value(text) for name, text in step.get("env", {}).items()}
        argv = ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)]
        at = folder / value(step.get("working-directory", "."))
        done = run(argv, at, **{name: str(path) for name, path in files.items()}, **known, **env)
        status, log = done.returncode, log + done.stdout + done.stderr
        if status:
            break
    lines = outputs.read_text().splitlines()
    return status, summary, dict(line.split("=", 1) for line in lines), log


def test_the_action_installs_the_project_and_runs_suites(checkout: Path) -> None:
    for name in ("json", "venv", "sitecustomize", "pip"):  # a pull request brings them along
        (checkout / f"{name}.py").write_text(f"open('{checkout}/executed', 'w')\n")
    status, summary, outputs, log = composite(
        checkout, {"suites": "evals", "arguments": "--frozen --workers 2"}
    )
    assert not (checkout / "executed").exists()
    assert status == 1, log
    assert outputs == {"folder": str(checkout / "agentv-sandbox-results"), "verdict": "FAIL"}
    assert_small_results(checkout / "agentv-sandbox-results")
    assert "<code>poor</code>" in summary.read_text()
    assert "::error title=" in log
    # An input is words for the command, whatever a shell would make of them.
    planted = "evals --test-id $(touch${IFS}planted) ; touch planted"
    status, _, outputs, log = composite(checkout, {"suites": planted, "output": "again"})
    assert status == 2, log
    assert not list(checkout.rglob("planted"))


def test_a_gitlab_pipeline_runs(checkout: Path) -> None:
    shutil.copy(EXAMPLES / "gitlab.yml", checkout / ".gitlab-ci.yml")
    for argv in (
        ["init", "-q"],
        ["add", "-A"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"],
    ):
        assert run(["git", *argv], checkout).returncode == 0
    run(["git", "remote", "add", "origin", "git@gitlab.example:group/project.git"], checkout)
    # It copies the checkout for jobs in containers, of which there are none here.
    (stub := checkout.parent / "bin" / "rsync").parent.mkdir()
    stub.write_text("#!/bin/sh\n")
    stub.chmod(0o755)
    path = f"{stub.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    command = str(agentv_modules() / ".bin/gitlab-ci-local")
    done = run([command, "--shell-isolation=false"], checkout, PATH=path)
    assert "validate" in done.stdout, done.stdout + done.stderr
    assert "RESULT: FAIL" in done.stdout + done.stderr, done.stdout + done.stderr
    assert done.returncode == 1
    assert_small_results(checkout / "results")


def test_no_example_keeps_its_cache_where_containers_see_it() -> None:
    jobs = yaml.safe_load((EXAMPLES / "gitlab.yml").read_text())
    assert not [
        name for name, job in jobs.items() if "cache" in job
    ]  # GitLab's cache is of files of the project
    texts = [(EXAMPLES / name).read_text() for name in ("gitlab.yml", "Jenkinsfile")]
    assert not [text for text in texts if "XDG_CACHE_HOME" in text]


def test_the_check_of_an_example_passes_where_keys_are_not_set(tmp_path: Path) -> None:
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals" / "small.eval.yaml").write_text(SUITE)
    target = "{name: canned, provider: openai, model: m, api_key: '${{ NOT_SET_HERE }}'}"
    (tmp_path / "evals" / "targets.yaml").write_text(f"targets: [{target}]\n")
    for name in ("gitlab.yml", "Jenkinsfile"):
        [check] = re.findall(r"agentv-sandbox validate [\w -]+", (EXAMPLES / name).read_text())
        done = run(check.split(), tmp_path)
        assert (done.returncode, "NOT_SET_HERE is not set" in done.stderr) == (0, True), done.stderr


def test_the_steps_of_the_jenkinsfile_run(checkout: Path) -> None:
    """Without Jenkins, which alone reads its language: the shell steps in their order."""
    text = (EXAMPLES / "Jenkinsfile").read_text()
    steps = re.findall(r"^\s*sh '([^']*)'$", text, flags=re.MULTILINE)
    assert len(steps) == 3
    statuses = [run(["sh", "-xec", step], checkout).returncode for step in steps]
    assert statuses == [0, 0, 1]
    [results] = re.findall(r"junit '([^']*)'", text)
    assert_small_results((checkout / results).parent)


FORK = {"pull_request": {"head": {"repo": {"full_name": "stranger/project"}}}}
OURS = {"pull_request": {"head": {"repo": {"full_name": "us/project"}}}}


def test_settings_count_in_the_action_but_for_pull_requests_of_forks() -> None:
    """By GitHub's own evaluator of expressions."""
    step = yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"][1]
    expression = step["env"]["TRUSTED"].removeprefix("${{").removesuffix("}}").strip()
    events: list[tuple[str, object, str]] = [
        ("push", {}, "true"),
        ("pull_request", OURS, "true"),
        ("pull_request", FORK, "false"),
        ("pull_request_target", FORK, "false"),
        ("pull_request", {"pull_request": {"head": {"repo": None}}}, "false"),  # a fork that was deleted
        ("issue_comment", {}, "false"),
        ("workflow_run", {}, "false"),
    ]
    contexts = [
        json.dumps({"event_name": name, "event": event, "repository": "us/project"})
        for name, event, _ in events
    ]
    modules = agentv_modules()
    script = str(Path(__file__).with_name("evaluate_actions.mjs"))
    done = run([str(modules / ".bin/bun"), script, str(modules), expression, *contexts], ROOT)
    assert done.stdout.split() == [answer for _, _, answer in events], done.stderr
    for answer, trusted in (("true", "1"), ("false", "")):
        first_lines = step["run"].partition("bin=")[0]
        seen = run(["bash", "-c", f'{first_lines}echo "<$AGENTV_SANDBOX_TRUST>"'], ROOT, TRUSTED=answer)
        assert seen.stdout == f"<{trusted}>\n"
