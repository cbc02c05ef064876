from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from agentv_sandbox.models.suite import Suite
from tests.report.browser import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    return Suite(
        path=tmp_path / "evals/reports.eval.yaml",
        project_root=tmp_path,
        search_roots=(tmp_path,),
        name="reports",
    )


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright  # the other tests here need no browser

    with sync_playwright() as playwright:
        program = chromium(playwright)
        yield program
        program.close()
