"""``report.html``: a run folder as one page that needs no network, no script and no server.

All of its data is hostile. It is escaped by the template, made printable by ``safe_text``, never linked to, and
the page's own policy forbids scripts and loading anything.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from agentv_sandbox.budget import Budget
from agentv_sandbox.logs import safe_name, safe_text
from agentv_sandbox.models.suite import Json
from agentv_sandbox.report.files import replace_file
from agentv_sandbox.report.rows import Row, cause, seconds
from agentv_sandbox.report.runreader import Run
from agentv_sandbox.report.targets import COLUMNS, side_by_side
from agentv_sandbox.report.trialfigures import short_words, totals_words, whole_words

PAGE = "report.html"
"""Its name in the run folder."""
PAGE_CHARS = 24 << 20
"""Aim for the size of the whole page; sections get shorter as tests get more."""
SECTION_CHARS = (2 << 10, 64 << 10)
SECTIONS_PER_TEST = 6
DETAILS_CHARS = 8 << 10
MAX_FILES = 40
MAX_NESTING = 8
MAX_TRIALS = 100
PAGE_S = 60.0
"""Processor time for the page of a run. Ordinary ones take a part of a second."""
PAGE_GRACE_S = 0.5
"""What an interrupted run may still take for reading what its tests left; the page itself comes on top."""
BUFFERED = 500
"""Pieces of the template that are written at once."""
_NO_TIME = "Not read, since time ran out. The folder of the test has it whole."
MAX_IMAGE_BYTES = 1 << 20
MAX_IMAGE_PIXELS = 4096 * 4096
WORDS = {"ok": "pass", "quality_failure": "fail", "execution_error": "error"}


@dataclass(frozen=True, kw_only=True)
class FileView:
    path: str
    note: str
    """Media type, size, hash, or why it is not there."""
    text: str = ""
    image: str = ""
    """``data:`` URI."""


@dataclass(frozen=True, kw_only=True)
class CaseView:
    """One row as the template shows it."""

    anchor: str
    row: Row
    verdict: str
    seconds: float
    input: str
    answer: str
    diff: Sequence[tuple[str, str]]
    """(CSS class, line) pairs."""
    files: Sequence[FileView]
    skipped: Sequence[Row]
    prompts: Sequence[tuple[str, str, str]]
    """(grader, request, reply) each."""
    logs: Sequence[tuple[str, str]]
    graders: Sequence[Row]


def write_page(run_folder: Path) -> Path:
    """Write ``report.html`` into the run folder. Tests for which there is no time stand in it without what they
    left. Raises InputError and OSError."""
    path = run_folder / PAGE
    pieces = render(Run.open(run_folder))
    replace_file(path, (piece.encode("utf-8", "backslashreplace") for piece in pieces))
    return path


def render(run: Run) -> Iterator[str]:
    """The page as HTML text, in pieces."""
    environment = page_environment()
    limit = max(
        SECTION_CHARS[0], min(SECTION_CHARS[1], PAGE_CHARS // (SECTIONS_PER_TEST * len(run.rows) + 1))
    )
    budget, cases = Budget(PAGE_S, grace_s=PAGE_GRACE_S), []
    for number, row in enumerate(run.rows, 1):
        cases.append(_case(run, row, number, limit) if budget.left() else _bare_case(row, number))
    page = environment.get_template("page.html.j2").stream(
        name=run.path.name,
        made_of=run.text("run.json", SECTION_CHARS[1]),
        problems=run.problems,
        cases=cases,
        counts={word: sum(1 for case in cases if case.verdict == word) for word in WORDS.values()},
        mean=_mean(run.rows),
        many_suites=len({row.get("suite") for row in run.rows}) > 1,
        many_targets=len({row.get("target") for row in run.rows}) > 1,
        trials=totals_words(run.rows),
        max_trials=MAX_TRIALS,
        target_columns=COLUMNS,
        targets=side_by_side(run.rows),
    )
    page.enable_buffering(BUFFERED)
    yield from page


def page_environment() -> Environment:
    """Where templates of pages are rendered: everything is escaped, ``style`` and its hash for the policy are there."""
    environment = Environment(
        loader=PackageLoader("agentv_sandbox", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    style = resources.files("agentv_sandbox.report").joinpath("page.css").read_text("utf-8")
    environment.globals["style"] = Markup(style)  # noqa: S704 - a file of this package; its hash covers these very bytes
    environment.globals["style_hash"] = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    environment.filters["show"] = lambda value: safe_text(str(value))
    environment.filters["pretty"] = lambda value: json.dumps(value, indent=2, ensure_ascii=False)[
        :DETAILS_CHARS
    ]
    environment.filters["line"] = lambda value: safe_name(str(value))
    environment.filters["cause"] = cause
    environment.filters["verdict"] = _verdict
    environment.filters["seconds"] = seconds
    environment.filters["trials"] = whole_words
    environment.filters["short_trials"] = short_words
    return environment


def _bare_case(row: Row, number: int) -> CaseView:
    """A row without the files that it names, for which there is no time."""
    return CaseView(
        anchor=f"test-{number}",
        row=row,
        verdict=_verdict(row),
        seconds=seconds(row),
        input=_NO_TIME,
        answer="",
        diff=(),
        files=(),
        skipped=(),
        prompts=(),
        logs=(),
        graders=(),
    )


def _verdict(row: Row) -> str:
    return WORDS.get(str(row.get("execution_status")), "error")


def _mean(rows: Sequence[Row]) -> float:
    scores = [row["score"] for row in rows if row.get("execution_status") != "execution_error"]
    return sum(scores) / len(scores) if scores else 0.0


def _case(run: Run, row: Row, number: int, limit: int) -> CaseView:
    manifest = run.json(row.get("manifest_path")) or {}
    grading = run.json(row.get("grading_path")) or {}
    diff = run.text(row.get("diff_path"), limit).rstrip("\n")
    return CaseView(
        anchor=f"test-{number}",
        row=row,
        verdict=_verdict(row),
        seconds=seconds(row),
        input=run.text(row.get("input_path"), limit),
        answer=run.text(row.get("answer_path"), limit),
        diff=[(_line_class(line), line) for line in diff.split("\n") if diff],
        files=list(_files(run, manifest, limit)),
        skipped=run.json(row.get("skipped_path")) or [],
        prompts=list(_prompts(run, row, limit)),
        logs=[
            (name, text)
            for name in ("stdout", "stderr")
            if (text := run.text(row.get(f"agent_{name}_path"), limit))
        ],
        graders=row.get("scores") or grading.get("graders") or [],
    )


def _line_class(line: str) -> str:
    if line.startswith(
        ("diff ", "index ", "--- ", "+++ ", "new file", "deleted file", "similarity", "rename ")
    ):
        return "head"
    return {"+": "add", "-": "del", "@": "hunk"}.get(line[:1], "")


def _prompts(run: Run, row: Row, limit: int) -> Iterator[tuple[str, str, str]]:
    if not row.get("prompts_dir"):
        return
    for name in run.names(row["prompts_dir"]):
        prompt = run.json(name)
        if isinstance(prompt, Mapping):
            request, reply = _readable(prompt.get("request")), _readable(prompt.get("reply"))
            yield str(prompt.get("grader", name)), _cut(request, limit), _cut(reply, limit)


def _readable(value: Json, depth: int = 0) -> str:
    """A request as its texts under their keys, since prompts in JSON quoting cannot be read."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping) and depth < MAX_NESTING:
        # What was asked, once; the HTTP body that repeats it is in the prompt's file.
        keys = [key for key in ("system_prompt", "user_prompt") if value.get(key)] or list(value)
        return "\n\n".join(f"── {key}\n{_readable(value[key], depth + 1)}" for key in keys)
    if isinstance(value, list) and depth < MAX_NESTING:
        return "\n".join(_readable(item, depth + 1) for item in value)
    return "" if value is None else str(value)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}\n… cut here; prompts/ has it whole"


# -- files ------------------------------------------------------------------------------------------------
def _files(run: Run, manifest: Mapping[str, Json], limit: int) -> Iterator[FileView]:
    """Files of the answer first, then what the agent changed in its workspace."""
    named = manifest.get("files") or []
    # An answer may name a file in any way; where it lies in the workspace is what both lists share.
    shown = {file.get("workspace_path", file.get("path")) for file in named}
    kept = {entry.get("path"): entry for entry in manifest.get("workspace") or []}
    changed = [
        {**change, **kept.get(change.get("path"), {}), "kind": change.get("kind")}
        for change in manifest.get("changes") or []
        if change.get("path") not in shown
    ]
    for number, file in enumerate([*named, *changed]):
        if number == MAX_FILES:
            rest = len(named) + len(changed) - MAX_FILES
            yield FileView(path=f"… and {rest} more", note="manifest.json lists them all")
            return
        yield _file(run, file, limit)


def _file(run: Run, file: Row, limit: int) -> FileView:
    path = str(file.get("path", "?"))
    if file.get("refused"):
        return FileView(path=path, note=str(file["refused"]))
    kind = file.get("media_type") or file.get("kind") or ""
    size = file.get("size", file.get("new_size", 0))
    digest = str(file.get("sha256") or "")
    size = f"{size:,}" if isinstance(size, int) else size
    note = f"{kind}, {size} bytes" + (f", sha256 {digest[:12]}…" if digest else "")
    data = run.data(f"artifacts/sha256/{digest}", MAX_IMAGE_BYTES + 1) if digest.isalnum() else None
    if not data:
        return FileView(path=path, note=note)
    image = _image(data)
    return FileView(path=path, note=note, image=image, text="" if image else _text(data, limit))


def _text(data: bytes, limit: int) -> str:
    """Readable text, or nothing for binary content."""
    head = data[: limit + 4]
    if b"\0" in head:
        return ""
    text = head.decode("utf-8", "replace").replace("\r\n", "\n")
    if text.count("\ufffd") > (1 if len(data) > len(head) else 0):
        return ""
    return text if len(data) <= limit else f"{text[:limit]}\n… cut here"


def _image(data: bytes) -> str:
    """A PNG of sensible dimensions as a ``data:`` URI; other formats are not shown."""
    if len(data) > MAX_IMAGE_BYTES or not data.startswith(b"\x89PNG\r\n\x1a\n") or data[12:16] != b"IHDR":
        return ""
    width, height = struct.unpack_from(">II", data.ljust(24, b"\xff"), 16)
    if width * height > MAX_IMAGE_PIXELS:
        return ""
    return f"data:image/png;base64,{base64.b64encode(data).decode()}"
