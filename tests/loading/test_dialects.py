"""Two spellings of one suite are one model, byte for byte; and that model is written down."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from .conftest import Project, dump

HERE = Path(__file__).parent
FILES = {
    "targets.yaml": """
targets:
  - {name: default, provider: cli, command: run, GRADER: judge}
  - {name: judge, provider: mock}
""",
    "check.py": "",
    "scripts/convert.py": "",
    "prompts/judge.md": "Judge {{ output }}\n",
    "data/a.csv": "x\n",
    "tpl/file": "",
}

OLDER = """
name: sales
$schema: https://example.com/eval.json
eval_cases:
  - id: one
    expected_outcome: fine
    input:
      - role: user
        content: [{type: file, value: data/a.csv}, {type: text, value: "Summarise ${{ WHAT }}"}]
    expected_output: [{role: assistant, content: done}]
    evaluators:
      - {type: rubrics, criteria: [Says A, Says B], weight: 2}
      - {type: code_judge, script: [python3, check.py], config: {depth: 2}}
      - {type: llm_judge, name: mine, prompt: "file://prompts/judge.md", target: judge}
      - {type: trigger-judge, skill: csv}
      - {type: contains_any, value: [a, b]}
    execution: {evaluators: [{type: is-json}]}
  - {id: two, input: x, expected_outcome: y, execution: {targets: [default]}}
evaluators: [{type: agent-judge, rubrics: [Polite]}]
execution: {target: default, trials: {count: 2, strategy: pass_at_k}}
workspace: {template: ./tpl, isolation: shared, hooks: {before_each: {script: [run, it]}}, repos: []}
preprocessors: [{type: xlsx, command: [python3, scripts/convert.py]}]
"""
NEWER = """
name: sales
tests:
  - id: one
    criteria: fine
    input_files: [data/a.csv]
    input: Summarise {{ env.WHAT }}
    expected_output: done
    assert:
      - Says A
      - type: script
        command: [python3, check.py]
        depth: 2
      - {type: llm-grader, metric: mine, prompt: ./prompts/judge.md, target: judge}
      - {type: skill-trigger, skill: csv}
      - {type: contains-any, value: [a, b]}
      - Says B
  - {id: two, input: [{role: user, content: x}], criteria: y, execution: {targets: [default]}}
assert: [{type: llm-grader, rubrics: [Polite]}]
target: default
execution: {trials: {count: 2, strategy: pass_any}}
workspace: {template: tpl, scope: suite, hooks: {before_each: {command: [run, it]}}}
preprocessors:
  - type: " XLSX "
    command: [python3, scripts/convert.py]
"""


def loaded(project: Project, text: str, grader: str) -> str:
    for name, content in FILES.items():
        project.write(name, content.replace("GRADER", grader))
    suite = project.suite(text, environ={"WHAT": "it"})
    return json.dumps(dump(suite, project.root), indent=1, sort_keys=True)


def test_two_spellings_of_one_suite_are_one_model(project: Project) -> None:
    assert loaded(project, OLDER, "judge_target") == loaded(project, NEWER, "grader_target")


@pytest.mark.parametrize("name", sorted(path.stem for path in (HERE / "golden").glob("*.yaml")))
def test_the_model_of_a_suite(project: Project, name: str) -> None:
    """Suite in, model out. ``UPDATE_GOLDEN=1`` writes the model down anew: read the difference."""
    golden = HERE / f"golden/{name}.json"
    for file, content in FILES.items():
        project.write(file, content.replace("GRADER", "grader_target"))
    suite = project.suite((HERE / f"golden/{name}.yaml").read_text(), environ={"WHAT": "it"})
    model = json.dumps(dump(suite, project.root, positions=True), indent=1, ensure_ascii=False) + "\n"
    if os.environ.get("UPDATE_GOLDEN"):
        golden.write_text(model, encoding="utf-8")
    assert model == golden.read_text(encoding="utf-8")
