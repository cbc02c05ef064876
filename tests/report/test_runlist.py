"""The runs of a folder as a page: figures, trends and links, whatever they are called."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from typer.testing import CliRunner

from agentv_sandbox.cli import app
from tests.report.test_comparison import row

if TYPE_CHECKING:
    from playwright.sync_api import Browser

EVIL = '"><script>alert(1)<'


def runs(home: Path) -> Path:
    home.mkdir()
    for number, (name, scores) in enumerate(
        {"2026-01": [1.0, 0.5], "2026-02": [1.0, 1.0], "2026-03": [0.25, None]}.items()
    ):
        folder = home / "nightly" / name
        folder.mkdir(parents=True)
        rows = [row(f"t{n}", score, cost_usd=0.5) for n, score in enumerate(scores)]
        (folder / "index.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
        if number == 2:
            skipped = row("later", None, fault="not_run", error="depends on t1")
            with (folder / "index.jsonl").open("a") as stream:
                stream.write(json.dumps(skipped) + "\n")
        facts = {"started": f"2026-0{number + 1}-01T10:00:00+00:00", "experiment": EVIL}
        (folder / "run.json").write_text(json.dumps(facts))
        (folder / "report.html").write_text("page")
    (home / "alone#1").mkdir()
    (home / "alone#1/index.jsonl").write_text(json.dumps(row("t", 1.0, experiment="other")) + "\n")
    (home / "broken").mkdir()
    (home / "broken/index.jsonl").mkdir()
    return home


def test_runs_are_listed_with_their_figures_and_trend(browser: Browser, tmp_path: Path) -> None:
    home = runs(tmp_path / "runs")
    done = CliRunner().invoke(app, ["report", str(home)])
    assert done.exit_code == 0 and "runs.html" in done.stdout, done.output
    assert "warning: cannot read results" in done.output
    tab = browser.new_page()
    tab.goto((home / "runs.html").as_uri())
    assert tab.locator("h2").all_inner_texts() == [EVIL, "other"]
    lines = tab.locator("tbody tr").all_inner_texts()
    cells = [[cell.strip() for cell in line.split("\t")] for line in lines]
    name, started, *figures = cells[0]
    assert (name, started) == ("nightly/2026-03", "2026-03-01 10:00:00")
    assert figures == ["3", "0 (0%)", "1", "1", "1", "0.250", "-0.750", "–", "$1.0000"]
    assert [line[8] for line in cells] == ["-0.750", "+0.250", "", ""]
    assert tab.locator("polyline").count() == 2 and tab.locator("script").count() == 0
    links = tab.locator("tbody a").evaluate_all("all => all.map((each) => each.getAttribute('href'))")
    assert links == [f"nightly/2026-0{n}/report.html" for n in (3, 2, 1)]
    tab.close()


def test_a_run_itself_is_shown_and_a_folder_without_runs_refused(tmp_path: Path) -> None:
    home = runs(tmp_path / "runs")
    done = CliRunner().invoke(
        app, ["report", str(home / "nightly/2026-01"), "-o", str(tmp_path / "one.html")]
    )
    assert done.exit_code == 0 and "Report:" in done.stdout
    (tmp_path / "empty").mkdir()
    assert CliRunner().invoke(app, ["report", str(tmp_path / "empty")]).exit_code == 2
