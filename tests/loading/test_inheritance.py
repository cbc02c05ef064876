"""What tests take over from their suite: assertions, metadata, preprocessors, workspace, variables."""

from __future__ import annotations

from typing import Any

import pytest

from agentv_sandbox.models.suite import NetworkPolicy, Trials

from .conftest import Project

XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"


def names(case: Any) -> list[str]:
    return [spec.name for spec in case.assertions]


@pytest.mark.parametrize("own", ["assertions", "assert", "evaluators"])
@pytest.mark.parametrize("suite", ["assertions", "assert", "evaluators"])
def test_suite_assertions_follow_the_tests_own(project: Project, own: str, suite: str) -> None:
    found = project.suite(f"""
    {suite}: [{{type: is-json}}]
    tests:
      - {{id: a, input: x, {own}: [{{type: equals, value: y}}]}}
      - {{id: b, input: x, execution: {{{own}: [{{type: equals, value: z}}]}}}}
      - {{id: c, input: x, criteria: y, execution: {{skip_defaults: true}}}}
    """)
    assert [names(case) for case in found.cases] == [
        ["equals-y", "is-json"],
        ["equals-z", "is-json"],
        ["llm-grader"],
    ]
    assert [spec.implicit for spec in found.cases[2].assertions] == [True]


def test_execution_of_the_suite_may_hold_its_assertions(project: Project) -> None:
    text = "execution: {assertions: [{type: is-json}]}\ntests:\n  - {id: a, input: x}\n"
    assert names(project.suite(text).cases[0]) == ["is-json"]


def test_a_tests_rubrics_come_first(project: Project) -> None:
    case = project.suite(
        "tests:\n  - {id: a, input: x, rubrics: [A, {outcome: B}], assert: [{type: is-json}]}\n"
    ).cases[0]
    assert names(case) == ["rubrics", "is-json"]
    options: Any = case.assertions[0].options
    assert [(r.id, r.outcome) for r in options.rubrics] == [("rubric-1", "A"), ("rubric-2", "B")]
    assert case.assertions[0].weight == 1


def test_metadata_is_merged(project: Project) -> None:
    case = project.suite("""
    metadata: {source: suite, tags: [a, b], deep: {x: 1, list: [1]}, governance: {owner: nobody}}
    governance: {owner: team}
    tests:
      - id: a
        input: x
        criteria: y
        metadata: {row: 1, source: test, tags: [b, c], deep: {y: 2, list: [2, 1]}}
    """).cases[0]
    assert case.metadata == {
        "source": "test",
        "row": 1,
        "tags": ["a", "b", "c"],
        "deep": {"x": 1, "y": 2, "list": [1, 2]},
        "governance": {"owner": "team"},
    }


def test_preprocessors_are_merged_by_media_type_for_every_grader(project: Project) -> None:
    project.write("a.py")
    suite = project.suite(f"""
    preprocessors:
      - {{type: XLSX, command: [python3, a.py]}}
      - {{type: html, command: [bash, -c, "cat"]}}
      - {{type: pdf, command: ["builtin:pdf"]}}
    tests:
      - id: a
        input: x
        assert:
          - Says A
          - {{type: llm-grader, prompt: ok?, preprocessors: [{{type: "{XLSX}", command: ["builtin:xlsx"]}}]}}
          - type: composite
            assertions: [{{type: llm-grader, name: m, prompt: ok?}}]
            aggregator: {{type: weighted_average}}
      - {{id: b, input: x, criteria: y}}
    """)
    mine = ("python3", str(project.root / "a.py"))
    expected = {XLSX: mine, "text/html": ("bash", "-c", "cat"), "application/pdf": ("builtin:pdf",)}
    first, second, composite = suite.cases[0].assertions
    options: Any = composite.options
    for spec in (first, options.members[0], suite.cases[1].assertions[0]):
        assert {p.media_type: p.command for p in spec.preprocessors} == expected
    assert {p.media_type: p.command for p in second.preprocessors} == {**expected, XLSX: ("builtin:xlsx",)}


def test_preprocessor_scripts_are_found_through_the_search_roots(project: Project) -> None:
    script = project.write("scripts/x.py")
    text = """
    preprocessors: [{type: csv, command: [python3, scripts/x.py, --all]}, {type: txt, command: [scripts/tool]}]
    tests: [{id: a, input: x, criteria: y}]
    """
    tool = project.write("evals/scripts/tool")
    suite = project.suite(text, "evals/x.eval.yaml")
    assert [p.command for p in suite.preprocessors] == [("python3", str(script), "--all"), (str(tool),)]


def test_outputs_limits_network_and_execution(project: Project) -> None:
    suite = project.suite("""
    name: " sales "
    category: demo
    description: d
    tags: t
    outputs: ["out/*.csv", report.md]
    network: {allow: ['example.com:443']}
    limits: {timeout_seconds: 5, memory: 1.5GiB}
    execution: {workers: 4, threshold: 0.5, trials: {count: 3, strategy: pass_any, cost_limit_usd: 1}, budget_usd: 2,
      fail_on_error: 0.5, cache: true}
    tests:
      - {id: a, input: x, criteria: y, outputs: [], execution: {threshold: 0.9, targets: []}, depends_on: [b]}
      - {id: b, input: x, criteria: y, conversation_id: c, on_dependency_failure: run}
    """)
    a, b = suite.cases
    assert (suite.name, suite.category, suite.description, suite.tags) == ("sales", "demo", "d", ("t",))
    assert (a.outputs, b.outputs) == ((), ("out/*.csv", "report.md"))
    assert (a.threshold, b.threshold, suite.execution.threshold) == (0.9, None, 0.5)
    assert (a.depends_on, b.on_dependency_failure, b.conversation_id) == (("b",), "run", "c")
    assert suite.network == NetworkPolicy(allow=("example.com:443",))
    assert (suite.limits.timeout_s, suite.limits.memory_bytes) == (5, int(1.5 * (1 << 30)))
    assert suite.execution.trials == Trials(count=3, strategy="pass_at_k", cost_limit_usd=1)
    assert (suite.execution.workers, suite.execution.budget_usd, suite.execution.fail_on_error) == (4, 2, 0.5)
    assert {case.suite for case in suite.cases} == {"sales"}


@pytest.mark.parametrize(
    ("name", "suite", "category"),
    [
        ("evals/demo/sales.eval.yaml", "sales", "demo"),
        ("EVAL.yaml", "EVAL", "Uncategorized"),
        ("a/evals/b/x.EVAL.yml", "x", "a/b"),
        ("plain.yaml", "plain", "Uncategorized"),
    ],
)
def test_names_come_from_the_file(project: Project, name: str, suite: str, category: str) -> None:
    found = project.suite("tests: [{id: a, input: x, criteria: y}]", name)
    assert (found.name, found.category) == (suite, category)


def test_conversations(project: Project) -> None:
    case = project.suite("""
    tests:
      - id: a
        mode: conversation
        input: [{role: system, content: s}]
        aggregation: min
        on_turn_failure: stop
        window_size: 2
        assert: [Polite]
        turns:
          - {input: one, assert: [A, B, {type: is-json}]}
          - {input: [{type: text, value: two}], expected_output: 2}
          - {input: three}
    """).cases[0]
    talk = case.conversation
    assert talk is not None
    assert (talk.aggregation, talk.on_turn_failure, talk.window_size) == ("min", "stop", 2)
    first, second, third = talk.turns
    assert [s.name for s in first.assertions] == ["turn-rubrics", "is-json"]
    options: Any = first.assertions[0].options
    assert [(r.id, r.required) for r in options.rubrics] == [("criterion-1", False), ("criterion-2", False)]
    assert (second.input, second.expected_output) == ([{"type": "text", "value": "two"}], 2)
    assert [s.implicit for s in second.assertions] == [True]
    assert third.assertions == ()
    assert names(case) == ["rubrics"]


@pytest.mark.parametrize(
    ("tests", "expected"),
    [
        ("[{id: a, input: x, criteria: y, mode: conversation}]", "a conversation needs turns"),
        ("[{id: a, input: x, turns: []}]", "must not be empty"),
        ("[{id: a, input: x, turns: [{expected_output: y}]}]", "input: is required"),
        ("[{id: a, input: x, criteria: y, depends_on: [a]}]", "tests wait for each other: a → a"),
        ("[{id: a, input: x, criteria: y}, {id: a, input: x, criteria: y}]", "a second test has the id 'a'"),
        ("[{input: x, criteria: y}]", "id: is required"),
        ("[{id: '', input: x, criteria: y}]", "id: must not be empty"),
        ("[5]", "tests[0]: must be a mapping with an id, found 5"),
        ("[]", "tests: must not be empty"),
        ("{a: b}", "tests: must be"),
    ],
)
def test_what_is_refused(project: Project, tests: str, expected: str) -> None:
    found = project.problems(f"tests: {tests}\n")
    assert any(expected in problem for problem in found), found


def test_circles_of_dependencies_are_found_once(project: Project) -> None:
    text = "".join(
        f"  - {{id: {a}, input: x, criteria: y, depends_on: [{b}]}}\n"
        for a, b in ["ab", "bc", "ca", "da", "ef"]
    )
    found = project.problems("tests:\n" + text + "  - {id: f, input: x, criteria: y}\n")
    assert found == [
        "2: tests[0].depends_on: tests wait for each other: a → b → c → a (take one of these out of depends_on)"
    ]


def test_a_suite_without_tests(project: Project) -> None:
    assert project.problems("name: x\n") == [
        "1: tests: is required (write tests: a list of tests, or the path of a file or folder.)"
    ]
    for text, found in (("", "nothing (null)"), ("- a\n", "a list")):
        (problem,) = project.problems(text)
        assert problem.startswith(
            f"1: : must hold a mapping with tests, found {found} (begin with a line tests:"
        )


def test_a_tests_own_trials_are_its_own(project: Project) -> None:
    suite = project.suite(
        """
        execution: {trials: 2}
        tests:
          - {id: a, input: x, criteria: y, execution: {trials: {count: 4, strategy: pass_any}}}
          - {id: b, input: x, criteria: y, execution: {threshold: 0.5}}
        """
    )
    assert [case.trials for case in suite.cases] == [Trials(count=4, strategy="pass_at_k"), None]


@pytest.mark.parametrize("key", ["workers: 2", "budget_usd: 1", "fail_on_error: true", "measured_by: host"])
def test_what_holds_for_a_suite_is_refused_for_a_test_with_its_line(project: Project, key: str) -> None:
    project.write(
        "suite.eval.yaml",
        f"""
        tests:
          - id: a
            input: x
            criteria: y
            execution:
              {key}
        """,
    )
    [problem] = project.load().errors
    assert (problem.line, problem.field) == (7, f"tests[0].execution.{key.partition(':')[0]}")
    assert "holds for a suite, not for one test" in problem.message
