"""AgentV's configuration files: nothing in them is dropped without a word."""

from __future__ import annotations

from tests.loading.conftest import Project

SUITE = "tests: [{id: t, input: x, criteria: y}]"
CONFIG = """
required_version: ">=4.0"
eval_patterns: ["**/*.yaml"]
execution: {verbose: true, keep_workspaces: true, otel_file: x.json, pool_slots: 2, odd: 1}
results: {repo: a/b}
hooks: {before_session: "echo A=1"}
studio: {threshold: 0.5}
projects: []
mistyped: 1
"""


def test_every_key_of_the_project_is_named_with_its_counterpart(project: Project) -> None:
    project.write(".agentv/config.yaml", CONFIG)
    project.write("agentv.config.ts", "export default {}\n")
    found = project.problems(SUITE)
    assert all(each.startswith("warning ") for each in found)
    keys = [each.split(": ")[1] for each in found]
    assert keys == [
        "required_version",
        "eval_patterns",
        "execution.verbose",
        "execution.keep_workspaces",
        "execution.otel_file",
        "execution.pool_slots",
        "execution.odd",
        "results",
        "hooks.before_session",
        "mistyped",
        "",
    ]
    assert "--keep-failed" in found[3]
    assert "is not a key of AgentV's configuration" in found[6]
    assert "is a program, and is not run" in found[10]


def test_the_users_own_counts_where_the_project_has_none(project: Project) -> None:
    home = project.write("home/config.yaml", "results: {repo: a/b}\n").parent
    environ = {"AGENTV_HOME": str(home)}
    assert "results: is not read" in project.problems(SUITE, environ=environ)[0]
    project.write(".agentv/config.yaml", "studio: {}\n")
    assert project.problems(SUITE, environ=environ) == []


def test_what_cannot_be_read_is_no_error(project: Project) -> None:
    project.write(".agentv/config.yaml", "a: [\n")
    (found,) = project.problems(SUITE)
    assert "cannot be read as YAML" in found


def test_two_spellings_are_named_as_they_are_written(project: Project) -> None:
    text = "tests: [{id: t, input: x, assert: [a], assertions: [b]}]"
    (found,) = project.problems(text)
    assert "'assertions' and 'assert' are two spellings of one key" in found
