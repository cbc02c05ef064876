"""The schema for editors says the same as the loader."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from agentv_sandbox.authoring.docs import known_keys
from agentv_sandbox.documents.suites import SuiteDoc, TestDoc
from agentv_sandbox.graders import WRITTEN
from agentv_sandbox.loading.schema import schema

from .conftest import Project

TEST = {"id": "a", "input": "x", "criteria": "y"}


def suite(**fields: Any) -> dict[str, Any]:
    return {"tests": [TEST], **fields}


def test_of(**fields: Any) -> dict[str, Any]:
    return {"tests": [{**TEST, **fields}]}


test_of.__test__ = False  # type: ignore[attr-defined]


def item(**fields: Any) -> dict[str, Any]:
    return test_of(assertions=[fields])


GOOD = [
    suite(),
    suite(name="n", **{"$schema": "https://example.com"}, tags="a", version="1"),
    suite(tags=["a"], metadata={"a": None}, governance={}, outputs="out/*.csv", requires={"agentv": "4"}),
    suite(
        execution={
            "workers": 3,
            "threshold": 0.5,
            "trials": {"count": 2, "strategy": "mean"},
            "fail_on_error": 0.2,
        }
    ),
    suite(execution={"trials": 3, "fail_on_error": True, "skip_defaults": False}),
    suite(limits={"memory": "512m", "cpus": 1, "workspace_size": 1024}, network={"allow": ["a.b:1"]}),
    suite(workspace={"scope": "suite", "hooks": {"enabled": False, "before_all": {"script": "a b"}}}),
    suite(workspace={"env": {"required_commands": ["jq"], "packages": {"apt": {"jq": "jq"}}}}),
    suite(preprocessors=[{"type": "xlsx", "command": ["builtin:xlsx"]}]),
    suite(input=[{"role": "system", "content": "x"}]),
    {"eval_cases": [TEST]},
    {"evalcases": [{"id": "a", "input": "x", "expected_outcome": "y"}]},
    test_of(input={"any": "thing"}),
    test_of(input=[{"role": "user", "content": [{"type": "text", "value": "a"}, "b", {"type": "odd"}]}]),
    test_of(expected_output=[1, 2]),
    test_of(expected_output={"role": "assistant", "tool_calls": []}),
    test_of(mode="conversation", turns=[{"input": "a", "assert": ["x"]}], aggregation="min", window_size=2),
    test_of(rubrics=["a", {"outcome": "b", "score_ranges": {"0": "x"}}], vars={"a": 1}),
    test_of(evaluators=["a"]),
    test_of(execution={"evaluators": [{"type": "is_json"}], "targets": []}),
    item(type="code_judge", script="a | b", anything={"goes": 1}, target={"max_calls": 1}),
    item(type="llm-judge", prompt={"command": ["a"], "config": {}}, metric="m", preprocessors=[]),
    item(type="rubrics", criteria="a"),
    item(type="rubric", rubrics=["a"]),
    item(type="llm-rubric", value="a"),
    item(type="llm_rubric", prompt="a"),
    item(type="token_usage", maxTotal=4),
    item(
        type="tool-trajectory", mode="exact", expected=[{"tool": "a", "args": {"x": 1}, "args_match": ["x"]}]
    ),
    item(
        type="composite",
        name="c",
        assertions=[{"type": "is-json"}],
        aggregator={"type": "threshold", "threshold": 1},
    ),
    item(type="contains", value="a", required=0.5, min_score=1, negate=True, weight=0),
]

BAD = [
    {},
    {"tests": []},
    {"tests": [5]},
    {"tests": ["plain.yaml"]},
    suite(descripton="x"),
    suite(tags=[5]),
    suite(description=None),
    suite(execution={"workers": 51}),
    suite(execution={"workers": 1.5}),
    suite(execution={"threshold": 2}),
    suite(execution={"trials": {"strategy": "best"}}),
    suite(limits={"memory": 0}),
    suite(limits={"memory": "lots"}),
    suite(limits={"timeout_seconds": 0}),
    suite(network={"allow": ["http://x"]}),
    suite(outputs=["/abs"]),
    suite(outputs=["../up"]),
    suite(workspace={"isolation": "none"}),
    suite(workspace={"docker": {"image": "x", "privileged": True}}),
    suite(workspace={"repos": [{"path": "x"}]}),
    suite(preprocessors=[{"type": "xlsx"}]),
    suite(preprocessors=[{"type": "xlsx", "command": []}]),
    test_of(id=5),
    test_of(id=""),
    test_of(input=5),
    test_of(input=[]),
    test_of(input=["x"]),
    test_of(input=[{"role": "usr", "content": "x"}]),
    test_of(input=[{"role": "user"}]),
    test_of(input=[{"role": "user", "content": 5}]),
    test_of(input=[{"role": "user", "content": [{"type": "file"}]}]),
    test_of(input_files="a"),
    test_of(mode="conversation", turns=[]),
    test_of(mode="conversation", turns=[{"expected_output": "x"}]),
    test_of(aggregation="median"),
    test_of(depends_on="b"),
    test_of(assertions="x"),
    test_of(assertions=[" "]),
    test_of(assertions=[5]),
    item(value="x"),
    item(type="contains"),
    item(type="contains", value=""),
    item(type="contains", value="x", weight=-1),
    item(type="contains", value="x", required=2),
    item(type="contains_any", value="x"),
    item(type="contains", value="x", weigth=1),
    item(type="regex", flags="i"),
    item(type="llm-grader", temperature=3),
    item(type="llm-grader", prompt={"config": {}}),
    item(type="rubrics"),
    item(type="llm-rubric", value=5),
    item(type="rubrics", criteria=[]),
    item(type="code-grader"),
    item(type="code-grader", command=[]),
    item(type="latency", threshold="fast"),
    item(type="tool-trajectory", mode="loose"),
    item(type="field-accuracy", fields=[]),
    item(type="field-accuracy", fields=[{"path": "a", "match": "close"}]),
    item(type="composite", assertions=[{"type": "is-json"}]),
    item(type="skill-trigger", skill=""),
]


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    return Draft202012Validator(schema())  # that it is one: tests/cli/test_schemas.py


def problems(project: Project, document: dict[str, Any]) -> list[str]:
    project.write("suite.json", json.dumps(document))
    return [str(p) for p in project.load("suite.json").problems]


@pytest.mark.parametrize("document", GOOD, ids=lambda d: json.dumps(d)[:80])
def test_both_accept(project: Project, validator: Draft202012Validator, document: dict[str, Any]) -> None:
    said = ("nobody is shown a block of kind", "every assertion of the test has the weight 0")
    refused = [text for text in problems(project, document) if not any(words in text for words in said)]
    assert refused == []
    assert [e.message for e in validator.iter_errors(document)] == []


@pytest.mark.parametrize("document", BAD, ids=lambda d: json.dumps(d)[:80])
def test_both_refuse(project: Project, validator: Draft202012Validator, document: dict[str, Any]) -> None:
    assert problems(project, document) != []
    assert not validator.is_valid(document)


def test_the_schema_knows_every_key_of_every_spelling() -> None:
    made = schema()
    assert set(made["properties"]) == set(known_keys(SuiteDoc))
    assert set(made["$defs"]["TestDoc"]["properties"]) == set(known_keys(TestDoc))
    for doc in (kind.doc for kind in WRITTEN.values()):
        assert set(made["$defs"][doc.__name__]["properties"]) == set(known_keys(doc)), doc


def test_the_schema_knows_every_type_of_every_release() -> None:
    rules = schema()["$defs"]["Assertion"]["anyOf"][-1]["allOf"]
    names = {name for rule in rules for name in rule["if"]["properties"]["type"]["enum"]}
    expected = {name for kind in WRITTEN.values() for name in (kind.type, *kind.aliases)} - {"custom"}
    assert names == expected | {name.replace("-", "_") for name in expected}
