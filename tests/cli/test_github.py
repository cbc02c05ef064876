"""A run in GitHub Actions and for programs: annotations, the job's summary, JSON; and what strangers' texts do there.

The runner reads both streams of a step line by line and obeys lines that have the form of a command. ``obeyed`` reads
them as it does (``ActionCommand`` of its sources): white space at the start does not count; ``##[`` may stand anywhere.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import cmarkgfm
import pytest

from agentv_sandbox.report.views.markdown import MAX_BYTES, MAX_ROWS, markdown
from agentv_sandbox.rows.record import Row
from agentv_sandbox.rows.redact import Redactor
from tests import forkserver

pytestmark = pytest.mark.engine

ATTACK = (
    "::add-mask::e\n  ::error file=a,line=1::planted\n\u3000::warning::x\r::stop-commands::y\n"
    "text ##[add-mask]a\n##[error]planted | a ` b </code></summary><img src=x> [link](https://evil.example)\n"
    "www.evil.example @somebody ![p](https://evil.example/p.png)\n| a | b |\n# head"
)
SUITE = f"""
name: small
execution: {{target: canned}}
tests:
  - id: good
    criteria: c
    input: go
    assertions: [{{type: contains, value: add-mask}}]
  - id: "poor ::error::x | y"
    criteria: c
    input: go
    assertions: [{{type: equals, value: {json.dumps("never " + ATTACK)}}}]
  - id: strict
    criteria: c
    input: go
    assertions: [{{type: contains, value: {json.dumps("##[add-path]" + ATTACK)}}}]
"""
TARGETS = f"targets: [{{name: canned, provider: mock, response: {json.dumps(ATTACK)}}}]\n"


def obeyed(text: str) -> list[tuple[str, dict[str, str], str]]:
    """Commands in a log: name, properties, value."""
    commands = []
    for line in re.split(r"\r\n|\n|\r", text):
        start = line.lstrip()
        if start.startswith("::") and (end := start.find("::", 2)) >= 0:
            name, _, words = start[2:end].partition(" ")
            commands.append((name, _properties(words, ","), _unescaped(start[end + 2 :])))
        elif (at := line.find("##[")) >= 0 and (end := line.find("]", at)) >= 0:
            name, _, words = line[at + 3 : end].partition(" ")
            commands.append((name, _properties(words, ";"), line[end + 1 :]))
    return commands


def _properties(text: str, separator: str) -> dict[str, str]:
    pairs = (word.partition("=") for word in text.split(separator) if word)
    return {key: _unescaped(value) for key, _, value in pairs}


def _unescaped(text: str) -> str:
    for code, char in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(code, char)
    return text


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals" / "s.eval.yaml").write_text(SUITE)
    (tmp_path / "evals" / "targets.yaml").write_text(TARGETS)
    return tmp_path


def command(checkout: Path, *argv: str, actions: bool = True) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "COLUMNS": "200"}
    if actions:
        env |= {
            "GITHUB_ACTIONS": "true",
            "GITHUB_WORKSPACE": str(checkout),
            "GITHUB_STEP_SUMMARY": str(checkout / "summary.md"),
        }
    return forkserver.command(*argv, cwd=checkout, env=env, timeout=300)


def test_the_runner_obeys_annotations_of_ours_and_nothing_else(checkout: Path) -> None:
    done = command(checkout, "run", "evals", "--verbose")
    assert done.returncode == 1, done.stderr
    commands = obeyed(done.stdout) + obeyed(done.stderr)
    assert sorted((name, words.get("file"), words.get("line")) for name, words, _ in commands) == [
        ("error", "evals/s.eval.yaml", "13"),
        ("error", "evals/s.eval.yaml", "9"),
    ]
    by_line = {words["line"]: (words["title"], message) for _, words, message in commands}
    title, message = by_line["9"]
    assert title == "poor ::error::x | y · small · canned scored 0.00"
    assert "add-mask" in message
    # The same texts outside of Actions are left as they are.
    plain = command(checkout, "run", "evals", actions=False)
    assert "##[" in plain.stdout
    assert obeyed(plain.stderr) == []


def test_the_jobs_summary_holds_no_link_picture_or_element_of_a_stranger(checkout: Path) -> None:
    command(checkout, "run", "evals")
    text = (checkout / "summary.md").read_text()
    seen = _Seen(
        cmarkgfm.github_flavored_markdown_to_html(text, options=cmarkgfm.cmark.Options.CMARK_OPT_UNSAFE)
    )
    assert seen.tags <= {
        *("h2", "p", "table", "thead", "tbody", "tr", "th", "td", "code", "details", "summary", "br"),
    }
    assert seen.cells == 4 * (1 + 3), "header and three tests"
    assert "https://evil.example" in seen.text
    assert seen.text.index("poor") < seen.text.index("good"), "failures first"
    assert text.startswith("## agentv-sandbox\n")


def test_a_long_summary_stays_below_the_limit() -> None:
    row = {
        "suite": "s",
        "target": "t",
        "execution_status": "quality_failure",
        "score": 0.0,
        "threshold": 0.8,
        "scores": [
            {
                "name": "g",
                "score": 0.0,
                "verdict": "fail",
                "assertions": [{"text": "|`<" * 90_000, "passed": False}],
            }
        ],
    }
    rows = [Row.of({**row, "test_id": f"{n}" * 60_000})[0] for n in range(300)]
    text = markdown(rows, Redactor())
    assert len(text.encode()) <= MAX_BYTES + 200
    assert f"{300 - MAX_ROWS} more tests" in text


class _Seen(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.cells = 0
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.cells += tag in ("td", "th")
        assert not [name for name, _ in attrs if name != "align"], (tag, attrs)

    def handle_data(self, data: str) -> None:
        self.text += data


def test_json_stands_alone_on_standard_output(checkout: Path) -> None:
    done = command(checkout, "run", "evals", "--json", "-o", "out")
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert obeyed(done.stdout) == []
    known = {key: document[key] for key in ("verdict", "exit_code", "planned", "passed", "failed", "errors")}
    assert known == {"verdict": "FAIL", "exit_code": 1, "planned": 3, "passed": 1, "failed": 2, "errors": 0}
    assert document["folder"] == str(checkout / "out")
    assert Path(document["page"]).is_file()
    tests = {test["test_id"]: test for test in document["tests"]}
    assert tests["good"]["status"] == "ok"
    assert tests["good"]["reasons"] == []
    assert (tests["good"]["file"], tests["good"]["line"]) == (str(checkout / "evals" / "s.eval.yaml"), 5)
    assert "##[add-path]" in tests["strict"]["reasons"][0]
    assert "RESULT: FAIL" in done.stderr


def test_mistakes_are_annotated_at_their_lines(checkout: Path) -> None:
    (checkout / "evals" / "s.eval.yaml").write_text(
        SUITE.replace("type: contains", "type: containz, x: '::error::'", 1)
    )
    for name in ("validate", "run"):
        done = command(checkout, name, "evals")
        assert done.returncode == 2
        [(kind, words, message)] = obeyed(done.stdout) + obeyed(done.stderr)
        assert (kind, words["file"], words["line"]) == ("error", "evals/s.eval.yaml", "8")
        assert "containz" in message


def test_what_is_more_than_github_takes_is_counted(checkout: Path) -> None:
    tests = "".join(
        f"  - {{id: t{n}, criteria: c, input: go, assertions: [{{type: contains, value: never}}]}}\n"
        for n in range(14)
    )
    (checkout / "evals" / "s.eval.yaml").write_text(
        f"name: many\nexecution: {{target: canned}}\ntests:\n{tests}"
    )
    done = command(checkout, "run", "evals")
    commands = obeyed(done.stdout + done.stderr)
    assert len(commands) == 10
    assert commands[-1][2].startswith("5 more are in the log")
