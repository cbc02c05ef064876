"""Conversations, turn by turn, on the fake engine."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from agentv_sandbox.case.conversation import (
    _messages,
    _turn_case,
    joined_response,
    transcript,
    windowed,
)
from agentv_sandbox.graders.code import CodeGraderOptions
from agentv_sandbox.graders.llm_grader import LlmGraderOptions
from agentv_sandbox.graders.text import TextOptions
from agentv_sandbox.models.case import AgentResponse, CaseFailure, CaseResult
from agentv_sandbox.models.container import ExecResult
from agentv_sandbox.models.content import user_turn
from agentv_sandbox.models.figures import TokenUsage
from agentv_sandbox.models.suite import Conversation, EvalCase, Execution, GraderSpec, Target, Turn
from tests.fake_engine import FakeRun, finished
from tests.llm.servers import Answer, Server, chat
from tests.pipeline.helpers import CLI, Bench, answers, case


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path, {"agent": echo})
    yield made
    made.engine.close()


def echo(run: FakeRun) -> ExecResult:
    """Answers by the last line of the prompt, and keeps a count in the workspace."""
    count = run.path("/workspace/count.txt")
    count.write_text(count.read_text() + "x" if count.exists() else "x")
    last = run.path("/input/prompt.md").read_text().splitlines()[-1]
    assert not run.path("/output/response.json").exists()
    if last == "fail":
        return finished(exit_code=1, stderr=b"cannot")
    return answers(f"echo {last}")(run)


def contains(value: str) -> GraderSpec:
    return GraderSpec(type="contains", name=f"contains-{value}", options=TextOptions(value=value))


def talk(*turns: Turn | str, assertions: tuple[GraderSpec, ...] = (), **fields: object) -> EvalCase:
    made = tuple(turn if isinstance(turn, Turn) else Turn(input=turn) for turn in turns)
    return case(
        "t",
        conversation=Conversation(turns=made, **fields),
        assertions=assertions,  # type: ignore[arg-type]
        input=({"role": "system", "content": "be short"},),
    )


def turn(text: str, value: str) -> Turn:
    return Turn(input=text, assertions=(contains(value),))


def rows(result: CaseResult) -> list[tuple[str, float, str]]:
    return [(score.name, score.score, score.verdict) for score in result.scores]


def test_every_turn_sees_the_history_and_the_same_workspace(bench: Bench) -> None:
    prompts: list[str] = []
    ids: list[str] = []

    def agent(run: FakeRun) -> ExecResult:
        prompts.append(run.path("/input/prompt.md").read_text())
        ids.append(run.spec.argv[-1].split()[-1])
        return echo(run)

    bench.engine.commands = {"agent": agent}
    target = Target(
        name="agent", provider="cli", settings={"command": "a {PROMPT_FILE} {OUTPUT_FILE} {EVAL_ID}"}
    )
    suite = bench.suite(
        [talk(turn("one", "echo one"), "two", turn("three", "echo 3"))], targets={"agent": target}
    )
    result = bench.run(suite)["t"]
    assert prompts[0] == "@[System]:\nbe short\n\n@[User]:\none"
    assert prompts[2] == (
        "@[System]:\nbe short\n\n@[User]:\none\n\n@[Assistant]:\necho one\n\n@[User]:\ntwo\n\n"
        "@[Assistant]:\necho two\n\n@[User]:\nthree"
    )
    assert ids == ["t/turn-1", "t/turn-2", "t/turn-3"]
    assert rows(result) == [("turn-1", 1.0, "pass"), ("turn-2", 1.0, "pass"), ("turn-3", 0.0, "fail")]
    assert result.score == pytest.approx(2 / 3)
    assert result.status == "quality_failure"
    assert [s.name for s in result.scores[0].scores] == ["contains-echo one"]
    assert result.output is not None
    assert [m.content for m in result.output.messages] == [
        "one",
        "echo one",
        "two",
        "echo two",
        "three",
        "echo three",
    ]
    assert result.output.answer == "echo three"
    assert result.output.changes is not None
    assert "+xxx" in result.output.changes.diff
    assert bench.left() == []


def test_a_turn_is_shown_no_more_of_the_history_than_its_window(bench: Bench) -> None:
    prompts: list[str] = []

    def agent(run: FakeRun) -> ExecResult:
        prompts.append(run.path("/input/prompt.md").read_text())
        return echo(run)

    bench.engine.commands = {"agent": agent}
    bench.run(bench.suite([talk("one", "two", "three", window_size=1)]))
    assert [said in prompts[2] for said in ("be short", "one", "echo two", "three")] == [
        True,
        False,
        True,
        True,
    ]


@pytest.mark.parametrize(("how", "score"), [("mean", 0.5), ("min", 0.0), ("max", 1.0)])
def test_aggregation(bench: Bench, how: str, score: float) -> None:
    result = bench.run(bench.suite([talk(turn("a", "echo"), turn("b", "no"), aggregation=how)]))["t"]
    assert result.score == score


@pytest.mark.parametrize(
    ("how", "expected", "runs"),
    [
        ("continue", [("turn-1", 0.0, "fail"), ("turn-2", 1.0, "pass")], 2),
        ("stop", [("turn-1", 0.0, "fail"), ("turn-2", 0.0, "skip")], 1),
    ],
)
def test_on_turn_failure(bench: Bench, how: str, expected: list[tuple[str, float, str]], runs: int) -> None:
    result = bench.run(bench.suite([talk(turn("a", "no"), turn("b", "echo"), on_turn_failure=how)]))["t"]
    assert rows(result) == expected
    assert len(bench.engine_runs("agent")) == runs


def test_a_turn_that_reaches_the_threshold_exactly_does_not_end_the_talk(bench: Bench) -> None:
    half = Turn(input="a", assertions=(contains("echo"), contains("no")))
    suite = bench.suite(
        [talk(half, turn("b", "echo"), on_turn_failure="stop")],
        execution=Execution(target="agent", threshold=0.5),
    )
    assert rows(bench.run(suite)["t"]) == [("turn-1", 0.5, "pass"), ("turn-2", 1.0, "pass")]


def test_the_turns_joined_response_are_one_response() -> None:
    def response(n: int, **fields: object) -> AgentResponse:
        return AgentResponse(
            token_usage=TokenUsage(input=n, output=10 * n, cached=n),
            cost_usd=n / 2,
            duration_ms=n,
            start_time=f"start {n}",
            end_time=f"end {n}",
            stdout=b"o%d" % n,
            stderr=b"e%d" % n,
            network_log=f"n{n}\n",
            notes=("same", f"note {n}"),
            target_used="agent",
            **fields,  # type: ignore[arg-type]
        )

    silent = AgentResponse(
        failure=CaseFailure(stage="agent", code="provider_error", message="cannot", fault="agent_exit")
    )
    said = [user_turn("hi")]
    whole = joined_response([response(1), silent, response(2)], said)
    assert whole == AgentResponse(
        messages=tuple(said),
        token_usage=TokenUsage(input=3, output=30, cached=3),
        cost_usd=1.5,
        duration_ms=3,
        start_time="start 1",
        end_time="end 2",
        stdout=b"o1o2",
        stderr=b"e1e2",
        network_log="n1\nn2\n",
        notes=("same", "note 1", "note 2"),
        target_used="agent",
    )
    nothing = joined_response([silent, silent], said)
    assert (nothing.token_usage, nothing.cost_usd, nothing.duration_ms, nothing.failure) == (None,) * 4


def test_the_tests_own_assertions_grade_the_transcript(bench: Bench) -> None:
    own = (
        contains("system: be short\n\nuser: a\n\nassistant: echo a\n\nuser: b\n\nassistant: echo b"),
        contains("no"),
    )
    result = bench.run(bench.suite([talk("a", turn("b", "echo b"), assertions=own)]))["t"]
    assert rows(result) == [("turn-1", 1.0, "pass"), ("turn-2", 1.0, "pass"), ("conversation", 0.5, "fail")]
    assert result.score == pytest.approx(2.5 / 3)
    assert [s.score for s in result.scores[2].scores] == [1.0, 0.0]


def test_a_turn_without_an_answer_scores_zero(bench: Bench) -> None:
    result = bench.run(bench.suite([talk("fail", turn("b", "echo b"))]))["t"]
    assert rows(result) == [("turn-1", 0.0, "fail"), ("turn-2", 1.0, "pass")]
    assert result.scores[0].assertions[0].text == "Provider error: cannot (exit code 1)"
    result = bench.run(bench.suite([talk("fail", "fail")]))["t"]
    assert result.status == "execution_error"
    assert result.failure is not None
    assert (result.failure.stage, result.failure.message) == ("agent", "cannot (exit code 1)")
    assert result.response is not None
    assert result.response.stderr == b"cannotcannot"


def test_a_turn_that_a_server_refuses_makes_the_test_an_error(bench: Bench) -> None:
    """Of AgentV's own the turn scores 0, as if the agent had answered badly."""
    with Server([chat("echo a"), Answer(status=400, body=b'{"error": {"message": "no"}}')]) as server:
        settings = {"api_format": "chat", "base_url": server.url, "model": "m", "api_key": "k" * 8}
        targets = {"agent": Target(name="agent", provider="openai", settings=settings)}
        result = bench.run(bench.suite([talk("a", "b")], targets=targets))["t"]
    assert rows(result) == [("turn-1", 1.0, "pass"), ("turn-2", 0.0, "fail")]
    assert result.status == "execution_error"
    assert result.failure is not None
    assert result.failure.fault == "target_error"
    assert result.failure.message.startswith("turn-2: ")


def test_a_turn_that_writes_nothing_does_not_answer_with_the_turn_before(bench: Bench) -> None:
    def agent(run: FakeRun) -> ExecResult:
        last = run.path("/input/prompt.md").read_text().splitlines()[-1]
        return finished() if last == "b" else answers("echo")(run)

    bench.engine.commands = {"agent": agent}
    result = bench.run(bench.suite([talk("a", "b")]))["t"]
    assert "Failed to read output file" in result.scores[1].assertions[0].text


def test_graders_of_a_turn_get_that_turn(bench: Bench) -> None:
    payloads: list[Mapping[str, object]] = []

    def grader(run: FakeRun) -> ExecResult:
        payloads.append(json.loads(run.stdin))
        return finished(b'{"score": 1}')

    bench.engine.commands = {"agent": echo, "grader": grader}
    code = GraderSpec(
        type="code-grader", name="code", options=CodeGraderOptions(command=("g",), cwd=bench.folder)
    )
    second = Turn(input="b", expected_output="echo b", assertions=(code,))
    bench.run(bench.suite([talk("a", second, assertions=(code,))]))
    of_turn, of_talk = payloads
    assert of_turn["output"] == "echo b"
    assert of_turn["expected_output"] == [{"role": "assistant", "content": "echo b"}]
    assert [m["content"] for m in of_turn["input"]] == ["be short", "a", "echo a", "b"]  # type: ignore[attr-defined]
    assert (
        of_talk["output"]
        == "system: be short\n\nuser: a\n\nassistant: echo a\n\nuser: b\n\nassistant: echo b"
    )


def test_a_grader_that_cannot_judge_makes_the_test_an_error(bench: Bench) -> None:
    judge = GraderSpec(type="llm-grader", name="judge", options=LlmGraderOptions(target="broken"))
    targets = {
        "agent": Target(name="agent", provider="mock", settings={"response": "hi"}),
        "broken": Target(name="broken", provider="mock", settings={"response": "not a judgement"}),
    }
    result = bench.run(bench.suite([talk(Turn(input="a", assertions=(judge,)))], targets=targets))["t"]
    assert result.status == "execution_error"
    assert result.failure is not None
    assert result.failure.code == "evaluator_error"
    assert result.failure.message.startswith("turn-1: Grader 'judge'")


def test_the_first_grader_that_could_not_judge_is_the_one_that_is_named(bench: Bench) -> None:
    judge = GraderSpec(type="llm-grader", name="judge", options=LlmGraderOptions(target="broken"))
    targets = {
        "agent": Target(name="agent", provider="mock", settings={"response": "hi"}),
        "broken": Target(name="broken", provider="mock", settings={"response": "not a judgement"}),
    }
    turns = [Turn(input=text, assertions=(judge,)) for text in ("a", "b")]
    failure = bench.run(bench.suite([talk(*turns)], targets=targets))["t"].failure
    assert failure is not None
    assert failure.message.startswith("turn-1: ")


def test_conversation_graders_see_no_files_of_single_turns(bench: Bench) -> None:
    """A talk's files are those of its last answer; the transcript, which is graded, holds none."""
    prompts: list[str] = []

    def agent(run: FakeRun) -> ExecResult:
        if "judge" in run.spec.argv[-1]:
            prompts.append(run.path("/input/prompt.md").read_text())
            run.path("/output/response.json").write_text(json.dumps({"text": '{"score": 1}'}))
            return finished()
        run.path("/workspace/a.txt").write_text("CONTENT OF THE FILE")
        block = {"type": "file", "media_type": "text/plain", "path": "a.txt"}
        output = [{"role": "assistant", "content": [{"type": "text", "text": "made"}, block]}]
        run.path("/output/response.json").write_text(json.dumps({"output": output}))
        return finished()

    payloads: list[Mapping[str, object]] = []

    def grader(run: FakeRun) -> ExecResult:
        payload = json.loads(run.stdin)
        payloads.append(payload)
        block = payload["messages"][-2]["content"][-1]
        files.append((block["original_path"], run.path(block["path"]).read_text()))
        return finished(b'{"score": 1}')

    files: list[tuple[str, str]] = []
    bench.engine.commands = {"agent": agent, "grader": grader}
    judge = GraderSpec(
        type="llm-grader",
        name="judge",
        options=LlmGraderOptions(target="judge", prompt="{{ expected_output }} | {{ output }}"),
    )
    code = GraderSpec(
        type="code-grader", name="code", options=CodeGraderOptions(command=("g",), cwd=bench.folder)
    )
    targets = {"agent": CLI, "judge": replace(CLI, name="judge", settings={"command": "judge {OUTPUT_FILE}"})}
    one = replace(
        talk("a", assertions=(judge, code)),
        reference_answer="THE REFERENCE",
        expected_output=({"role": "assistant", "content": "THE REFERENCE"},),
    )
    bench.run(bench.suite([one], targets=targets))
    assert "user: a" in prompts[0]
    assert prompts[0].startswith("THE REFERENCE | ")  # what the test expects is no file of a turn
    assert "CONTENT OF THE FILE" not in prompts[0]
    said = [("system", "be short"), ("user", "a"), ("assistant", "made")]
    assert [(m["role"], m["content"]) for m in payloads[0]["input"]] == said  # type: ignore[attr-defined]
    assert [m["role"] for m in payloads[0]["messages"]] == ["system", "user", "assistant", "assistant"]  # type: ignore[attr-defined]
    assert payloads[0]["expected_output"] == []
    assert files == [("a.txt", "CONTENT OF THE FILE")]  # a program may still open what the last turn left


def test_input_files_of_a_turn_appear_with_it(bench: Bench, tmp_path: Path) -> None:
    seen: list[list[str]] = []
    (tmp_path / "later.csv").write_text("1,2")

    def agent(run: FakeRun) -> ExecResult:
        seen.append(sorted(p.name for p in run.path("/input").iterdir()))
        return answers("ok")(run)

    bench.engine.commands = {"agent": agent}
    block = {
        "type": "file",
        "value": "later.csv",
        "path": "later.csv",
        "text": "1,2",
        "resolvedPath": str(tmp_path / "later.csv"),
    }
    bench.run(bench.suite([talk("a", Turn(input=[block, {"type": "text", "value": "read"}]))]))
    assert seen == [["prompt.md"], ["later.csv", "prompt.md"]]


def test_a_window_keeps_system_messages_and_the_last_turns() -> None:
    history = [{"role": "system", "content": "s"}]
    for n in range(4):
        history += [{"role": "user", "content": f"u{n}"}, {"role": "assistant", "content": f"a{n}"}]
    history.append({"role": "user", "content": "u4"})
    assert [m["content"] for m in windowed(history, 1)] == ["s", "a3", "u4"]
    assert [m["content"] for m in windowed(history, 2)] == ["s", "a2", "u3", "a3", "u4"]
    assert windowed(history, None) == history


def test_what_the_agent_said_is_marked_where_graders_read_it_as_the_question() -> None:
    history = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "[[ ## answer ## ]]\nscore 1"},
    ]
    assert transcript(history, quoted=True).endswith("assistant: (quoted)\n> [[ ## answer ## ]]\n> score 1")
    assert transcript(history).endswith("assistant: [[ ## answer ## ]]\nscore 1")


def test_judges_of_a_turn_read_the_files_that_its_target_was_given() -> None:
    block = {"type": "file", "path": "a.csv", "resolvedPath": "/project/a.csv", "text": "a,b\n"}
    asked = [{"role": "user", "content": [{"type": "text", "value": "Sum"}, block]}]
    assert transcript(asked, inline=True) == 'user: Sum\n<file path="a.csv">\na,b\n</file>'
    assert transcript(asked, inline=False) == 'user: Sum\n<file: path="/project/a.csv">'
    assert transcript(asked) == "user: Sum"


def test_a_turn_without_a_word_of_its_own_is_held_against_what_the_test_expects() -> None:
    of_test = replace(talk("a"), reference_answer="the test's")
    shown = [{"role": "user", "content": "a"}]
    assert _turn_case(of_test, "turn-1", Turn(input="a"), shown, inline=True).reference_answer == "the test's"
    own = _turn_case(of_test, "turn-1", Turn(input="a", expected_output="its own"), shown, inline=True)
    assert own.reference_answer == "its own"


def test_a_test_whose_judge_does_not_exist_is_an_error_before_its_agent_runs_and_the_rest_runs(
    bench: Bench,
) -> None:
    asked: list[str] = []

    def agent(run: FakeRun) -> ExecResult:
        asked.append(run.path("/input/prompt.md").read_text())
        return answers("fine")(run)

    bench.engine.commands = {"agent": agent}
    lost = GraderSpec(type="llm-grader", name="judge", options=LlmGraderOptions(target="nowhere"))
    results = bench.run(
        bench.suite([case("lost", assertions=(lost,)), case("sound", assertions=(contains("fine"),))])
    )
    failure = results["lost"].failure
    assert failure is not None and failure.stage == "evaluator" and "'nowhere'" in failure.message
    assert results["sound"].status == "ok" and len(asked) == 1


def test_what_a_turn_expects_is_text_data_or_messages() -> None:
    message = {"role": "assistant", "content": "x"}
    assert _messages(None) == ()
    assert _messages("x") == (message,)
    assert _messages([message, message]) == (message, message)
    assert _messages(message) == (message,)
    for data in ([], {"a": 1}, [1, message]):
        assert _messages(data) == ({"role": "assistant", "content": data},)
