"""What models that are asked from this machine cost, against the bounds of money of a suite."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from agentv_sandbox.cli import app
from agentv_sandbox.graders.llm_grader import LlmGraderOptions
from agentv_sandbox.graders.usage import CostOptions
from agentv_sandbox.models.case import CaseResult
from agentv_sandbox.models.suite import Execution, GraderSpec, Target, Trials
from agentv_sandbox.request.jobs import RunOptions
from agentv_sandbox.runs.checks import run_warnings
from tests.llm.servers import Server, chat
from tests.pipeline.helpers import CLI, SAYS_DONE, Bench, answers, case

CALL_USD = 11 * 2.5 / 1e6 + 7 * 10 / 1e6
"""Of gpt-4o, for the tokens of ``chat``."""
INPUT = ({"role": "user", "content": "hello"},)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path, {"agent": answers("done")})
    yield made
    made.engine.close()


def model(server_url: str, name: str = "gpt-4o", **settings: object) -> Target:
    usual = {"model": name, "base_url": server_url, "stream": False, "max_retries": 0}
    return Target(name="m", provider="openai", settings={**usual, **settings})


def run(bench: Bench, target: Target, execution: Execution, *names: str) -> dict[str, CaseResult]:
    suite = bench.suite(
        [case(name, input=INPUT) for name in names], targets={"m": target}, execution=execution
    )
    return bench.run(suite)


def test_models_have_list_prices_and_the_budget_of_the_suite_counts_them(bench: Bench) -> None:
    with Server([chat("done")]) as server:
        execution = Execution(target="m", budget_usd=1.5 * CALL_USD)
        results = run(bench, model(server.url), execution, "a", "b", "c")
    assert results["a"].response is not None
    assert results["a"].response.cost_usd == pytest.approx(CALL_USD)
    assert results["a"].notes == ()
    assert [results[name].status for name in "abc"] == ["ok", "ok", "execution_error"]
    assert results["c"].failure is not None and results["c"].failure.code == "budget_exceeded"


def test_a_tests_own_trials_go_before_those_of_the_suite(bench: Bench) -> None:
    own = Trials(count=3, strategy="mean")
    suite = bench.suite(
        [case("a", trials=own), case("b")],
        execution=Execution(target="agent", trials=Trials(count=2, strategy="mean")),
    )
    results = bench.run(suite)
    assert [len(results[name].trials) for name in "ab"] == [3, 2]


def test_no_further_trial_once_a_model_has_cost_the_limit(bench: Bench) -> None:
    with Server([chat("done")]) as server:
        trials = Trials(count=5, strategy="mean", cost_limit_usd=1.5 * CALL_USD)
        results = run(bench, model(server.url), Execution(target="m", trials=trials), "a")
    assert len(results["a"].trials) == 2


def test_prices_of_the_target_go_before_list_prices(bench: Bench) -> None:
    with Server([chat("done", prompt_tokens_details={"cached_tokens": 4})]) as server:
        free = model(server.url, input_cost_per_million=0, output_cost_per_million=0)
        results = run(bench, free, Execution(target="m", budget_usd=1e-9), "a", "b")
    assert results["b"].status == "ok"
    assert results["a"].response is not None and results["a"].response.cost_usd == 0


def test_a_judge_has_list_prices_and_counts_for_the_budget(bench: Bench) -> None:
    judge = GraderSpec(type="llm-grader", name="judge", options=LlmGraderOptions(target="m"))
    cases = [case(name, assertions=(judge,)) for name in "ab"]
    with Server([chat(json.dumps({"score": 1}))]) as server:
        targets = {"agent": CLI, "m": model(server.url)}
        execution = Execution(target="agent", budget_usd=CALL_USD)
        results = bench.run(bench.suite(cases, targets=targets, execution=execution))
    assert results["a"].scores[0].cost_usd == pytest.approx(CALL_USD)
    assert results["b"].failure is not None and results["b"].failure.code == "budget_exceeded"


def test_what_no_price_is_known_of_is_noted_where_money_is_bounded(bench: Bench) -> None:
    judge = GraderSpec(type="llm-grader", name="judge", options=LlmGraderOptions(target="m"))
    cases = [case("a", input=INPUT, assertions=(SAYS_DONE, judge))]
    with Server([chat("done"), chat(json.dumps({"score": 1}))]) as server:
        targets = {"m": model(server.url, "nobody-knows-it")}
        suite = bench.suite(cases, targets=targets, execution=Execution(target="m", budget_usd=1))
        [note] = bench.run(suite)["a"].notes
        assert (
            note == "budget_usd does not count target 'm', grader 'judge': the price of the model is unknown"
        )
        bench.results.clear()
        assert bench.run(replace(suite, execution=Execution(target="m")))["a"].notes == ()


def test_models_without_a_price_are_warned_of_before_the_run(bench: Bench) -> None:
    judge = GraderSpec(type="llm-grader", name="judge", options=LlmGraderOptions(target="m"))
    cost = GraderSpec(type="cost", name="cheap", options=CostOptions(budget=1))
    unknown = replace(model("http://127.0.0.1:1", "nobody-knows-it"))
    bounds = {"budget_usd": 1.0, "trials": Trials(count=2, cost_limit_usd=1.0)}

    def said(target: Target, *assertions: GraderSpec, asked: str = "m", **execution: object) -> list[str]:
        suite = bench.suite(
            [case("a", assertions=assertions)],
            targets={"agent": CLI, "m": target},
            execution=Execution(target=asked, **execution),  # type: ignore[arg-type]
        )
        return [each.message for each in run_warnings(suite, RunOptions()) if "price" in each.message]

    why = "the price of nobody-knows-it is unknown, so {} cannot count what it costs"
    assert said(unknown, SAYS_DONE, **bounds) == [why.format("budget_usd, trials.cost_limit_usd")]
    assert said(unknown, judge, asked="agent", budget_usd=1.0) == [why.format("budget_usd")]
    assert said(unknown, cost) == [why.format("the assertion cheap")]
    assert said(unknown, judge) == said(unknown, judge, asked="agent") == []
    assert said(model("http://127.0.0.1:1"), judge, cost, **bounds) == []
    stated = {"input_cost_per_million": 1, "output_cost_per_million": 0}
    assert said(model("http://127.0.0.1:1", "nobody-knows-it", **stated), cost, **bounds) == []
    assert said(replace(unknown, provider="openrouter"), cost, **bounds) == []  # it says the cost itself


def test_validate_and_run_warn_of_models_without_a_price(tmp_path: Path) -> None:
    (tmp_path / "s.eval.yaml").write_text(
        "execution: {target: m, budget_usd: 1}\n"
        "tests: [{id: a, input: x, assertions: [{type: contains, value: y}]}]\n"
    )
    (tmp_path / "targets.yaml").write_text(
        "targets: [{name: m, provider: openai, model: nobody-knows-it, base_url: 'http://127.0.0.1:1',\n"
        "  input_cost_per_million: 1}]\n"
    )
    done = CliRunner().invoke(app, ["validate", str(tmp_path / "s.eval.yaml")])
    assert done.exit_code == 0
    text = " ".join(done.output.split())
    assert "the price of nobody-knows-it is unknown, so budget_usd cannot count what it costs" in text
    assert "input_cost_per_million has no effect without output_cost_per_million" in text
