"""Two thousand tests on one page: it opens at once, only what is in sight is in the document, and all can be found."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agentv_sandbox.models.suite import Suite
from agentv_sandbox.runfolder.folder import RunFolder
from tests.answers import message
from tests.report.browser import opened
from tests.report.made_results import make_case, make_grader, make_output, make_result, write_case
from tests.report.pages import page_of

pytestmark = pytest.mark.slow

if TYPE_CHECKING:
    from playwright.sync_api import Browser

TESTS = 2000


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Twenty tests by the product's own writers; their files stand for those of all."""
    home = tmp_path_factory.mktemp("many")
    suite = Suite(path=home / "s.eval.yaml", project_root=home, search_roots=(home,), name="reports")
    with RunFolder.create(home / "run", home) as folder:
        for number in range(20):
            answer = f"Answer {number}: " + "the revenue of the region grew, as the workbook shows. " * 40
            graders = (make_grader("exact", 1.0), make_grader("judge", 0.3 if number < 3 else 1.0))
            result = make_result(
                f"t{number}",
                0.65 if number < 3 else 1.0,
                scores=graders,
                output=make_output(messages=(message(answer),)),
            )
            write_case(folder, result, make_case(f"t{number}"), suite)
    index = folder.path / "index.jsonl"
    rows = [json.loads(line) for line in index.read_text().splitlines()]
    numbered = [{**rows[n % 20], "test_id": f"test-{n:04}"} for n in range(TESTS)]
    index.write_text("".join(json.dumps(row) + "\n" for row in numbered))
    return page_of(home / "page.html", folder.path)


def test_two_thousand_tests_open_scroll_and_filter(browser: Browser, page: Path) -> None:
    assert page.stat().st_size < 8 << 20
    started = time.monotonic()
    with opened(browser, page) as it:
        it.key("j")
        assert it.tab.evaluate("document.activeElement.getAttribute('aria-rowindex')") == "2"
        assert time.monotonic() - started < 15  # generous; bench/page.py measures it
        assert it.tab.locator(".rows .row").count() < 80
        assert it.tab.get_attribute("[role=grid]", "aria-rowcount") == str(TESTS + 1)
        it.tab.evaluate("window.scrollTo(0, document.body.scrollHeight)")
        it.until("[...document.querySelectorAll('.rows .row')].some((r) => r.ariaRowIndex === '2001')")
        it.tab.evaluate("window.scrollTo(0, 0)")
        for _ in range(100):
            it.key("j")
        assert it.tab.evaluate("document.activeElement.getAttribute('aria-rowindex')") == "102"
        it.key("/")
        it.tab.keyboard.type("test-1999")
        it.until("document.querySelector('.shown').textContent === '1 of 2,000 tests'")
        it.key("Tab", "Escape")
        it.tab.click(".group button.fail")
        assert it.texts(".shown") == ["300 of 2,000 tests"]
    with opened(browser, page, "#test=test-1999") as it:
        assert "Answer 19:" in it.panel()
