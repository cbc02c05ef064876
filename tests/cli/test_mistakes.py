"""Mistakes that people make: each is reported once, where it is, with what to do, by ``validate`` as by ``run``."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from agentv_sandbox.cli import app

OK = "[{type: contains, value: x}]"
TARGET = "targets:\n  - {name: default, provider: cli, command: 'agent {OUTPUT_FILE}'}\n"
SUITE = f"name: s\ntests:\n  - id: a\n    input: x\n    assert: {OK}\n"
FILES = {
    "targets.yaml": TARGET,
    "s.eval.yaml": SUITE,
    "check.py": "print(1)\n",
    "prompt.md": "no variable here\n",
    "rows.jsonl": '{"id": "r", "input": "x", "criteria": "y"}\n',
}
BINARY = {"book.xlsx": b"PK\x03\x04\0", "photo.bmp": b"BM\0\0"}


@dataclass(frozen=True)
class Mistake:
    """One file of a sound project, changed."""

    name: str
    said: str
    """Part of what is reported."""
    suite: str = SUITE
    targets: str | None = TARGET
    line: int | None = None
    file: str = "s.eval.yaml"
    more: tuple[tuple[str, str], ...] = ()
    """Further files."""
    warning: bool = False
    """It is only a warning: the run would take place."""


def case(what: str) -> str:
    return f"name: s\ntests:\n  - {{id: a, input: x, {what}}}\n"


def grader(what: str) -> str:
    return f"name: s\ntests:\n  - id: a\n    input: x\n    assert:\n      - {what}\n"


def top(what: str) -> str:
    return f"{SUITE}{what}\n"


def target(what: str) -> str:
    return f"targets:\n  - {{name: default, {what}}}\n"


CLI = "provider: cli, command: 'agent {OUTPUT_FILE}'"
MODEL = "provider: openai, model: m, base_url: 'http://127.0.0.1:1'"
MISTAKES = [
    # -- the file as such
    Mistake("a tab", "tab", "name: s\ntests:\n\t- id: a\n", line=3),
    Mistake("an open quote", "quote", 'name: "s\ntests: []\n', line=1),
    Mistake("an open bracket", "expected", "name: s\ntests: [\n", line=3),
    Mistake("a key twice", "twice", SUITE + "name: t\n", line=6),
    Mistake("an empty file", "mapping with tests", "\n", line=1),
    Mistake("a list instead of a mapping", "mapping with tests", "- a\n", line=1),
    Mistake("no tests", "tests", "name: s\n", line=1),
    Mistake("no test in tests", "tests", "name: s\ntests: []\n", line=2),
    Mistake("a misspelt key", "asert", SUITE.replace("assert", "asert"), line=5),
    Mistake("a misspelt key of the suite", "preprocesors", top("preprocesors: []"), line=6),
    Mistake("tags of text", "tags", top("tags: {a: b}"), line=6),
    # -- tests
    Mistake("no id", "id", "name: s\ntests:\n  - {input: x, criteria: y}\n", line=3),
    Mistake("a number as id", "in quotes", "name: s\ntests:\n  - {id: 5, input: x, assert: [y]}\n", line=3),
    Mistake("an id twice", "a second test has the id", SUITE + SUITE.partition("tests:\n")[2], line=6),
    Mistake("no input", "input", f"name: s\ntests:\n  - {{id: a, assert: {OK}}}\n", line=3),
    Mistake(
        "nothing to grade by",
        "has nothing to grade the answer by",
        "name: s\ntests:\n  - {id: a, input: x}\n",
        line=3,
    ),
    Mistake(
        "a number as input", "input", f"name: s\ntests:\n  - {{id: a, input: 5, assert: {OK}}}\n", line=3
    ),
    Mistake(
        "a missing input file",
        "the input file 'gone.csv' does not exist",
        case(f"input_files: [gone.csv], assert: {OK}"),
        line=3,
    ),
    Mistake(
        "a folder as input file",
        "not a regular file",
        case(f"input_files: [docs], assert: {OK}"),
        line=3,
        more=(("docs/a.txt", ""),),
    ),
    Mistake("one input file as text", "must be a list", case(f"input_files: check.py, assert: {OK}"), line=3),
    Mistake(
        "a workbook for a model",
        "cannot be sent the input file book.xlsx",
        case(f"input_files: [book.xlsx], assert: {OK}"),
        target(MODEL),
        3,
    ),
    Mistake(
        "a picture that no server takes",
        "cannot be sent the input file photo.bmp",
        grader("{type: is-json}").replace(
            "x", "[{role: user, content: [{type: image, value: photo.bmp}]}]", 1
        ),
        target(MODEL),
        3,
    ),
    Mistake(
        "a wrong role",
        "must have a role of",
        f"name: s\ntests:\n  - {{id: a, input: [{{role: bot, content: x}}], assert: {OK}}}\n",
        line=3,
    ),
    Mistake("depends on nobody", "no test has the id 'b'", case(f"depends_on: [b], assert: {OK}"), line=3),
    Mistake("depends on itself", "wait for each other", case(f"depends_on: [a], assert: {OK}"), line=3),
    Mistake(
        "a threshold in percent", "threshold", case(f"execution: {{threshold: 80}}, assert: {OK}"), line=3
    ),
    Mistake("tests from a missing file", "tests in 'rows.json'", "name: s\ntests: rows.json\n", line=2),
    Mistake("a glob without a match", "no file matches", "name: s\ntests: ['file://cases/*.yaml']\n", line=2),
    Mistake(
        "a broken line of a data set",
        "not",
        "name: s\ntests: bad.jsonl\n",
        line=2,
        file="bad.jsonl",
        more=(("bad.jsonl", '{"id": "r", "input": "x", "criteria": "y"}\n{"id": \n'),),
    ),
    Mistake(
        "tests from a text file",
        "must be .yaml",
        "name: s\ntests: notes.txt\n",
        line=2,
        more=(("notes.txt", "x"),),
    ),
    # -- assertions
    Mistake(
        "a misspelt type", "unknown assertion type 'contians'", grader("{type: contians, value: x}"), line=6
    ),
    Mistake("no type", "type", grader("{value: x}"), line=6),
    Mistake("no value", "value", grader("{type: contains}"), line=6),
    Mistake("a broken pattern", "Invalid regular expression", grader("{type: regex, value: '(['}"), line=6),
    Mistake(
        "a missing script",
        "the script 'gone.py' does not exist",
        grader("{type: code-grader, command: [python3, gone.py]}"),
        line=6,
    ),
    Mistake(
        "a missing script in text",
        "the script 'gone.py' does not exist",
        grader("{type: code-grader, command: python3 gone.py -v}"),
        line=6,
    ),
    Mistake("no command", "command", grader("{type: code-grader}"), line=6),
    Mistake(
        "a missing prompt file", "gone.md", grader("{type: llm-grader, prompt: 'file://gone.md'}"), line=6
    ),
    Mistake(
        "a prompt without the answer",
        "prompt.md",
        grader("{type: llm-grader, prompt: 'file://prompt.md'}"),
        line=6,
    ),
    Mistake(
        "a grader's target that is missing",
        "no target is named 'judge'",
        grader("{type: llm-grader, prompt: ok, target: judge}"),
        line=6,
    ),
    Mistake("no model to grade", "is graded by a model", grader("{type: llm-grader, prompt: ok}"), line=6),
    Mistake("a negative weight", "weight", grader("{type: contains, value: x, weight: -1}"), line=6),
    Mistake("a weight of text", "weight", grader("{type: contains, value: x, weight: high}"), line=6),
    Mistake("min_score in percent", "min_score", grader("{type: contains, value: x, min_score: 80}"), line=6),
    Mistake(
        "rubrics without an outcome", "outcome", grader("{type: llm-grader, rubrics: [{id: r}]}"), line=6
    ),
    Mistake(
        "a composite without members",
        "assertions",
        grader("{type: composite, aggregator: {type: threshold, threshold: 0.5}}"),
        line=6,
    ),
    Mistake(
        "an aggregator that is unknown",
        "must be one of",
        grader("{type: composite, assertions: [{type: is-json}], aggregator: {type: median}}"),
        line=6,
    ),
    Mistake("a cost without a budget", "budget", grader("{type: cost}"), line=6),
    Mistake("a latency of text", "threshold", grader("{type: latency, threshold: fast}"), line=6),
    Mistake("an include that is missing", "the template", grader("{include: shared}"), line=6),
    Mistake("a misspelt option", "valu", grader("{type: contains, valu: x}"), line=6),
    # -- targets
    Mistake("no targets.yaml", "no targets.yaml was found", targets=None),
    Mistake("a target that is missing", "no target is named 'defalt'", top("target: defalt"), line=6),
    Mistake(
        "targets of text", "must hold a mapping with a list targets", SUITE, "targets: x\n", 1, "targets.yaml"
    ),
    Mistake(
        "a target twice",
        "a second target is named",
        SUITE,
        TARGET + TARGET.partition("\n")[2],
        3,
        "targets.yaml",
    ),
    Mistake("no provider", "provider", SUITE, target("command: x"), 2, "targets.yaml"),
    Mistake(
        "a misspelt provider",
        "unknown provider 'opena'",
        SUITE,
        target("provider: opena, model: m"),
        2,
        "targets.yaml",
    ),
    Mistake("no command of an agent", "command", SUITE, target("provider: cli"), 2, "targets.yaml"),
    Mistake(
        "no place for the answer",
        "does not mention {OUTPUT_FILE}",
        SUITE,
        target("provider: cli, command: 'agent {PROMPT_FILE}'"),
        2,
        "targets.yaml",
    ),
    Mistake(
        "a misspelt placeholder",
        "did you mean {PROMPT_FILE}",
        SUITE,
        target("provider: cli, command: 'agent {PROMTP_FILE} {OUTPUT_FILE}'"),
        2,
        "targets.yaml",
    ),
    Mistake(
        "an agent's script that is missing",
        "the script 'agents/a.py' is neither in the project",
        SUITE,
        target("provider: cli, command: 'python3 agents/a.py {OUTPUT_FILE}'"),
        2,
        "targets.yaml",
    ),
    Mistake(
        "a key in the file",
        "must name an environment variable",
        SUITE,
        target(f"{MODEL}, api_key: sk-1234"),
        2,
        "targets.yaml",
    ),
    Mistake(
        "no model",
        "which model is to answer",
        SUITE,
        target("provider: openai, base_url: 'http://127.0.0.1:1'"),
        2,
        "targets.yaml",
    ),
    Mistake(
        "camelCase",
        "write base_url",
        SUITE,
        target("provider: openai, model: m, baseUrl: 'http://127.0.0.1:1'"),
        2,
        "targets.yaml",
    ),
    Mistake(
        "a circle of targets",
        "delegates in a circle",
        SUITE,
        target("use_target: default"),
        2,
        "targets.yaml",
    ),
    Mistake(
        "a fallback that is missing",
        "no target is named 'spare'",
        SUITE,
        target(f"{CLI}, fallback_targets: [spare]"),
        2,
        "targets.yaml",
    ),
    Mistake(
        "a time of text", "timeout_seconds", SUITE, target(f"{CLI}, timeout_seconds: soon"), 2, "targets.yaml"
    ),
    Mistake(
        "a secret without its server",
        "host",
        SUITE,
        target(f"{CLI}, secrets: {{KEY_X: {{header: a}}}}"),
        2,
        "targets.yaml",
    ),
    Mistake(
        "an address without a scheme",
        "must be an http or https address",
        SUITE,
        target("provider: claude, base_url: api.example"),
        2,
        "targets.yaml",
    ),
    # -- workspace
    Mistake(
        "a template that is missing",
        "the template 'tpl' does not exist",
        top("workspace: {template: tpl}"),
        line=6,
    ),
    Mistake(
        "a hook's script that is missing",
        "the script 'prep.sh' does not exist",
        top("workspace: {hooks: {before_each: {command: [bash, prep.sh]}}}"),
        line=6,
    ),
    Mistake(
        "a hook's script in text",
        "the script 'prep.sh' does not exist",
        top("workspace: {hooks: {before_each: {command: bash prep.sh}}}"),
        line=6,
    ),
    Mistake(
        "a hook that is unknown",
        "before_test",
        top("workspace: {hooks: {before_test: {command: x}}}"),
        line=6,
        warning=True,
    ),
    Mistake(
        "a branch without protection",
        "pinned by its full 40-digit hash",
        top("workspace: {repos: [{repo: 'http://git.example/a.git', commit: main}]}"),
        line=6,
    ),
    Mistake(
        "a repository that is missing",
        "does not exist",
        top("workspace: {repos: [{repo: ./vendor}]}"),
        line=6,
    ),
    Mistake(
        "a repository above the workspace",
        "must be a folder inside the workspace",
        top("workspace: {repos: [{repo: 'https://git.example/a.git', path: ../a}]}"),
        line=6,
    ),
    Mistake(
        "a command with a blank",
        "is not a command name",
        top("workspace: {env: {required_commands: ['jq -r']}}"),
        line=6,
    ),
    Mistake(
        "a package for a module",
        "is not an import name",
        top("workspace: {env: {required_python_modules: [python-docx]}}"),
        line=6,
    ),
    Mistake("memory of text", "memory", top("limits: {memory: lots}"), line=6),
    Mistake("isolation that is unknown", "isolation", top("workspace: {isolation: full}"), line=6),
    Mistake(
        "a Dockerfile that is missing",
        "the Dockerfile",
        top("workspace: {docker: {dockerfile: Dockerfile.x}}"),
        line=6,
    ),
    # -- preprocessors and execution
    Mistake(
        "a converter that is unknown",
        "'builtin:excel' does not exist",
        top("preprocessors: [{type: xlsx, command: ['builtin:excel']}]"),
        line=6,
    ),
    Mistake(
        "a converter's script that is missing",
        "the script 'to_csv.py' does not exist",
        top("preprocessors: [{type: xlsx, command: [python3, to_csv.py]}]"),
        line=6,
    ),
    Mistake(
        "a converter of text", "command", top("preprocessors: [{type: xlsx, command: python3 x.py}]"), line=6
    ),
    Mistake("too many workers", "workers", top("execution: {workers: 500}"), line=6),
    Mistake(
        "a strategy that is unknown",
        "strategy",
        top("execution: {trials: {count: 2, strategy: best}}"),
        line=6,
    ),
    Mistake("no trials", "count", top("execution: {trials: {count: 0}}"), line=6),
    # -- what people mean by it is in the hint
    Mistake(
        "a misspelt kind of block",
        "did you mean 'text'?",
        case(f"input: [{{role: user, content: [{{type: txt, value: x}}]}}], assert: {OK}").replace(
            "input: x, ", ""
        ),
        line=3,
    ),
    Mistake(
        "several texts for one", "contains-any wants one", grader("{type: contains, value: [x, y]}"), line=6
    ),
    Mistake(
        "one text for several", "write it as a list: ['x']", grader("{type: contains-any, value: x}"), line=6
    ),
    Mistake("a type as the key", "write {type: contains, value: x}", grader("contains: x"), line=6),
    Mistake("a share in percent", "write it as a share: 0.8", top("execution: {threshold: 80%}"), line=6),
    Mistake("a share of eighty", "80 % is 0.8", top("execution: {threshold: 80}"), line=6),
    Mistake("a time with its unit", "without a unit", grader("{type: latency, threshold: 5s}"), line=6),
    Mistake(
        "a hook that is a list",
        "write {command: [ls, -l]}",
        top("workspace: {hooks: {before_each: [ls, -l]}}"),
        line=6,
    ),
    Mistake(
        "turns of no conversation",
        "write mode: conversation beside it",
        "name: s\ntests:\n  - {id: a, criteria: y, turns: [{input: x}]}\n",
        line=3,
    ),
    Mistake(
        "a turn that asks nothing",
        "turns[0].input",
        "name: s\ntests:\n  - {id: a, mode: conversation, criteria: y, turns: [{expected_output: x}]}\n",
        line=3,
    ),
    Mistake(
        "tests without dashes",
        "begin each entry with a dash",
        f"name: s\ntests:\n  a: {{input: x, assert: {OK}}}\n",
        line=3,
    ),
    Mistake(
        "a composite of nothing",
        "write assertions: the members",
        grader("{type: composite, aggregator: {type: weighted_average}}"),
        line=6,
    ),
    Mistake("a line of no entry", "begin it with a dash", SUITE.replace("    assert", "  assert"), line=5),
    Mistake("a brace that stays open", "} behind the last", SUITE.replace("value: x}", "value: x"), line=5),
    Mistake(
        "a target without its command",
        "write command: the command line",
        SUITE,
        target("provider: cli"),
        2,
        "targets.yaml",
    ),
    Mistake(
        "a comparison with nothing",
        "write the expected object as expected_output",
        grader("{type: field-accuracy, fields: [{path: a, match: exact}]}"),
        line=6,
        warning=True,
    ),
    Mistake(
        "a branch as commit",
        "git ls-remote REPOSITORY main",
        top("workspace: {repos: [{repo: 'https://example.com/a/b.git', commit: main}]}"),
        line=6,
        warning=True,
    ),
    Mistake(
        "a misspelt setting of a spare target",
        "did you mean 'base_url'?",
        SUITE,
        f"{TARGET}  - {{name: spare, provider: openai, model: m, base_ulr: 'http://127.0.0.1:1'}}\n",
        3,
        "targets.yaml",
        warning=True,
    ),
    Mistake(
        "a misspelt name of a target",
        "did you mean 'name'?",
        top("execution: {targets: [{nme: default}]}"),
        line=6,
    ),
    Mistake(
        "another word for a required key",
        "'url' is not a key here: is it repo under another name?",
        top("workspace: {repos: [{url: 'https://git.example/a.git', path: a}]}"),
        line=6,
    ),
    Mistake(
        "a variable that no test has",
        "{{ nmae }} is not a variable of this test",
        "name: s\ntests:\n  - id: a\n    vars: {name: x}\n    input: Greet {{ nmae }}\n    assert: "
        + OK
        + "\n",
        line=5,
        warning=True,
    ),
    Mistake(
        "a variable where nobody has any",
        "vars of this test: none",
        case(f"assert: {OK}").replace("input: x", "input: 'Greet {{ name }}'"),
        line=3,
        warning=True,
    ),
    Mistake(
        "a circle of two targets",
        "delegates in a circle or too far: default → b → default",
        SUITE,
        "targets:\n  - {name: default, use_target: b}\n  - {name: b, use_target: default}\n",
        3,
        "targets.yaml",
    ),
    Mistake("memory for no program", "must be at least 6m", top("limits: {memory: 1k}"), line=6),
    Mistake(
        "several targets and no file of them",
        "as `agentv-sandbox init` does",
        top("execution: {targets: [one, two]}"),
        None,
        6,
    ),
    Mistake(
        "a circle of tests",
        "tests wait for each other: a → b → a",
        f"name: s\ntests:\n  - {{id: a, input: x, depends_on: [b], assert: {OK}}}\n"
        f"  - {{id: b, input: x, depends_on: [a], assert: {OK}}}\n",
        line=3,
    ),
    Mistake(
        "a key that belongs elsewhere", "write execution: {trials: …}", top("trials: 3"), line=6, warning=True
    ),
    Mistake(
        "a misspelt command of a hook",
        "did you mean 'command'?",
        top("workspace: {hooks: {before_each: {comand: [ls]}}}"),
        line=6,
    ),
    Mistake("a misspelt image", "did you mean 'image'?", top("workspace: {docker: {img: 'x:1'}}"), line=6),
    Mistake(
        "one assertion without a dash", "begin each entry with a dash", SUITE.replace(OK, OK[1:-1]), line=5
    ),
    Mistake(
        "one rubric as text",
        "write it as a list: ['good']",
        SUITE.replace(f"assert: {OK}", "rubrics: good"),
        line=5,
    ),
    Mistake(
        "a misspelt mode",
        "did you mean 'conversation'?",
        f"name: s\ntests:\n  - {{id: a, mode: conversational, turns: [{{input: x, assert: {OK}}}]}}\n",
        line=3,
    ),
    Mistake(
        "a turn with another word for its input",
        "is it input under another name?",
        f"name: s\ntests:\n  - {{id: a, mode: conversation, turns: [{{prompt: x, assert: {OK}}}]}}\n",
        line=3,
    ),
    Mistake(
        "a test that another one waits for",
        "input",
        f"name: s\ntests:\n  - {{id: a, input: 5, assert: {OK}}}\n"
        f"  - {{id: b, input: x, depends_on: [a], assert: {OK}}}\n",
        line=3,
    ),
    Mistake(
        "a list in a file of lines",
        "name the file list.json",
        "name: s\ntests: list.jsonl\n",
        line=1,
        file="list.jsonl",
        more=(("list.jsonl", '[\n{"id": "a", "input": "b", "criteria": "c"}\n]\n'),),
    ),
    Mistake("tests in a workbook", "export the table as CSV", "name: s\ntests: book.xlsx\n", line=2),
    Mistake(
        "targets as a list of names",
        "write {name: …, provider: …}",
        SUITE,
        "targets: [one]\n",
        1,
        "targets.yaml",
    ),
    Mistake(
        "variables as a list",
        "must be a mapping, found a list",
        case(f"vars: [x], assert: {OK}").replace("input: x", "input: '{{ x }}'"),
        line=3,
    ),
    Mistake(
        "a path of another system",
        "write / between folders",
        case(f"input_files: ['docs\\a.txt'], assert: {OK}"),
        line=3,
    ),
    Mistake(
        "a conversation without turns",
        "must not be empty",
        "name: s\ntests:\n  - {id: a, mode: conversation, turns: []}\n",
        line=3,
    ),
    Mistake("a host with its scheme", "host", top("network: {allow: ['https://api.example.com']}"), line=6),
]
assert len({mistake.name for mistake in MISTAKES}) == len(MISTAKES) >= 81


ACTS = re.compile(
    r"must|is required|write|did you mean|is not|needs|at least|unknown|expected|does not|has to"
)
"""What a sentence says that is itself what to do."""


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name.replace(" ", "-"))
def test_a_mistake_is_reported_once_with_its_place_and_what_to_do(
    mistake: Mistake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write(mistake, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    monkeypatch.setattr(os, "environ", {**os.environ, "DOCKER_HOST": "unix:///nowhere"})
    code = app(["validate", "--json", "s.eval.yaml"], standalone_mode=False)
    said = capsys.readouterr()
    problems = json.loads(said.out)
    [problem] = [p for p in problems if p["severity"] == "error"] or problems
    assert mistake.said in " ".join(str(problem.get(key, "")) for key in ("field", "message", "hint"))
    assert (code, problem["severity"]) == ((0, "warning") if mistake.warning else (2, "error"))
    if mistake.line is not None:
        assert (Path(problem["path"]).name, problem.get("line")) == (mistake.file, mistake.line)
    assert problem.get("path") and (problem.get("hint") or ACTS.search(problem["message"])), problem

    code = app(["run", "s.eval.yaml"], standalone_mode=False)
    ran = capsys.readouterr()
    assert code == (3 if mistake.warning else 2), ran.err
    assert " ".join(problem["message"].split()) in " ".join(ran.err.split())
    if not mistake.warning:
        assert "1 problem; nothing was run." in ran.err
    for text in (said.err, ran.err, ran.out):
        assert "unforeseen" not in text and "Traceback" not in text


def write(mistake: Mistake, folder: Path) -> None:
    files = {**FILES, "targets.yaml": mistake.targets, "s.eval.yaml": mistake.suite, **dict(mistake.more)}
    for name, text in files.items():
        if text is not None:
            path = folder / name
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
    for name, data in BINARY.items():
        (folder / name).write_bytes(data)
