"""The tables of the transpiler's definition, row by row, and what ``run_eval.py`` makes of our list."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentv_sandbox.loading import load_suites
from agentv_sandbox.report.transpile import TranspileResult, transpile


def convert(folder: Path, text: str, **options: Any) -> TranspileResult:
    path = folder / "EVAL.yaml"
    path.write_text(text, encoding="utf-8")
    loaded = load_suites([path], cwd=folder, environ={"WHO": "Ada"}, convert=True)
    assert [str(p) for p in loaded.errors] == []
    return transpile(loaded.suites[0], **options)


def only(folder: Path, text: str, **options: Any) -> dict[str, Any]:
    """The one entry of the one evals file."""
    result = convert(folder, text, **options)
    (entry,) = next(iter(result.files.values()))["evals"]
    assert isinstance(entry, dict)
    return entry


def test(fields: str) -> str:
    return f"tests:\n  - id: one\n    {fields}\n"


test.__test__ = False  # type: ignore[attr-defined]

MIXED = """
tests:
  - id: csv-top-months
    criteria: Agent finds the top 3 months by revenue
    input:
      - role: user
        content:
          - {type: file, value: evals/files/sales.csv}
          - {type: text, value: "I have a CSV of monthly sales data. Find the top 3 months by revenue."}
    expected_output: "The top 3 months by revenue are November, September and December."
    assert:
      - {type: trigger-judge, skill: csv-analyzer, should_trigger: true}
      - {type: rubrics, criteria: "Output identifies November as the highest revenue month"}
      - {type: contains, value: "$22,500"}
  - id: irrelevant-query
    input: "What time is it?"
    assert:
      - {type: trigger-judge, skill: csv-analyzer, should_trigger: false}
"""


def test_a_mixed_suite(tmp_path: Path) -> None:
    result = convert(tmp_path, MIXED)
    assert result.files == {
        "evals.json": {
            "skill_name": "csv-analyzer",
            "evals": [
                {
                    "id": 1,
                    "prompt": "I have a CSV of monthly sales data. Find the top 3 months by revenue.",
                    "expected_output": "The top 3 months by revenue are November, September and December.",
                    "files": ["evals/files/sales.csv"],
                    "should_trigger": True,
                    "assertions": [
                        "Agent finds the top 3 months by revenue",
                        "Output identifies November as the highest revenue month",
                        "Output contains '$22,500'",
                    ],
                },
                {"id": 2, "prompt": "What time is it?", "should_trigger": False, "assertions": []},
            ],
        },
        "eval-set.json": [
            {
                "query": "I have a CSV of monthly sales data. Find the top 3 months by revenue.",
                "should_trigger": True,
                "id": 1,
            },
            {"query": "What time is it?", "should_trigger": False, "id": 2},
        ],
    }
    assert result.skills == ("csv-analyzer",)
    assert result.warnings == ()
    keys = ["id", "prompt", "expected_output", "files", "should_trigger", "assertions"]
    assert list(result.files["evals.json"]["evals"][0]) == keys


ASSERTIONS = [
    ("plain sentence", ["plain sentence"]),
    ("{type: rubrics, criteria: Names November}", ["Names November"]),
    ("{type: rubrics, criteria: [A, {outcome: B}, {criteria: C}]}", ["A", "B", "C"]),
    ("{type: contains, value: '$5'}", ["Output contains '$5'"]),
    ("{type: icontains, value: x}", ["Output contains (case-insensitive) 'x'"]),
    ("{type: contains-any, value: [a, b]}", ["Output contains any of: 'a', 'b'"]),
    ("{type: contains_all, value: [a, b]}", ["Output contains all of: 'a', 'b'"]),
    ("{type: icontains-any, value: [a]}", ["Output contains (case-insensitive) any of: 'a'"]),
    ("{type: icontains-all, value: [a]}", ["Output contains (case-insensitive) all of: 'a'"]),
    ("{type: starts-with, value: x}", ["Output starts with 'x'"]),
    ("{type: ends-with, value: x}", ["Output ends with 'x'"]),
    ("{type: regex, value: 'a+'}", ["Output matches regex: a+"]),
    ("{type: regex, value: 'a+', flags: i}", ["Output matches regex: a+ (flags: i)"]),
    ("{type: equals, value: x}", ["Output exactly equals: x"]),
    ("{type: is-json}", ["Output is valid JSON"]),
    ("{type: llm-judge, prompt: 'Is it polite?'}", ["Is it polite?"]),
    ("{type: llm-grader, prompt: ./judge.md}", ["Judge {{ output }} well."]),
    ("{type: agent-judge, rubrics: [A, {outcome: B}]}", ["A", "B"]),
    (
        "{type: tool-trajectory, mode: in_order, expected: [{tool: search}, {tool: open}]}",
        ["Agent called tools in order: search, open"],
    ),
    (
        "{type: tool-trajectory, mode: any_order, minimums: {search: 2}}",
        ["Agent called tools: search (at least 2 times)"],
    ),
    ("{type: tool-trajectory, mode: subset, expected: []}", ["Agent followed expected tool trajectory"]),
    ("{type: code-judge, name: totals, command: [python3, t.py], description: sums up}", ["totals: sums up"]),
    ("{type: code-judge, command: [python3, t.py], description: sums up}", ["python3 t.py: sums up"]),
    ("{type: code-grader, command: [python3, t.py]}", ["python3 t.py"]),
    ("{type: script, command: grep -q x out.txt}", ["grep -q x out.txt"]),
    ("{type: field-accuracy, fields: [{path: a.b}, {path: c}]}", ["Fields a.b, c match expected values"]),
    ("{type: latency, threshold: 2000}", ["Response time under 2000ms"]),
    ("{type: cost, budget: 0.25}", ["Cost under $0.25"]),
    ("{type: token-usage, max_total: 5}", ["Token usage within limits"]),
    ("{type: execution-metrics, max_tool_calls: 5}", ["Execution within metric bounds"]),
    ("{type: contains, value: x, negate: true}", ["This must not hold: Output contains 'x'"]),
    (
        "{type: composite, assertions: [{type: is-json}, {type: equals, value: x}], "
        "aggregator: {type: weighted_average}}",
        ["Output is valid JSON", "Output exactly equals: x"],
    ),
    ("{type: my-own, limit: 3}", ["my-own assertion"]),
    ("{type: llm-grader, name: dynamic, prompt: {command: [bun, p.ts]}}", ["dynamic assertion"]),
]


@pytest.mark.parametrize(("item", "sentences"), ASSERTIONS, ids=[row[0][:50] for row in ASSERTIONS])
def test_every_assertion_type_becomes_language(tmp_path: Path, item: str, sentences: list[str]) -> None:
    (tmp_path / "judge.md").write_text("Judge {{ output }} well.\n")
    entry = only(tmp_path, test(f"input: x\n    assert:\n      - {item}"))
    assert entry["assertions"] == sentences
    assert "should_trigger" not in entry


@pytest.mark.parametrize("kind", ["trigger-judge", "skill-trigger", "skill_trigger"])
@pytest.mark.parametrize(
    ("written", "expected"),
    [("", True), (", should_trigger: true", True), (", should_trigger: false", False)],
)
def test_triggers(tmp_path: Path, kind: str, written: str, expected: bool) -> None:
    entry = only(tmp_path, test(f"input: x\n    assert: [{{type: {kind}, skill: s{written}}}]"))
    assert (entry["should_trigger"], entry["assertions"]) == (expected, [])


INPUTS = [
    ("input: hello", "hello", None),
    ("input: [{role: user, content: hello}]", "hello", None),
    ("input: [{role: user, content: [{type: text, value: a}, {type: text, value: b}]}]", "a\nb", None),
    ("input: x\n    input_files: [a.csv, b.csv]", "x", ["a.csv", "b.csv"]),
    ("input: {city: Oslo}", '{"city":"Oslo"}', None),
    ("vars: {n: 3}\n    input: 'n={{ n }} ${{ WHO }}'", "n=3 Ada", None),
    (
        "input: [{role: user, content: [{type: file, value: a}, one]}, {role: assistant, content: y}, "
        "{role: user, content: [two, {type: file, value: b}]}]",
        "two",
        ["a", "b"],
    ),
]


@pytest.mark.parametrize(("fields", "prompt", "files"), INPUTS, ids=[row[0][:40] for row in INPUTS])
def test_prompts_and_files(tmp_path: Path, fields: str, prompt: str, files: list[str] | None) -> None:
    entry = only(tmp_path, test(f"criteria: y\n    {fields}"))
    assert (entry["prompt"], entry.get("files")) == (prompt, files)
    assert entry["assertions"] == ["y"]


OUTPUTS = [
    ("done", "done"),
    ("[{role: assistant, content: a}, {role: assistant, content: b}]", "b"),
    ("[{role: assistant, content: [{type: text, value: a}, {type: text, value: b}]}]", "a\nb"),
    ("{a: [1, 2]}", '{"a":[1,2]}'),
]


@pytest.mark.parametrize(("written", "flat"), OUTPUTS)
def test_expected_output_is_flat(tmp_path: Path, written: str, flat: str) -> None:
    assert only(tmp_path, test(f"input: x\n    expected_output: {written}"))["expected_output"] == flat


def test_suite_level_entries_reach_every_test(tmp_path: Path) -> None:
    text = """
input_files: [a.csv]
assert: [Polite, {type: skill-trigger, skill: s}]
tests:
  - {id: a, input: x, criteria: A}
  - {id: b, input: y, assert: [B], input_files: [b.csv]}
  - {id: c, input: z, criteria: C, execution: {skip_defaults: true}}
"""
    evals = convert(tmp_path, text).files["evals.json"]["evals"]
    assert [(e.get("files"), e["assertions"], e.get("should_trigger")) for e in evals] == [
        (["a.csv"], ["A", "Polite"], True),
        (["b.csv"], ["B", "Polite"], True),
        (None, ["C"], None),
    ]


def test_numeric_ids_are_kept_and_stay_unique(tmp_path: Path) -> None:
    text = "tests:\n" + "".join(f"  - {{id: {i}, input: x, criteria: y}}\n" for i in ("a", 7, "b", 2, "c"))
    result = convert(tmp_path, text)
    assert [e["id"] for e in result.files["_no-skill.json"]["evals"]] == [1, 7, 3, 2, 5]
    text = "tests:\n" + "".join(f"  - {{id: {i}, input: x, criteria: y}}\n" for i in ("a", "b", 1, 2))
    result = convert(tmp_path, text)
    assert [e["id"] for e in result.files["_no-skill.json"]["evals"]] == [3, 4, 1, 2]
    assert ["test 'a' gets the id 3" in str(w) for w in result.warnings] == [True, False]


SEVERAL = """
tests:
  - {id: none, input: n, criteria: N}
  - id: both
    input: q
    assert: [{type: skill-trigger, skill: a/b}, {type: skill-trigger, skill: c, should_trigger: false}]
  - {id: second, input: r, assert: [{type: skill-trigger, skill: c}]}
  - {id: odd, input: s, assert: [{type: skill-trigger, skill: A_B}]}
"""


def test_one_file_a_skill(tmp_path: Path) -> None:
    result = convert(tmp_path, SEVERAL)
    found = {
        name: [(e["id"], e.get("should_trigger")) for e in content["evals"]]
        for name, content in result.files.items()
        if name.endswith(".evals.json")
    }
    assert found == {
        "a_b.evals.json": [(2, True)],
        "c.evals.json": [(2, False), (3, True), (1, None)],
        "A_B-2.evals.json": [(4, True)],
    }
    assert result.skills == ("a/b", "c", "A_B")
    assert [c["skill_name"] for n, c in result.files.items() if n.endswith(".evals.json")] == [
        "a/b",
        "c",
        "A_B",
    ]
    assert result.files["c.eval-set.json"] == [
        {"query": "q", "should_trigger": False, "id": 2},
        {"query": "r", "should_trigger": True, "id": 3},
    ]


def test_no_skill_at_all(tmp_path: Path) -> None:
    assert list(convert(tmp_path, test("input: x\n    criteria: y")).files) == ["_no-skill.json"]


def test_expectations_for_skill_creators_own_schema(tmp_path: Path) -> None:
    entry = only(tmp_path, test("input: x\n    criteria: y"), expectations=True)
    assert entry["expectations"] == entry["assertions"] == ["y"]


LOST = [
    (
        "input: x\n    assert: [{type: contains, value: x, weight: 3, required: true}]",
        "no counterpart for weight and required of 'contains-x'",
    ),
    ("input: x\n    assert: [{type: my-own}]", "the custom assertion 'my-own' has no translation"),
    ("input: x\n    assert: [{type: llm-grader, prompt: {command: [bun, p.ts]}}]", "comes from a program"),
    ("input: x\n    assert: [{type: llm-grader, prompt: p, rubrics: [A]}]", "gave way to its rubrics"),
    (
        "input: [{role: system, content: s}, {role: user, content: x}]\n    criteria: y",
        "only the last user message",
    ),
    (
        "input: x\n    criteria: y\n    mode: conversation\n    turns: [{input: a}]",
        "a conversation became one query",
    ),
    (
        "input: x\n    criteria: y\n    workspace: {isolation: shared}",
        "no counterpart for the suite's workspace",
    ),
    ("input: x\n    criteria: y\n    outputs: [a]", "no counterpart for the suite's outputs"),
    (
        "input: x\n    criteria: y\n    execution: {threshold: 0.5}",
        "no counterpart for the suite's threshold",
    ),
]


@pytest.mark.parametrize(("fields", "warning"), LOST, ids=[row[1][:40] for row in LOST])
def test_nothing_is_lost_without_a_warning(tmp_path: Path, fields: str, warning: str) -> None:
    result = convert(tmp_path, test(fields))
    assert any(warning in str(w) for w in result.warnings), [str(w) for w in result.warnings]
    assert all(w.warning for w in result.warnings)


def stand_in_for_run_eval(text: str) -> list[tuple[str, bool]]:
    """Reads an eval set as skill-creator does: a list of objects, of which only two keys are looked at."""
    rows = json.loads(text)
    assert isinstance(rows, list)
    return [(row["query"], row["should_trigger"]) for row in rows]


def test_run_eval_reads_our_list(tmp_path: Path) -> None:
    result = convert(tmp_path, SEVERAL)
    text = json.dumps(result.files["c.eval-set.json"])
    assert stand_in_for_run_eval(text) == [("q", False), ("r", True)]


@pytest.mark.slow
def test_written_json_reads_back_equal(tmp_path: Path) -> None:
    files = convert(tmp_path, MIXED).files
    assert json.loads(json.dumps(files)) == files
