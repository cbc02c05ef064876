"""Pages opened in Debian's Chromium, and whatever a page does that it must not do."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Playwright

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""What is taken of these, the first that there is. Without windows, it opens a page at a quarter of the cost."""
_WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) =>
  window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`));
"""


def chromium(playwright: Playwright) -> Browser:
    """Fails where there is none: ``make setup-dev`` installs it."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    assert program, "no Chromium: tools/setup-programs.sh installs it"
    return playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])


@dataclass
class Opened:
    """A page in its browser tab."""

    tab: Page
    misdeeds: list[str] = field(default_factory=list)
    """Errors, messages in the console, dialogs, requests and windows."""

    def texts(self, selector: str) -> list[str]:
        return self.tab.locator(selector).all_inner_texts()

    def rows(self) -> list[str]:
        """Names of the tests in sight, in their order on the screen."""
        script = """() => [...document.querySelectorAll('[role=grid] .rows .row')]
            .sort((a, b) => a.getAttribute('aria-rowindex') - b.getAttribute('aria-rowindex'))
            .map((row) => row.querySelector('.name').textContent)"""
        return list(self.tab.evaluate(script))

    def shown(self) -> str:
        """Title of the opened test; empty where none is."""
        return "".join(self.texts("#panel:not([hidden]) #panel-title .name"))

    def panel(self) -> str:
        """Text of the opened test, with all that is folded."""
        self.tab.wait_for_selector("#panel .part")
        for _ in range(3):  # what is folded may hold more of it
            self.tab.evaluate(
                "document.querySelectorAll('#panel details').forEach((d) => { d.open = true; })"
            )
            self.tab.wait_for_timeout(60)
        return self.tab.inner_text("#panel")

    def until(self, condition: str, seconds: float = 20.0) -> None:
        """Wait for a JavaScript expression to be true. (The tab's own way of waiting needs ``eval`` in the page.)"""
        limit = time.monotonic() + seconds
        while not self.tab.evaluate(condition):
            assert time.monotonic() < limit, condition
            self.tab.wait_for_timeout(50)

    def key(self, *names: str) -> None:
        for name in names:
            self.tab.keyboard.press(name)

    def violations(self) -> list[str]:
        """Of the page's own policy, and all else that it must not do."""
        return [*self.tab.evaluate("window.violations"), *self.misdeeds]


@contextmanager
def opened(browser: Browser, path: Path, fragment: str = "", **context: Any) -> Iterator[Opened]:
    """A page of ``path``, opened as a file. Ends with an error when it did what no page may do."""
    home = browser.new_context(viewport={"width": 1280, "height": 800}, **context)
    try:
        home.add_init_script(_WATCH)
        tab = home.new_page()
        page = Opened(tab)
        note = page.misdeeds.append
        tab.on("console", lambda message: note(f"console: {message.text}"))
        tab.on("pageerror", lambda error: note(f"error: {error}"))
        tab.on("dialog", lambda dialog: (note(f"dialog: {dialog.message}"), dialog.dismiss()))
        tab.on("popup", lambda popup: note(f"window: {popup.url}"))
        tab.on("request", lambda request: note(f"request: {request.url}") if _foreign(request.url) else None)
        tab.goto(f"{path.as_uri()}{fragment}")
        tab.wait_for_selector(".rows .row:visible, #empty:not([hidden]), #top .reason", timeout=20_000)
        page.misdeeds = [each for each in page.misdeeds if each != f"request: {path.as_uri()}"]
        yield page
        assert page.violations() == []
    finally:
        home.close()


def _foreign(url: str) -> bool:
    return not url.startswith(("blob:", "file:"))
