"""One test's folder: what stands in which file."""

from __future__ import annotations

import json
from pathlib import Path

from agentv_sandbox.models.case import Assertion, FileEntry
from agentv_sandbox.models.suite import Suite
from agentv_sandbox.report.views.junit import junit
from agentv_sandbox.rows.rowfile import read_rows
from agentv_sandbox.runfolder.folder import RunFolder
from tests.answers import said
from tests.report.made_results import make_case, make_grader, make_output, make_result, write_case


def test_the_answer_is_the_last_message_and_the_response_all(tmp_path: Path, suite: Suite) -> None:
    messages = said(
        {"role": "assistant", "content": "first\r\nline"},
        {"role": "tool", "content": "TOOL"},
        {"role": "user", "content": "USER"},
        {"role": "assistant", "content": ""},
        {"role": "assistant", "content": "last\r\nline"},
    )
    with RunFolder.create(tmp_path / "out", tmp_path) as folder:
        result = make_result(output=make_output(messages=messages))
        place = write_case(folder, result, make_case(), suite)
    assert (place / "outputs/answer.md").read_bytes() == b"last\nline"
    assert (place / "outputs/response.md").read_bytes() == b"first\nline\n\nlast\nline"


def test_a_request_or_reply_without_its_pair_is_kept(tmp_path: Path, suite: Suite) -> None:
    graders = (
        make_grader("asked", input={"user_prompt": "p"}),
        make_grader("told", raw_reply="r"),
        make_grader("neither"),
    )
    with RunFolder.create(tmp_path / "out", tmp_path) as folder:
        place = write_case(folder, make_result(scores=graders), make_case(), suite)
    prompts = {path.stem: json.loads(path.read_text()) for path in (place / "prompts").iterdir()}
    assert set(prompts) == {"asked", "told"}
    assert prompts["asked"]["request"] == {"user_prompt": "p"}
    assert prompts["told"]["reply"] == "r"


def test_the_manifest_names_links_and_modes(tmp_path: Path, suite: Suite) -> None:
    entries = {
        b"l\n": FileEntry(path=b"l\n", kind="symlink", mode=0o777, link=b"/etc/\xffx"),
        b"run": FileEntry(path=b"run", kind="file", mode=0o755, sha256="ef" * 32, size=0),
    }
    with RunFolder.create(tmp_path / "out", tmp_path) as folder:
        place = write_case(folder, make_result(output=make_output(manifest=entries)), make_case(), suite)
    manifest = json.loads((place / "manifest.json").read_text())
    link, run = manifest["workspace"]
    assert (link["kind"], link["mode"], "size" in link) == ("symlink", "0777", False)
    assert link["link"].startswith("/etc/") and link["link"].endswith("x")
    assert link["path"].isprintable() and link["link"].isprintable()
    assert run == {"path": "run", "kind": "file", "mode": "0755", "sha256": "ef" * 32, "size": 0}


def test_junit_tells_what_failed_and_not_what_passed(tmp_path: Path, suite: Suite) -> None:
    rows = (Assertion(text="GOOD", passed=True), Assertion(text="BAD", passed=False))
    with RunFolder.create(tmp_path / "out", tmp_path) as folder:
        write_case(
            folder,
            make_result(score=0.5, scores=(make_grader(score=0.5, assertions=rows),)),
            make_case(),
            suite,
        )
    text = junit(read_rows(folder.path).rows).decode()
    assert "totals: BAD" in text
    assert "GOOD" not in text
