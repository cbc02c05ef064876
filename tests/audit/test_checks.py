"""What is read off files: planted flaws by their right names, nothing of honest suites and of our own examples."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from agentv_sandbox.audit.findings import AuditReport, Finding
from agentv_sandbox.audit.planning import audited
from agentv_sandbox.audit.summing import report_of
from agentv_sandbox.loading import LoadResult
from agentv_sandbox.request import RunRequest
from agentv_sandbox.runs import api
from agentv_sandbox.runs.prepare import loaded_as_written
from tests.audit.honest import HONEST
from tests.audit.planted import CALC, FIX_IT, FLAWED, JUDGED, SPACE, Case, ask, code, grader, shell
from tests.examples import clone

BY_AGENTS = frozenset(
    [
        "always-passes",
        "claim-believed",
        "existence-only",
        "link-followed",
        "prompt-echoed",
        "verdict-from-agent",
        "weak-comparison",
    ]
)
"""Rules that take an agent to be shown, as a rule."""
NEED_A_SOLUTION = frozenset({"typo", "wrong-path", "wrong-value"})


def load(folder: Path, cases: Iterable[Case], **more: Any) -> tuple[LoadResult, RunRequest]:
    request = api.as_audit(RunRequest(suites=[case.write(folder) for case in cases], cwd=folder, **more))
    return loaded_as_written(request, folder, {}), request


def read(folder: Path, cases: Iterable[Case], **more: Any) -> AuditReport:
    loaded, request = load(folder, cases, **more)
    return report_of(loaded, request, {suite.path: list(suite.cases) for suite in loaded.suites}, (), None)


def by_test(findings: Sequence[Finding]) -> dict[tuple[str, str], set[str]]:
    rules: dict[tuple[str, str], set[str]] = {}
    for each in findings:
        rules.setdefault((each.suite, each.test), set()).add(each.rule)
    return rules


def test_planted_flaws_are_read_by_their_names_and_nothing_else(tmp_path: Path) -> None:
    rules = by_test(read(tmp_path, FLAWED).findings)
    for case in FLAWED:
        for test, rule in case.expected.items():
            got = rules.get((case.name, test), set())
            if rule not in BY_AGENTS and test not in NEED_A_SOLUTION:
                assert got == {rule} - {""}, (case.name, test)
            assert got <= {rule}, (case.name, test)


def test_nothing_is_said_of_honest_suites_with_near_misses(tmp_path: Path) -> None:
    assert len(HONEST) == 30
    assert by_test(read(tmp_path, HONEST).findings) == {}


def test_nothing_is_said_of_our_own_examples(tmp_path: Path) -> None:
    root = clone(tmp_path)
    suites = sorted(root.glob("examples/*/*.eval.yaml")) + sorted(root.glob("examples/*/evals/*.eval.yaml"))
    request = api.as_audit(RunRequest(suites=suites, cwd=root))
    loaded = loaded_as_written(request, root, {})
    report = report_of(loaded, request, {suite.path: list(suite.cases) for suite in loaded.suites}, (), None)
    assert len(loaded.suites) >= 10 and report.count.tests >= 20
    assert report.findings == ()


def test_a_finding_has_its_grader_file_and_line(tmp_path: Path) -> None:
    text = "import json, sys\ncase = json.load(sys.stdin)\nsys.path.insert(0, case['workspace_path'])\nimport calc\n"
    suite = Case("s", [ask("t", FIX_IT, code("g"))], ("",), {**CALC, "graders/g.py": text}, SPACE)
    (finding,) = read(tmp_path, [suite]).findings
    assert (finding.rule, finding.grader, finding.line) == ("imports-from-workspace", "g", 3)
    assert finding.path == tmp_path / "s" / "graders" / "g.py"
    assert finding.confidence == "likely" and "run_candidate" in finding.repair


def test_judges_that_say_nothing_are_left_out_and_named(tmp_path: Path) -> None:
    judged = ask(
        "t", "Write a poem.", {"type": "llm-grader", "name": "g", "prompt": "Good?"}, criteria="A poem"
    )
    both = ask(
        "u",
        "Write a poem.",
        {"type": "llm-grader", "name": "g", "prompt": "Good?"},
        {"type": "contains", "value": "rose"},
    )
    mock = JUDGED.replace(
        "provider: openai, api_format: chat, base_url: 'http://127.0.0.1:1/v1', api_key: '${{ JUDGE_KEY }}', model: m",
        "provider: mock",
    )
    for targets, why in ((mock, "is a mock"), (JUDGED, "JUDGE_KEY of its judge 'judge' is not set")):
        case = Case("s", [judged, both], ("", ""), targets=targets)
        loaded, request = load(tmp_path / why[:4], [case])
        (suite,) = audited(loaded, request).suites
        assert [each.id for each in suite.cases] == ["u"]
        assert [spec.type for spec in suite.cases[0].assertions] == ["contains"]
        notes = read(tmp_path / why[:3], [case]).notes
        assert any("s/t is read, but no agent is put to it" in note and why in note for note in notes)
        assert any("s/u is graded without it" in note for note in notes)


def test_a_judge_is_asked_about_one_injection_of_each_kind(tmp_path: Path) -> None:
    judged = ask(
        "t", "Write a poem.", {"type": "llm-grader", "name": "g", "prompt": "Good?"}, criteria="A poem"
    )
    (path,) = [Case("s", [judged], ("",), targets=JUDGED).write(tmp_path)]
    counts = []
    for more in ({}, {"injections": 200}, {"injections": 0}, {"no_judges": True}):
        request = api.as_audit(RunRequest(suites=path, cwd=tmp_path, environ={"JUDGE_KEY": "k"}, **more))
        suites = audited(loaded_as_written(request, tmp_path, {"JUDGE_KEY": "k"}), request).suites
        counts.append(
            sum(name.startswith("audit-injection") for suite in suites for name in suite.cases[0].targets)
        )
    assert counts == [12, 200, 0, 0]


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "x = " + "(" * 4000,
        "x = " + "[" * 100_000,
        "a." * 60_000,
        "[" * 120_000 + "$(date",
        "/workspace/" * 12_000,
        "import json\n" * 12_000,
        "\0\xff\ud800".encode("utf-8", "replace").decode(),
    ],
)
def test_hostile_graders_cost_neither_time_nor_a_traceback(tmp_path: Path, text: str) -> None:
    files = {**CALC, "graders/g.py": text, "graders/g.sh": text}
    tests = [
        ask("t", FIX_IT, code("g")),
        ask("u", FIX_IT, shell(f"bash graders/g.sh; {text[:50_000]}".replace("\0", ""))),
    ]
    began = time.monotonic()
    read(tmp_path, [Case("s", tests, ("", ""), files, SPACE)])
    assert time.monotonic() - began < 20


def test_what_stands_in_a_template_is_neither_followed_nor_waited_for(tmp_path: Path) -> None:
    suite = Case(
        "s",
        [ask("t", "Say it.", {"type": "equals", "value": "secret-1"}, expected_output="secret-1")],
        ("",),
        {"template/a.txt": "x"},
        SPACE,
    )
    path = suite.write(tmp_path)
    template = path.parent / "template"
    (tmp_path / "outside.txt").write_text("secret-1\n")
    (template / "answers.txt").symlink_to(tmp_path / "outside.txt")
    (template / "loop").symlink_to(template)
    request = api.as_audit(RunRequest(suites=path, cwd=tmp_path))
    loaded = loaded_as_written(request, tmp_path, {})
    os.mkfifo(template / "expected.txt")
    report = report_of(loaded, request, {each.path: list(each.cases) for each in loaded.suites}, (), None)
    assert report.findings == ()


def test_shared_workspaces_whose_tests_say_that_they_depend_are_as_they_should_be(tmp_path: Path) -> None:
    space = {"workspace": {"isolation": "shared"}}
    check = shell('grep -q a "$AGENTV_WORKSPACE_PATH/a.txt"')
    for more, found in (({}, {("s", "b"): {"depends-on-order"}}), ({"depends_on": ["a"]}, {})):
        tests = [ask("a", "Write a.txt.", check), ask("b", "Say what is in it.", check, **more)]
        assert (
            by_test(read(tmp_path / str(len(more)), [Case("s", tests, ("", ""), suite=space)]).findings)
            == found
        )


def test_output_that_is_compared_with_values_is_no_verdict_of_the_workspace(tmp_path: Path) -> None:
    run = "import subprocess\nran = subprocess.run([sys.executable, 'calc.py'], cwd=ws, capture_output=True, text=True)\n"
    files = {
        **CALC,
        "graders/a.py": grader(run + "ok = ran.stdout.strip() == '15'\n"),
        "graders/b.py": grader(run + "ok = ran.returncode == 0\n"),
    }
    tests = [ask("compared", FIX_IT, code("a")), ask("believed", FIX_IT, code("b"))]
    assert by_test(read(tmp_path, [Case("s", tests, ("", ""), files, SPACE)]).findings) == {
        ("s", "believed"): {"decided-in-workspace"}
    }
