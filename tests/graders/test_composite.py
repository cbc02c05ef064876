"""composite: members, aggregators, panels; custom assertion types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agentv_sandbox.graders import programs_of
from agentv_sandbox.graders.composite import CodeAggregator, LlmAggregator, MemberThreshold, WeightedAverage
from agentv_sandbox.graders.custom import CustomOptions, command_of
from agentv_sandbox.models.suite import GraderSpec, Target
from tests.graders.fakes import AGENT, GRADER_TARGET, PROJECT, FakeTools, grade_all, grade_one, ran, spec_of

YES = spec_of("contains", {"value": "a"}, name="yes")
NO = spec_of("contains", {"value": "z"}, name="no")
HALF = spec_of("code-grader", name="half")
CRASH = spec_of("regex", {"value": "("}, name="crash")
JUDGE = spec_of("llm-grader", name="judge")


def composite(*members: GraderSpec, aggregator: Any = None, **fields: Any) -> GraderSpec:
    return spec_of(
        "composite", {"members": members, "aggregator": aggregator or WeightedAverage()}, name="all", **fields
    )


def tools(**fields: Any) -> FakeTools:
    return FakeTools(results=[ran('{"score":0.5}')], **fields)


def test_weighted_average() -> None:
    spec = composite(YES, NO, HALF, aggregator=WeightedAverage(weights={"yes": 2}))
    graded = grade_one(spec, tools(), answer="a")
    assert graded.score == pytest.approx(2.5 / 4)
    assert [(m.name, m.score, m.weight) for m in graded.scores] == [
        ("yes", 1, 2),
        ("no", 0, 1),
        ("half", 0.5, 1),
    ]
    assert [a.text for a in graded.assertions] == [
        '[yes] Output contains "a"',
        '[no] Output does not contain "z"',
    ]
    assert graded.error is None


@pytest.mark.parametrize(("needed", "verdict"), [(0.5, "pass"), (0.6, "fail")])
def test_threshold_counts_passing_members(needed: float, verdict: str) -> None:
    graded = grade_one(composite(YES, NO, aggregator=MemberThreshold(threshold=needed)), tools(), answer="a")
    assert (graded.score, graded.verdict) == (0.5, verdict)
    assert graded.assertions[0].text == f"1/2 evaluators passed (threshold: {needed})"
    assert graded.assertions[0].passed is (verdict == "pass")


@pytest.mark.parametrize("aggregator", [WeightedAverage(), MemberThreshold(threshold=0.5)])
def test_skipped_members_do_not_count(aggregator: Any) -> None:
    graded = grade_one(composite(YES, JUDGE, aggregator=aggregator), tools(llm_replies=["bad"]), answer="a")
    assert (graded.score, graded.verdict) == (1, "pass")
    alone = grade_all(tools(llm_replies=["bad"]), composite(JUDGE, aggregator=aggregator))
    assert alone.scores[0].verdict == "skip"
    assert alone.status == "execution_error"


@pytest.mark.parametrize("aggregator", [WeightedAverage(), MemberThreshold(threshold=0.1)])
@pytest.mark.parametrize("negate", [True, False])
def test_a_crash_of_a_member_is_never_a_pass(aggregator: Any, negate: bool) -> None:
    graded = grade_one(composite(CRASH, YES, aggregator=aggregator, negate=negate), tools(), answer="a")
    assert graded.verdict == "fail"
    assert "[crash] " in (graded.error or "")
    assert graded.scores[1].score == 1


def test_members_are_not_negated_and_weigh_what_the_aggregator_says() -> None:
    member = spec_of("contains", {"value": "a"}, name="yes", negate=True, weight=7)
    graded = grade_one(composite(member), tools(), answer="a")
    assert (graded.score, graded.scores[0].weight) == (1, 1)


def test_composite_itself_can_be_negated() -> None:
    graded = grade_one(composite(YES, negate=True), tools(), answer="a")
    assert (graded.score, graded.verdict) == (0, "fail")


AGGREGATED = [
    (ran('{"score":0.9,"assertions":[{"text":"t","passed":true}]}'), 0.9, "pass", None),
    (ran('{"score":0.9,"verdict":"fail"}'), 0.9, "fail", None),
    (ran('{"score":0.1,"verdict":"pass"}'), 0.1, "pass", None),
    (ran("{}"), 0.0, "fail", None),
    (ran("fine"), 0.0, "fail", "Code aggregator failed: "),
    (ran('{"score":1}', code=1), 0.0, "fail", "Code aggregator failed: Code evaluator exited with code 1"),
    (ran('{"score":true}'), 0.0, "fail", "got true"),
    (ran('{"score":1}', outcome="timeout"), 0.0, "fail", "timed out"),
]


@pytest.mark.parametrize(("did", "score", "verdict", "error"), AGGREGATED)
def test_code_aggregator(did: Any, score: float, verdict: str, error: str | None) -> None:
    used = FakeTools(results=[did])
    aggregator = CodeAggregator(command=("sh", "-lc", "agg"), cwd=PROJECT)
    graded = grade_one(composite(YES, aggregator=aggregator), used, answer="a")
    assert (graded.score, graded.verdict) == (score, verdict)
    assert (error is None and graded.error is None) or (error or "") in (graded.error or "")
    assert json.loads(used.calls[0].stdin) == {
        "results": {
            "yes": {
                "score": 1.0,
                "verdict": "pass",
                "assertions": [{"text": 'Output contains "a"', "passed": True}],
                "expectedAspectCount": 1,
            }
        }
    }


def test_llm_aggregator() -> None:
    used = FakeTools(llm_replies=['{"score":0.7,"assertions":[{"text":"t","passed":true}]}'])
    graded = grade_one(composite(YES, aggregator=LlmAggregator()), used, answer="a")
    assert (graded.score, graded.target, [a.text for a in graded.assertions]) == (0.7, "judge", ["t"])
    assert "[[ ## evaluator_results ## ]]" in used.asked[0][1].user
    own = LlmAggregator(prompt="Sum up {{EVALUATOR_RESULTS_JSON}}", target="other")
    targets = (AGENT, GRADER_TARGET, Target(name="other", provider="openai"))
    graded = grade_one(composite(YES, aggregator=own), used, answer="a", targets=targets)
    assert graded.target == "other"
    assert used.asked[1][1].user.startswith('Sum up {\n  "yes": {\n    "score": 1,')


def test_llm_aggregator_has_one_attempt() -> None:
    used = FakeTools(llm_replies=["bad"])
    graded = grade_one(composite(YES, aggregator=LlmAggregator()), used, answer="a")
    assert (graded.score, graded.verdict, len(used.asked)) == (0, "fail", 1)
    assert (graded.error or "").startswith("LLM aggregator failed: ")


def test_panel_reports_its_agreement() -> None:
    panel = [spec_of("llm-grader", {"target": name}, name=name) for name in ("judge", "b", "c")]
    replies = ['{"score": 1}', '{"score": 0.9}', '{"score": 0.1}']
    targets = (AGENT, GRADER_TARGET, *(Target(name=n, provider="openai") for n in "bc"))
    used = FakeTools(llm_replies=replies)
    graded = grade_one(composite(*panel), used, targets=targets)
    assert [t.name for t, _ in used.asked] == ["judge", "b", "c"]
    assert graded.score == pytest.approx(2 / 3)
    assert graded.details == {"agreement": {"members": 3, "share": pytest.approx(1 / 3)}}


@pytest.mark.parametrize(
    ("script", "argv"),
    [
        ("tone.ts", ("bun", "run", "/x/tone.ts")),
        ("tone.mjs", ("bun", "run", "/x/tone.mjs")),
        ("tone.py", ("python3", "/x/tone.py")),
        ("tone.sh", ("bash", "/x/tone.sh")),
        ("tone", ("/x/tone",)),
    ],
)
def test_custom_scripts_start_with_their_language(script: str, argv: tuple[str, ...]) -> None:
    assert command_of(Path("/x") / script) == argv


def test_custom_assertion_follows_the_code_grader_rules() -> None:
    options = CustomOptions(
        script=Path("/project/.agentv/assertions/tone.ts"), written_type="tone", config={"k": 1}
    )
    spec = GraderSpec(type="custom", name="tone", options=options)
    used = tools()
    graded = grade_one(spec, used, answer="a")
    assert (graded.score, graded.type) == (0.5, "tone")
    assert [list(argv) for argv in programs_of(spec)] == [list(used.calls[0].argv)]
    assert used.calls[0].argv == ("bun", "run", "/project/.agentv/assertions/tone.ts")
    assert json.loads(used.calls[0].stdin)["config"] == {"type": "tone", "k": 1}
