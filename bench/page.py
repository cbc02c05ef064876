"""Time to write ``report.html`` and to use it: pages of 20, 2,000 and 5,000 tests in Debian's Chromium."""

from __future__ import annotations

import json
import resource
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from agentv_sandbox.report.page import write_report
from agentv_sandbox.rows.reader import Run
from tests.report.browser import chromium

ANSWER = "The revenue of the region grew by a tenth, as the second sheet of the workbook shows. " * 30


def run_folder(home: Path, tests: int) -> Path:
    """Each test with a folder of its own; every fifth failed."""
    with (home / "index.jsonl").open("w") as index:
        for number in range(tests):
            folder = home / f"t{number}"
            folder.mkdir()
            (folder / "answer.md").write_text(f"Answer {number}: {ANSWER}")
            (folder / "input.md").write_text("@[user]:\nSum up the quarter of the region. " * 20)
            said = {
                "role": "assistant",
                "content": ANSWER,
                "tool_calls": [{"tool": "Read", "input": {"path": "x"}}],
            }
            (folder / "transcript.jsonl").write_text(json.dumps(said) + "\n")
            passed = number % 5 > 0
            check = {"text": "names the best month", "passed": passed, "evidence": "July is not mentioned"}
            grader = {
                "name": "judge",
                "type": "llm-grader",
                "score": 1.0 if passed else 0.4,
                "assertions": [check],
            }
            row = {
                "test_id": f"test-{number:04}",
                "suite": "quarterly",
                "target": "agent",
                "score": grader["score"],
                "execution_status": "ok" if passed else "quality_failure",
                "threshold": 0.8,
                "duration_ms": 900,
                "total_duration_ms": 4000,
                "cost_usd": 0.002,
                "scores": [{**grader, "verdict": "pass" if passed else "fail"}],
                "answer_path": f"t{number}/answer.md",
                "input_path": f"t{number}/input.md",
                "transcript_path": f"t{number}/transcript.jsonl",
                "artifact_dir": f"t{number}",
            }
            index.write(json.dumps(row) + "\n")
    return home


def cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        browser = chromium(playwright)
        for tests in (20, 2000, 5000):
            home = Path(name) / str(tests)
            home.mkdir()
            run = Run.open(run_folder(home, tests))
            started, cpu = time.monotonic(), cpu_s()
            write_report(home / "report.html", [run])
            written, cpu = time.monotonic() - started, cpu_s() - cpu
            size = (home / "report.html").stat().st_size
            print(
                f"{tests:,} tests: written in {written:.2f} s ({cpu:.2f} s of a processor), {size / 1e6:.2f} MB"
            )
            best = min(interactive_ms(browser, home / "report.html") for _ in range(3))
            print(f"  a key moves the focus in the list after {best:.0f} ms, best of 3")
        browser.close()


def interactive_ms(browser: object, path: Path) -> float:
    """From opening the file until the list has answered a key."""
    tab = browser.new_page()  # type: ignore[attr-defined]
    started = time.monotonic()
    tab.goto(path.as_uri(), wait_until="commit")
    tab.wait_for_selector(".rows .row:visible")
    tab.keyboard.press("j")
    tab.wait_for_selector(".rows .row:focus")
    elapsed = (time.monotonic() - started) * 1000
    tab.close()
    return float(elapsed)


if __name__ == "__main__":
    main()
