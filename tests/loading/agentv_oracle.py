"""What AgentV 4.42.4 loads beside what we load, test by test."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agentv_sandbox.authoring.messages import IMAGE_TYPES
from agentv_sandbox.graders.code import CodeGraderOptions
from agentv_sandbox.graders.composite import CompositeOptions
from agentv_sandbox.graders.llm_grader import LlmGraderOptions
from agentv_sandbox.loading import load_suites
from agentv_sandbox.models.suite import EvalCase, GraderSpec

SUITES = Path(__file__).with_name("oracle")
ENVIRON = {"ORACLE_NAME": "Ada", "ORACLE_NUMBER": "42", "ORACLE_FLAG": "true", "ORACLE_ZERO": "007"}
_SCRIPT = """
const {{ loadTestSuite }} = await import({module});
for (const path of {paths}) {{
  const suite = await loadTestSuite(path, {root});
  console.log("ORACLE " + JSON.stringify({{ path, tests: suite.tests }}));
}}
"""
EXPECTED = {
    ("01-short.eval.yaml", "list", "expected_output"): "AgentV drops what is neither text nor mapping",
    ("01-short.eval.yaml", "list", "reference_answer"): "follows from that",
    ("12-skill.json", "1", "suite"): "an evals.json suite has a name here",
    ("12-skill.json", "two", "suite"): "an evals.json suite has a name here",
}
"""Differences on purpose, by suite, test and field."""


def agentv_tests(modules: Path, root: Path, paths: Sequence[Path]) -> dict[str, list[dict[str, Any]]]:
    """AgentV's own loader, run under bun."""
    module = next(
        path
        for path in sorted((modules / "agentv/dist").glob("dist-*.js"))
        if re.search(r"\bloadTestSuite\b", path.read_text())
    )
    script = _SCRIPT.format(
        module=json.dumps(str(module)), paths=json.dumps([str(p) for p in paths]), root=json.dumps(str(root))
    )
    with tempfile.TemporaryDirectory() as home:
        ended = subprocess.run(
            [modules / ".bin/bun", "-e", script],
            cwd=root,
            env={**ENVIRON, "PATH": os.environ["PATH"], "HOME": home},
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
    rows = [json.loads(line[7:]) for line in ended.stdout.splitlines() if line.startswith("ORACLE ")]
    return {Path(row["path"]).name: row["tests"] for row in rows}


# -- one shape for both -------------------------------------------------------------------------------


def theirs(test: dict[str, Any]) -> dict[str, Any]:
    workspace = test.get("workspace") or {}
    return {
        "id": test["id"],
        "suite": test.get("suite"),
        "category": test.get("category"),
        "input": test["input"],
        "question": test["question"],
        "files": list(dict.fromkeys(test.get("file_paths") or [])),
        "criteria": test["criteria"],
        "expected_output": test["expected_output"],
        "reference_answer": test.get("reference_answer") or "",
        "metadata": test.get("metadata") or {},
        "threshold": test.get("threshold"),
        "targets": test.get("targets") or [],
        "conversation_id": test.get("conversation_id"),
        "depends_on": test.get("depends_on") or [],
        "template": workspace.get("template"),
        "turns": [[turn["input"], turn.get("expected_output")] for turn in test.get("turns") or []],
        "aggregation": test.get("aggregation"),
        "graders": [_their_grader(item) for item in test.get("assertions") or []],
    }


def _their_grader(item: dict[str, Any]) -> dict[str, Any]:
    keys = (
        "type",
        "name",
        "value",
        "flags",
        "threshold",
        "budget",
        "max_total",
        "skill",
        "mode",
        "temperature",
    )
    shape = {key: item[key] for key in keys if key in item}
    shape |= {"weight": item.get("weight", 1), "negate": item.get("negate", False)}
    shape |= {"required": item.get("required", False), "min_score": item.get("min_score")}
    if "rubrics" in item:
        shape["rubrics"] = [
            [r["id"], r.get("outcome", ""), r.get("weight", 1), r.get("required", not r.get("score_ranges"))]
            for r in item["rubrics"]
        ]
    if item["type"] == "code-grader":
        shape |= {"command": item["command"], "cwd": item["resolvedCwd"], "config": item.get("config")}
    if item["type"] == "llm-grader":
        shape["prompt"] = item.get("promptPath") or item.get("prompt")
    if item["type"] == "composite":
        shape["members"] = [_their_grader(member) for member in item["assertions"]]
        shape["aggregator"] = item["aggregator"]
    return shape


def _without_images_place(message: Mapping[str, Any]) -> dict[str, Any]:
    """Images are files to programs here, so their blocks say where they are."""
    content = message.get("content")
    if not isinstance(content, list):
        return dict(message)
    blocks = [
        {key: value for key, value in block.items() if key != "resolvedPath"}
        if isinstance(block, dict) and block.get("type") == "image"
        else block
        for block in content
    ]
    return {**message, "content": blocks}


def ours(case: EvalCase) -> dict[str, Any]:
    talk = case.conversation
    return {
        "id": case.id,
        "suite": case.suite,
        "category": case.category,
        "input": [_without_images_place(message) for message in case.input],
        "question": case.question,
        "files": [str(path) for path in case.input_files if path.suffix not in IMAGE_TYPES],
        "criteria": case.criteria,
        "expected_output": list(case.expected_output),
        "reference_answer": case.reference_answer,
        "metadata": case.metadata,
        "threshold": case.threshold,
        "targets": list(case.targets),
        "conversation_id": case.conversation_id,
        "depends_on": list(case.depends_on),
        "template": str(case.workspace.template) if case.workspace and case.workspace.template else None,
        "turns": [[turn.input, turn.expected_output] for turn in talk.turns] if talk else [],
        "aggregation": talk.aggregation if talk else None,
        "graders": [_our_grader(spec) for spec in case.assertions if not spec.implicit],
    }


def _our_grader(spec: GraderSpec) -> dict[str, Any]:
    options: Any = spec.options
    keys = ("value", "flags", "threshold", "budget", "max_total", "skill", "mode", "temperature")
    shape = {key: getattr(options, key) for key in keys if getattr(options, key, None) not in (None, "")}
    shape |= {"type": spec.type, "name": spec.name, "weight": spec.weight, "negate": spec.negate}
    shape |= {"required": spec.required, "min_score": spec.min_score}
    if isinstance(options, LlmGraderOptions):
        shape["prompt"] = str(options.prompt_file) if options.prompt_file else options.prompt
        if options.rubrics:
            shape["rubrics"] = [[r.id, r.outcome, r.weight, r.required] for r in options.rubrics]
    if isinstance(options, CodeGraderOptions):
        shape |= {"command": list(options.command), "cwd": str(options.cwd), "config": options.config}
    if isinstance(options, CompositeOptions):
        shape["members"] = [_our_grader(member) for member in options.members]
        shape["aggregator"] = options.aggregator.model_dump()
    return json.loads(json.dumps(shape, default=list))  # type: ignore[no-any-return]


def differences(modules: Path, folder: Path, names: Sequence[str] = ()) -> list[str]:
    """What differs between AgentV and us in the suites of ``folder``, the expected left out."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve() / "project"
        shutil.copytree(folder, root)
        (root / ".git").mkdir()
        paths = [path for path in sorted(root.glob("[0-9]*")) if not _is_sidecar(path)]
        paths = [path for path in paths if not names or path.name in names]
        agentv = agentv_tests(modules, root, paths)
        found = []
        for path in paths:
            loaded = load_suites([path], cwd=root, environ=ENVIRON)
            found += [f"{path.name}: {problem}" for problem in loaded.errors]
            cases = loaded.suites[0].cases if loaded.suites else ()
            found += _compare(path.name, agentv[path.name], cases, str(root))
        return found


def _is_sidecar(path: Path) -> bool:
    return path.suffix == ".yaml" and not path.name.endswith(".eval.yaml")


def _compare(name: str, tests: list[dict[str, Any]], cases: Sequence[EvalCase], root: str) -> list[str]:
    ids = [test["id"] for test in tests], [case.id for case in cases]
    if ids[0] != ids[1]:
        return [f"{name}: AgentV has the tests {ids[0]}, we have {ids[1]}"]
    found = []
    for test, case in zip(tests, cases, strict=True):
        left, right = theirs(test), ours(case)
        for key in left:
            if key == "category" and left[key] is None:
                continue  # AgentV's command line fills it in, its loader does not
            if left[key] != right[key] and (name, case.id, key) not in EXPECTED:
                shown = [json.dumps(side[key], default=str).replace(root, "") for side in (left, right)]
                found.append(f"{name}: {case.id}: {key}:\n  AgentV {shown[0]}\n  ours   {shown[1]}")
    return found
