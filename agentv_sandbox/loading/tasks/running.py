"""Tests that ask for something which an agent was to leave running: nothing of the agent's runs when they judge."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from agentv_sandbox.base.dataclass import dataclass
from agentv_sandbox.base.errors import Problem
from agentv_sandbox.base.logs import safe_text

_MOST_BYTES = 256 << 10
_MOST_FILES = 40
_ENDINGS = (".sh", ".py")
_ASKS = re.compile(
    r"\b(?:localhost|127\.0\.0\.1)['\"]?\s*[:,]\s*[0-9]{2,5}\b|\bpgrep\s+-?\w+|\bsystemctl\s+(?:is-active|status)\s+[\w.-]+"
    r"|\bservice\s+[\w.-]+\s+status\b|\bpsutil\.(?:process_iter|pids)\b|\bps\s+(?:aux|-ef?)\b"
)
_STARTS = re.compile(
    r"\bPopen\b|\bnohup\b|\bcreate_subprocess|[^&>|\s]\s+&\s*(?:$|[#;])|\b(?:systemctl|service)\b.*\b(?:re)?start\b|\bThread\("
    r"|\bmultiprocessing\b|\bTestClient\b|\btest_client\b|\bserve_forever\b",
    re.MULTILINE,
)
_HINT = "Tests that need a service start it themselves, as by `/entrypoint.sh &`."


@dataclass(frozen=True)
class _Asked:
    path: Path
    line: int
    what: str


def asks_for_running(tests: Sequence[Path]) -> Problem | None:
    """A warning of the first line that asks for it, where nothing of ``tests`` starts anything."""
    asked: _Asked | None = None
    for path in _files(tests):
        with path.open("rb") as stream:
            text = stream.read(_MOST_BYTES).decode("utf-8", "replace")
        if _STARTS.search(text):
            return None
        if asked is None and (match := _first(text)) is not None:
            asked = _Asked(path, text.count("\n", 0, match.start()) + 1, match[0])
    if asked is None:
        return None
    return Problem(
        message=f"`{safe_text(asked.what, limit=80)}` asks for what runs, and nothing that an agent or the image "
        "started runs when tests do",
        path=asked.path,
        line=asked.line,
        hint=_HINT,
        warning=True,
    )


def _first(text: str) -> re.Match[str] | None:
    """The first line but comments."""
    found = _ASKS.finditer(text)
    return next(
        (m for m in found if not text[text.rfind("\n", 0, m.start()) + 1 :].lstrip().startswith("#")), None
    )


def _files(tests: Sequence[Path]) -> Iterator[Path]:
    for source in tests:
        inside = [source] if source.is_file() else sorted(source.rglob("*"))[:_MOST_FILES]
        yield from (path for path in inside if path.suffix in _ENDINGS and path.is_file())
