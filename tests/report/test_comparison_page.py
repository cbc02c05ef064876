"""The page of ``compare``: what it shows, and that hostile names and many tests do it no harm."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import Any

from agentv_sandbox.report.comparison import compare_runs
from agentv_sandbox.report.comparisonpage import render, write_comparison_page
from agentv_sandbox.report.rows import Row
from tests.report.test_comparison import row, run_of


def page_of(before: list[Row], after: list[Row]) -> str:
    return "".join(render([compare_runs(run_of(before), run_of(after))], ["mean change -0.1"]))


def failed(name: str, fault: str) -> Row:
    return row(name, 0.0, execution_status="execution_error", fault=fault)


def lines(html: str) -> dict[str, tuple[str, str]]:
    """Classes and text of each test's line, by its name."""
    found = re.findall(r'<tr class="([^"]*)">(.*?)</tr>', html, re.DOTALL)
    texts = [(kind, " ".join(re.sub(r"<[^>]*>", " ", text).split())) for kind, text in found]
    return {text.split()[0]: (kind, text) for kind, text in texts}


def test_every_change_its_figures_and_its_fault_are_on_the_page() -> None:
    before = [
        row("fallen", 1.0, cost_usd=0.25, total_duration_ms=1000),
        row("risen", 0.5),
        row("same", 1.0),
        failed("broken", "timeout"),
        row("shaky", 0.5, trial_scores=[1.0, 0.0], trial_strategy="mean"),
    ]
    after = [
        row("fallen", 0.5, cost_usd=0.5, total_duration_ms=4000),
        row("risen", 1.0),
        row("same", 1.0),
        failed("broken", "out_of_memory"),
        row("shaky", 0.5, trial_scores=[1.0, 0.0], trial_strategy="mean"),
        row("added", 1.0),
    ]
    html = page_of(before, after)
    shown = lines(html)
    assert shown["fallen"] == ("changed fell", "fallen 1.00 0.50 -0.50 +3.0 +0.2500 fell")
    assert shown["risen"][0] == "changed rose" and shown["same"][0] == ""
    assert shown["broken"] == ("changed errors", "broken error error – +0.0 – same timeout → out_of_memory")
    assert shown["shaky"][0] == "changed flaky" and shown["added"][0] == "changed"
    labels = re.findall(r"<label [^>]*>([^<]*)</label>", html)
    assert labels == ["changed 5", "fell 1", "rose 1", "errors 1", "flaky 1", "all 6"]
    faults = re.findall(
        r"<tr><td>(\w+)</td><td class=\"number\">(\d)</td><td class=\"number\">(\d)</td></tr>", html
    )
    assert faults == [("timeout", "1", "0"), ("out_of_memory", "0", "1")]
    assert "mean change -0.1" in html


def test_the_page_runs_and_loads_nothing() -> None:
    html = page_of([row("t", 1.0)], [row("t", 1.0)])
    [style] = re.findall(r"<style>(.*?)</style>", html, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'" in html
    assert "<script" not in html and "http" not in html.replace("http-equiv", "")


def test_hostile_names_are_text() -> None:
    name = "<script>alert(1)</script>\x1b[31m\u202e"
    html = page_of([row(name, 1.0, suite=name)], [row(name, 0.0, suite=name), failed(name + "2", name)])
    assert "<script>" not in html and "\x1b" not in html and "\u202e" not in html
    assert "&lt;script&gt;" in html


def test_two_thousand_tests_stay_a_page_that_opens(tmp_path: Path) -> None:
    def rows(score: float) -> list[Row]:
        return [row(f"test-{number}", score) for number in range(2000)]

    comparison = compare_runs(run_of(rows(1.0)), run_of(rows(0.5)))
    write_comparison_page(tmp_path / "page.html", [comparison], [""])
    write_comparison_page(tmp_path / "page.html", [comparison], [""])  # replaces what is there
    page = (tmp_path / "page.html").read_text()
    assert len(lines(page)) == 2000 and len(page) < 2 << 20
    many: Any = compare_runs(
        run_of(rows(1.0) * 1), run_of([*rows(1.0), *(row(f"new-{n}", 1.0) for n in range(3500))])
    )
    html = "".join(render([many], [""]))
    assert len(lines(html)) == 5000 and "… and 500 more; compare --json has them all" in html
