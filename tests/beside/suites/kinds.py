"""Kinds of assertions, and the rules of their scores: names, weights, gates, negation, nesting."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tests.beside.small import Said, Small

JSON_ANSWER = (
    '{"total": 12.5, "name": "Ann", "day": "2025-03-04", "items": [{"id": 1}, {"id": "b"}], "ok": true}'
)
MARKED = "Sure:\n```json\n" + JSON_ANSWER + "\n```\n"


def graded(
    name: str, *assertions: str, answers: Said = "fine", test: str = "", top: str = "", **more: object
) -> Small:
    """One test with ``assertions``; ``test`` and ``top`` are more lines of it and of the suite."""
    lines = "".join(f"\n      - {line}" for line in assertions)
    suite = f"{top}\ntests:\n  - id: t\n    input: Go on\n    {test}\n    assertions:{lines}\n"
    return Small(name=name, suite=suite, answers=answers, **more)  # type: ignore[arg-type]


def checks(**satisfied: bool) -> str:
    """What a judge says of a checklist."""
    rows = [{"id": id_, "satisfied": is_so, "reasoning": "r"} for id_, is_so in satisfied.items()]
    return json.dumps({"checks": rows, "overall_reasoning": "o"})


def fields(name: str, *rows: str, expected: str, answer: str, how: str = "") -> Small:
    """``field-accuracy``: one assertion for each of ``rows``."""
    made = [f"{{type: field-accuracy, name: f{n}, fields: [{row}]{how}}}" for n, row in enumerate(rows)]
    return graded(name, *made, answers=answer, test=f"expected_output: {expected}")


_TEXTS: Mapping[str, tuple[str, ...]] = {
    "contains": (
        "{type: contains, value: fine}",
        "{type: contains, value: Fine}",
        "{type: icontains, value: FINE}",
    ),
    "contains-lists": (
        "{type: contains-any, value: [a, fine]}",
        "{type: contains-all, value: [fine, b]}",
        "{type: icontains-any, value: [FINE]}",
        "{type: icontains-all, value: [FINE, B]}",
    ),
    "ends": (
        "{type: starts-with, value: fi}",
        "{type: ends-with, value: ne}",
        "{type: starts-with, value: x}",
        "{type: equals, value: fine}",
        "{type: equals, value: ' fine '}",
    ),
    "regex": (
        "{type: regex, value: '^f.*e$'}",
        "{type: regex, value: FINE, flags: i}",
        "{type: regex, value: '\\d'}",
    ),
    "is-json": ("{type: is-json}",),
    "snake-names": (
        "{type: is_json}",
        "{type: contains_any, value: [fine]}",
        "{type: starts_with, value: f}",
    ),
    "names": (
        "{type: contains, value: fine}",
        "{type: contains, value: fine, name: own}",
        "{type: regex, value: abcdefghijklmnopqrstuvwxyzabcdefghijklmnop}",
        "{type: equals, value: fine}",
        "{type: contains-any, value: [a, b]}",
        "{type: is-json}",
    ),
    "weights": (
        "{type: contains, value: fine, weight: 3}",
        "{type: contains, value: no, weight: 1}",
        "{type: contains, value: zero, weight: 0}",
    ),
    "no-weight": ("{type: contains, value: fine, weight: 0}",),
    "half-weight": (
        "{type: contains, value: fine, weight: 0.5}",
        "{type: contains, value: no, weight: 0.25}",
    ),
    "negate": (
        "{type: contains, value: no, negate: true}",
        "{type: contains, value: fine, negate: true}",
        "{type: regex, value: '[0-9]', negate: true}",
    ),
    "required": ("{type: contains, value: fine}", "{type: contains, value: no, required: true}"),
    "required-met": ("{type: contains, value: fine, required: true}", "{type: contains, value: no}"),
    "required-number": ("{type: contains, value: no, required: 0.5}", "{type: contains, value: fine}"),
    "min-score": ("{type: contains, value: no, min_score: 0.5}", "{type: contains, value: fine}"),
    "required-min-score": (
        "{type: contains, value: no, required: true, min_score: 0.5}",
        "{type: contains, value: fine}",
    ),
    "same-kind-twice": ("{type: contains, value: fine}", "{type: contains, value: fine}"),
    "sentences": ("Is polite", "Is short", "{type: contains, value: fine}"),
    "one-sentence": ("Is polite",),
    "sentence-between": (
        "{type: contains, value: fine}",
        "Is polite",
        "{type: contains, value: no}",
        "Is short",
    ),
    "rubric-forms": (
        "{type: rubrics, criteria: [Is polite, {outcome: Is short}, {id: x, outcome: Is true, weight: 2, required: false}]}",
    ),
    "rubrics-text": ("{type: rubrics, criteria: Is polite}",),
    "operators": (
        "{type: rubrics, criteria: [{id: a, outcome: A, operator: correctness}, {id: b, outcome: B, operator: contradiction}]}",
    ),
    "llm-weight": ("{type: llm-grader, prompt: Be right, weight: 3}", "{type: contains, value: no}"),
    "llm-negate": ("{type: llm-grader, prompt: Be right, negate: true}",),
    "llm-required": ("{type: llm-grader, prompt: Be right, required: 0.95}", "{type: contains, value: fine}"),
    "tool-none": ("{type: tool-trajectory, mode: any_order, minimums: {Read: 1}}",),
    "latency-none": (
        "{type: latency, threshold: 100000}",
        "{type: cost, budget: 1}",
        "{type: token-usage, max_total: 100}",
    ),
    "tokens": (
        "{type: token-usage, max_input: 11}",
        "{type: token-usage, max_input: 10}",
        "{type: token-usage, max_output: 7, max_total: 18}",
        "{type: token-usage, max_total: 17}",
    ),
    "metrics": (
        "{type: execution-metrics, max_tool_calls: 1, max_tokens: 20}",
        "{type: execution-metrics, max_llm_calls: 1, max_tokens: 10}",
    ),
    "skill": (
        "{type: skill-trigger, skill: csv, should_trigger: false}",
        "{type: skill-trigger, skill: csv}",
    ),
}
_YES, _NO = "{name: yes, type: contains, value: fine}", "{name: no, type: contains, value: nope}"
_COMPOSITES: Mapping[str, str] = {
    "average": f"assertions: [{_YES}, {_NO}], aggregator: {{type: weighted_average}}",
    "average-weights": f"assertions: [{_YES}, {_NO}], aggregator: {{type: weighted_average, weights: {{yes: 3}}}}",
    "threshold": f"assertions: [{_YES}, {_NO}], aggregator: {{type: threshold, threshold: 0.5}}",
    "threshold-missed": f"assertions: [{_YES}, {_NO}], aggregator: {{type: threshold, threshold: 0.9}}",
    "nested": (
        f"assertions: [{{name: in, type: composite, assertions: [{_YES}, {_NO}], aggregator: {{type: weighted_average}}}}, {_YES}], "
        "aggregator: {type: weighted_average}"
    ),
    "judge": f"assertions: [{_YES}, {_NO}], aggregator: {{type: llm-grader, prompt: 'Weigh {{{{EVALUATOR_RESULTS_JSON}}}}'}}",
    "with-llm": f"assertions: [{_YES}, {{name: j, type: llm-grader, prompt: Be right}}], aggregator: {{type: weighted_average}}",
    "negated": f"negate: true, assertions: [{_YES}, {_NO}], aggregator: {{type: weighted_average}}",
    "weight": f"weight: 4, assertions: [{_YES}], aggregator: {{type: weighted_average}}",
}
_EXPECTED = "{total: 12.5, name: Ann, day: 2025-03-04, items: [{id: 1}, {id: b}], ok: true}"
FIELDS = (
    fields(
        "fields-exact",
        "{path: total, match: exact}",
        "{path: name, match: exact}",
        "{path: items.0.id, match: exact}",
        "{path: 'items[1].id', match: exact}",
        "{path: ok, match: exact}",
        "{path: missing, match: exact}",
        "{path: missing, match: exact, required: false}",
        expected=_EXPECTED,
        answer=JSON_ANSWER,
    ),
    fields("fields-fenced", "{path: total, match: exact}", expected=_EXPECTED, answer=MARKED),
    fields("fields-no-json", "{path: total, match: exact}", expected=_EXPECTED, answer="nothing"),
    fields(
        "fields-tolerance",
        "{path: a, match: numeric_tolerance, tolerance: 0.5}",
        "{path: a, match: numeric_tolerance, tolerance: 0.1, relative: true}",
        "{path: b, match: numeric_tolerance, tolerance: 1}",
        "{path: c, match: numeric_tolerance, tolerance: 1}",
        expected="{a: 10, b: '12 apples', c: x}",
        answer='{"a": 10.4, "b": "12.5", "c": 3}',
    ),
    *(
        fields(
            f"dates-{name}",
            "{path: d, match: date}",
            "{path: d, match: date, formats: [DD/MM/YYYY]}",
            expected=f"{{d: '{expected}'}}",
            answer=f'{{"d": "{actual}"}}',
        )
        for name, expected, actual in (
            ("iso", "2025-03-04", "2025-03-04T10:00:00Z"),
            ("year", "2025", "2025-01-01"),
            ("year-differs", "2025", "2026-01-01"),
            ("month", "2025-03", "2025-03-01"),
            ("month-name", "March 2025", "2025-03-01"),
            ("month-short", "Mar 2025", "2025-03-01"),
            ("written", "March 4, 2025", "2025-03-04"),
            ("written-short", "4 Mar 2025", "2025-03-04"),
            ("dashed", "04-MAR-2025", "2025-03-04"),
            ("slashes", "04/03/2025", "2025-03-04"),
            ("slashes-us", "03/04/2025", "2025-03-04"),
            ("slashes-sure", "25/12/2025", "2025-12-25"),
            ("none", "soon", "2025-03-04"),
            ("number", "1741046400000", "2025-03-04"),
            ("iso-basic", "20250304", "2025-03-04"),
            ("weekday", "Tue, 04 Mar 2025", "2025-03-04"),
            ("year-slash", "2025/03/04", "2025-03-04"),
            ("month-slash", "03/2025", "2025-03-01"),
            ("month-short-number", "2025-3", "2025-03-01"),
            ("quarter", "Q1 2025", "2025-01-01"),
            ("no-year", "4 March", "2025-03-04"),
            ("no-month", "2025-13", "2025-03-04"),
            ("zone", "2025-03-04T23:30:00-05:00", "2025-03-05"),
            ("time", "2025-03-04 23:30", "2025-03-04"),
            ("dots", "04.03.2025", "2025-03-04"),
        )
    ),
    fields(
        "fields-weights",
        "{path: a, match: exact, weight: 3}, {path: b, match: exact}",
        expected="{a: 1, b: 2}",
        answer='{"a": 1, "b": 3}',
    ),
    fields(
        "fields-all",
        "{path: a, match: exact}, {path: b, match: exact}",
        expected="{a: 1, b: 2}",
        answer='{"a": 1, "b": 3}',
        how=", aggregation: all_or_nothing",
    ),
)
KINDS = (
    *(graded(f"kind-{name}", *lines) for name, lines in _TEXTS.items()),
    *(
        graded(f"composite-{name}", f"{{name: all, type: composite, {how}}}")
        for name, how in _COMPOSITES.items()
    ),
    graded("kind-is-json-answer", "{type: is-json}", answers=JSON_ANSWER),
    graded(
        "kind-multiline",
        "{type: regex, value: '^b$', flags: m}",
        '{type: contains, value: "a\\nb"}',
        answers="a\nb\n",
    ),
    graded(
        "kind-empty-answer", "{type: contains, value: x}", "{type: llm-grader, prompt: Be right}", answers=""
    ),
    graded("kind-unicode", "{type: contains, value: é}", "{type: icontains, value: É}", answers="café 🙈"),
    graded(
        "test-rubrics",
        "{type: contains, value: fine}",
        test="rubrics: [Is polite, {id: r, outcome: Is short}]",
    ),
    graded(
        "threshold-test",
        "{type: contains, value: fine}",
        "{type: contains, value: no}",
        test="execution: {threshold: 0.5}",
    ),
    graded(
        "threshold-option",
        "{type: contains, value: fine}",
        "{type: contains, value: no}",
        options=("--threshold", "0.4"),
    ),
    graded("threshold-zero", "{type: contains, value: no}", test="execution: {threshold: 0}"),
    graded("llm-threshold", "{type: llm-grader, prompt: Be right}", test="execution: {threshold: 0.95}"),
    graded(
        "suite-assertions",
        "{type: contains, value: fine}",
        top="assertions: [{type: contains, value: no}, Is polite]",
    ),
    graded(
        "suite-assertions-skipped",
        "{type: contains, value: fine}",
        test="execution: {skip_defaults: true}",
        top="assertions: [{type: contains, value: no}]",
    ),
    graded(
        "included",
        "{include: base}",
        "{type: contains, value: fine}",
        files={".agentv/templates/base.yaml": "assertions:\n  - {type: contains, value: n}\n  - Is polite\n"},
    ),
    *(
        graded(f"judge-says-{name}", "{type: llm-grader, prompt: Be right, name: j}", judge=reply)
        for name, reply in {
            "nothing": "no json",
            "half": '{"score": 0.5}',
            "fenced": '```json\n{"score": 1, "assertions": [{"text": "a", "passed": true, "evidence": "b"}]}\n```',
            "two": '{"score": 1, "assertions": []} and more',
            "high": '{"score": 1.5, "assertions": []}',
            "low": '{"score": 0.79, "assertions": [{"text": "a", "passed": false}]}',
            "text": '{"score": "1", "assertions": []}',
            "details": '{"score": 1, "assertions": [], "details": {"a": 1}}',
            "nine": '{"score": 1, "assertions": [' + ", ".join(['{"text": "x", "passed": true}'] * 9) + "]}",
            "yes": '{"score": 1, "assertions": [{"text": "a", "passed": yes}]}',
            "error": "status 401",
        }.items()
    ),
    *(
        graded(
            f"rubric-says-{name}",
            "{type: rubrics, name: r, criteria: [{id: a, outcome: A}, {id: b, outcome: B, weight: 3, required: false}]}",
            judge=reply,
        )
        for name, reply in {
            "half": checks(a=True, b=False),
            "gate": checks(a=False, b=True),
            "missing": checks(b=True),
            "unknown": checks(z=True),
        }.items()
    ),
    *(
        graded(
            f"range-says-{name}",
            "{type: rubrics, name: r, criteria: [{id: a, min_score: 0.5, score_ranges: {0: low, 5: mid, 9: top}}, "
            "{id: b, outcome: B, weight: 2, score_ranges: [{score_range: [0, 5], outcome: bad}, {score_range: [6, 10], outcome: good}]}]}",
            judge=f'{{"checks": [{{"id": "a", "score": {a}}}, {{"id": "b", "score": {b}}}]}}',
        )
        for name, a, b in (("both", 9, 10), ("gate", 3, 10), ("border", 5, 5), ("zero", 0, 0))
    ),
)
