"""The same suite through AgentV and through us: same scores, verdicts, texts and statuses.

Only output that we refuse on purpose is left out. AgentV's rows are recorded (``make recordings``).
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agentv_sandbox.graders.tool_trajectory import ExpectedCall
from tests.agents.recording import FOLDER, differences, digest, read
from tests.agentv import agentv_command, agentv_version
from tests.graders import test_code, test_fields, test_llm_grader, test_metrics, test_text, test_trajectory

pytestmark = [pytest.mark.engine, pytest.mark.xdist_group("agentv")]


@dataclass(frozen=True)
class Case:
    """One test, and what the agent answers."""

    id: str
    assertion: Any
    """One assertion, or a list of them."""
    response: dict[str, Any] = field(default_factory=lambda: {"text": "done"})
    expected_output: Any = None
    grader_reply: str | None = None

    @property
    def test_id(self) -> str:
        """Of the test that this assertion is part of. What cannot fail for a reason of its own shares a test with all
        that are asked of the same answer: a test is a container of the agent's, an assertion is none."""
        if isinstance(self.assertion, list) or self.assertion["type"] in ("code-grader", "llm-grader"):
            return self.id
        answer = json.dumps([self.response, self.expected_output], sort_keys=True)
        return f"answer-{hashlib.sha256(answer.encode()).hexdigest()[:12]}"


def text_cases() -> list[Case]:
    cases = [
        Case(f"text-{n}", {"type": kind, **options}, {"text": test_text.ANSWER})
        for n, (kind, options, _, _) in enumerate(test_text.CASES)
    ]
    cases += [
        Case(f"regex-{n}", {"type": "regex", "value": pattern, "flags": flags}, {"text": text})
        for n, (pattern, flags, text, _) in enumerate(test_text.JS_REGEX)
        if "\ud800" not in text
    ]
    answers = ['{"a": 1}', " [1] \n", "3", "NaN", "```json\n{}\n```", "\u00a0{}"]
    cases += [Case(f"json-{n}", {"type": "is-json"}, {"text": answer}) for n, answer in enumerate(answers)]
    return cases


def code_cases() -> list[Case]:
    """Programs that say what the conformance table says."""
    cases = []
    for n, (_, did, *_rest) in enumerate(test_code.CASES):
        program = (
            f"import sys; sys.stdout.write({did.stdout.decode()!r}); sys.stderr.write({did.stderr.decode()!r}); "
            f"sys.exit({did.exit_code})"
        )
        cases.append(Case(f"code-{n}", {"type": "code-grader", "command": ["python3", "-c", program]}))
    return cases


def metric_cases() -> list[Case]:
    output = test_metrics.OUTPUT
    response = {
        "output": [message.wire() for message in output.messages],
        # Cached tokens left out: AgentV adds them to the input, of which they are a part (docs/deviations.md).
        "token_usage": {"input": 100, "output": 50},
        "cost_usd": output.cost_usd,
        "duration_ms": output.duration_ms,
    }
    return [
        Case(f"metric-{n}", {"type": kind, **options}, response)
        for n, (kind, options, given, *_rest) in enumerate(test_metrics.CASES)
        if given is output
    ]


def call_json(call: ExpectedCall) -> dict[str, Any]:
    made = call.model_dump(exclude_none=True)
    return (
        {**made, "args_match": list(made["args_match"])}
        if isinstance(made.get("args_match"), tuple)
        else made
    )


def trajectory_cases() -> list[Case]:
    cases = []
    for n, (mode, options, calls, *_rest) in enumerate(test_trajectory.CASES):
        made = {"type": "tool-trajectory", "mode": mode, **options}
        if "expected" in made:
            made["expected"] = [call_json(call) for call in made["expected"]]
        if "expected" not in made and "minimums" not in made:
            continue
        message = {"role": "assistant", "content": "x", "tool_calls": list(calls)}
        cases.append(Case(f"trajectory-{n}", made, {"output": [message]}))
    for n, (call, _) in enumerate(test_trajectory.SKILLS):
        message = {"role": "assistant", "content": "x", "tool_calls": [call]}
        assertion = {"type": "skill-trigger", "skill": "csv-analyzer"}
        cases.append(Case(f"skill-{n}", assertion, {"output": [message]}))
    return cases


def field_cases() -> list[Case]:
    cases = []
    for n, (given, actual, *_rest) in enumerate(test_fields.FIELDS):
        answer = actual if isinstance(actual, str) else json.dumps(actual)
        assertion = {"type": "field-accuracy", "fields": [{"match": "exact", **given}]}
        cases.append(Case(f"field-{n}", assertion, {"text": answer}, expected_output=test_fields.EXPECTED))
    return cases


def rubric_json(rubric: Any) -> dict[str, Any]:
    made = rubric.model_dump(exclude_none=True, exclude={"score_ranges"})
    if rubric.score_ranges:
        made["score_ranges"] = [
            {"score_range": [r.low, r.high], "outcome": r.outcome} for r in rubric.score_ranges
        ]
    return made


def llm_cases() -> list[Case]:
    table = test_llm_grader
    cases = [
        Case(f"freeform-{n}", {"type": "llm-grader", "prompt": "Be right"}, grader_reply=reply)
        for n, (_, reply, *_rest) in enumerate(table.REPLIES)
    ]
    cases += [
        Case(f"bad-{n}", {"type": "llm-grader", "prompt": "Be right"}, grader_reply=reply)
        for n, reply in enumerate(table.BAD[1:-1])
    ]
    rubrics = [rubric_json(table.R1), rubric_json(table.R2)]
    cases += [
        Case(f"checklist-{n}", {"type": "llm-grader", "rubrics": rubrics}, grader_reply=reply)
        for n, (_, reply, *_rest) in enumerate(table.CHECKLISTS)
    ]
    cases += [
        Case(
            f"range-{n}",
            {"type": "llm-grader", "rubrics": [rubric_json(r) for r in rubrics]},
            grader_reply=reply,
        )
        for n, (_, rubrics, reply, *_rest) in enumerate(table.SCORED)
    ]
    return cases


def score_of(number: float, **fields: Any) -> dict[str, Any]:
    """An assertion with a score of its own."""
    program = f"print('{{\"score\": {number}}}')"
    return {"type": "code-grader", "command": ["python3", "-c", program], **fields}


def mixed_cases() -> list[Case]:
    """Weights, gates, negation, composites."""
    a, b = score_of(1.0, name="a"), score_of(0.5, name="b")
    yes = {"type": "contains", "value": "done", "name": "yes"}
    no = {"type": "contains", "value": "nope", "name": "no"}
    bad_judge = {"type": "llm-grader", "prompt": "Be right", "name": "judge"}

    def composite(*members: Any, **fields: Any) -> dict[str, Any]:
        return {"type": "composite", "name": "all", "assertions": list(members), **fields}

    average: dict[str, Any] = {"type": "weighted_average"}
    aggregate = """python3 -c 'print("{\\"score\\": 0.9, \\"verdict\\": \\"fail\\"}")'"""
    lists: list[list[dict[str, Any]]] = [
        [a, b],
        [{**a, "weight": 3}, b],
        [{**a, "weight": 0}],
        [a, {**b, "required": True}],
        [a, {**b, "required": True, "min_score": 0.5}],
        [a, {**b, "min_score": 0.9}],
        [{**a, "negate": True}, yes, {**no, "negate": True}],
        [composite(yes, no, b, aggregator={**average, "weights": {"yes": 2}})],
        [composite(yes, no, aggregator={"type": "threshold", "threshold": 0.5})],
        [composite(yes, no, aggregator={"type": "threshold", "threshold": 0.6})],
        [composite({**yes, "negate": True, "weight": 5}, no, aggregator=average)],
        [composite(yes, negate=True, aggregator=average)],
        [composite(yes, no, aggregator={"type": "code-grader", "path": aggregate})],
    ]
    cases = [Case(f"mixed-{n}", assertions) for n, assertions in enumerate(lists)]
    cases.append(Case("skipped", [a, bad_judge], grader_reply="no json"))
    return cases


def all_cases() -> list[Case]:
    return [
        *mixed_cases(),
        *text_cases(),
        *code_cases(),
        *metric_cases(),
        *trajectory_cases(),
        *field_cases(),
        *llm_cases(),
    ]


AGENT = """
import json, sys
answers = json.loads({answers!r})
open(sys.argv[2], "w").write(json.dumps(answers[sys.argv[1]]))
"""


def write_project(folder: Path, cases: list[Case]) -> None:
    tests: dict[str, dict[str, Any]] = {}
    targets = []
    for case in cases:
        assertions = (
            case.assertion if isinstance(case.assertion, list) else [{**case.assertion, "name": case.id}]
        )
        if case.grader_reply is not None:
            name = f"judge-{case.id}"
            assertions = [{**a, "target": name} if a["type"] == "llm-grader" else a for a in assertions]
            targets.append({"name": name, "provider": "mock", "response": case.grader_reply})
        test = {"id": case.test_id, "criteria": "c", "input": "i", "assertions": []}
        if case.expected_output is not None:
            test["expected_output"] = case.expected_output
        tests.setdefault(case.test_id, test)["assertions"] += assertions
    command = "python3 agent.py {EVAL_ID} {OUTPUT_FILE}"
    targets.append({"name": "default", "provider": "cli", "command": command})
    (folder / "same.eval.yaml").write_text(json.dumps({"name": "same", "tests": list(tests.values())}))
    (folder / "targets.yaml").write_text(json.dumps({"targets": targets}))
    answers = json.dumps({case.test_id: case.response for case in cases})
    (folder / "agent.py").write_text(AGENT.format(answers=answers))


def rows(command: list[str], folder: Path, out: Path, **more: str) -> dict[str, dict[str, Any]]:
    """What ``command`` writes to ``out``; ``more`` are variables."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith("AGENTV_")} | more
    done = subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True, timeout=900, check=False
    )
    assert (out / "index.jsonl").exists(), (done.stdout[-2000:], done.stderr[-2000:])
    lines = (out / "index.jsonl").read_text().splitlines()
    return {row["test_id"]: row for row in map(json.loads, lines)}


SUITE = ["same.eval.yaml", "--workers", "3"]


class AgentVsRows:
    """Its recording."""

    name = "agentv-graders"

    @staticmethod
    def made_for(folder: Path) -> dict[str, Any]:
        """What decides them: its version, and the project in ``folder``."""
        files = {
            name: digest((folder / name).read_bytes())
            for name in ("same.eval.yaml", "targets.yaml", "agent.py")
        }
        return {"agentv": agentv_version(), **files}

    def record(self, folder: Path, _tests: Sequence[str] = ()) -> dict[str, Any]:
        write_project(folder, all_cases())
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
        theirs = rows(
            [*agentv_command(), "eval", "run", *SUITE, "-o", str(folder / "theirs")],
            folder,
            folder / "theirs",
        )
        kept = {
            test: {key: row[key] for key in ("score", "execution_status", "scores")}
            for test, row in theirs.items()
        }
        plain = json.loads(json.dumps(kept).replace(str(folder), "<folder>"))
        return {"made_for": self.made_for(folder), "rows": plain}

    def rows(self, folder: Path) -> dict[str, dict[str, Any]]:
        recording = read(FOLDER / f"{self.name}.json")
        stale = list(differences(recording["made_for"], self.made_for(folder)))
        assert not stale, f"AgentV's rows are out of date, make them anew by `make recordings`: {stale}"
        recorded: dict[str, dict[str, Any]] = recording["rows"]
        return recorded


RECORDED = AgentVsRows()


@dataclass(frozen=True)
class Both:
    ours: dict[str, dict[str, Any]]
    theirs: dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    folder = tmp_path_factory.mktemp("same")
    write_project(folder, all_cases())
    theirs = RECORDED.rows(folder)
    command = [sys.executable, "-m", "agentv_sandbox", "run", *SUITE, "-o", str(folder / "ours")]
    engine = os.environ.get("AGENTV_SANDBOX_ENGINE") or "native"
    return Both(rows(command, folder, folder / "ours", AGENTV_SANDBOX_ENGINE=engine), theirs)


def essence(row: dict[str, Any]) -> dict[str, Any]:
    """What a reader of the row goes by."""
    return {
        "score": round(row["score"], 6),
        "status": row["execution_status"],
        "graders": [judgement(score) for score in row["scores"]],
    }


def judgement(score: dict[str, Any]) -> dict[str, Any]:
    return {
        "score": round(score["score"], 6),
        "verdict": score["verdict"],
        "weight": score.get("weight", 1),
        "assertions": [
            # What the JSON parsers themselves say differs.
            (a["text"].partition(" attempts: ")[0], a["passed"], a.get("evidence"))
            for a in score.get("assertions", [])
        ],
        "members": [judgement(member) for member in score.get("scores", [])],
    }


def scores_of(row: dict[str, Any], case: Case) -> list[dict[str, Any]]:
    own = [score for score in row["scores"] if score["name"] == case.id]
    return [judgement(score) for score in own or row["scores"]]


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.id)
def test_same_judgement(both: Both, case: Case) -> None:
    ours, theirs = both.ours[case.test_id], both.theirs[case.test_id]
    assert scores_of(ours, case) == scores_of(theirs, case)
    assert len(scores_of(ours, case)) == (len(case.assertion) if isinstance(case.assertion, list) else 1)


@pytest.mark.parametrize("test_id", sorted({case.test_id for case in all_cases()}))
def test_same_row(both: Both, test_id: str) -> None:
    """Score and status of the test, and graders in their order."""
    assert essence(both.ours[test_id]) == essence(both.theirs[test_id])
