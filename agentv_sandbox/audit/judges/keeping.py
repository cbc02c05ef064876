"""Judgements on disk, one line each as they come, so that what was asked is not asked again."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from dataclasses import asdict, replace
from pathlib import Path
from typing import Self

from agentv_sandbox.audit.judges.asking import Judge
from agentv_sandbox.audit.judges.variants import Ask
from agentv_sandbox.base.dataclass import dataclass
from agentv_sandbox.base.errors import InputError, Problem
from agentv_sandbox.base.plainfiles import read_given
from agentv_sandbox.models.case import GraderResult
from agentv_sandbox.models.json.untrusted import ForeignJsonError, amount, read_json
from agentv_sandbox.models.json.wire import Found, read

MAX_BYTES = 256 << 20
_MAX_VALUES = 200
_VERDICTS = ("pass", "fail", "skip")


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What a judge said."""

    key: str
    sample: str
    variant: str
    repeat: int
    verdict: str
    """``pass``, ``fail``, or ``skip`` where there is none that can be used."""
    score: float
    error: str = ""
    cost_usd: float | None = None

    @property
    def passed(self) -> bool | None:
        return None if self.verdict == "skip" else self.verdict == "pass"


def key_of(judge: Judge, ask: Ask) -> str:
    """The same for the same question to the same judge, and for no other."""
    sample = ask.sample
    parts = {
        "target": judge.target.name,
        "provider": judge.target.provider,
        "settings": judge.target.settings,
        "prompt": judge.prompt,
        "template": judge.prompt_file is not None,
        "temperature": judge.temperature,
        "sample": [sample.question, sample.criteria, sample.reference, *sample.rubrics],
        "text": ask.text,
        "asked": [ask.sample.name, ask.variant, ask.repeat],
    }
    text = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def judgement_of(judge: Judge, ask: Ask, result: GraderResult) -> Judgement:
    usable = result.verdict in ("pass", "fail") and result.error is None
    return Judgement(
        key=key_of(judge, ask),
        sample=ask.sample.name,
        variant=ask.variant,
        repeat=ask.repeat,
        verdict=str(result.verdict) if usable else "skip",
        score=result.score,
        error=result.error or "",
        cost_usd=result.cost_usd,
    )


class Kept:
    """A file of judgements, which is appended to. Thread-safe. Use it as a context manager."""

    def __init__(self, path: Path) -> None:
        """Raises InputError where the file cannot be read or written, or holds something else."""
        self._lock = threading.Lock()
        self.known, whole = _read(path) if path.exists() else ({}, 0)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.exists() and path.stat().st_size > whole:
                os.truncate(path, whole)  # a line that was cut when its process ended
            self._file = path.open("a", encoding="utf-8")
        except OSError as error:
            raise InputError(
                [Problem(path=path, message=f"cannot be written: {error.strerror or error}")]
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, judgement: Judgement) -> None:
        with self._lock:
            self.known[judgement.key] = judgement
            self._file.write(json.dumps(asdict(judgement)) + "\n")
            self._file.flush()


def known_in(path: Path) -> dict[str, Judgement]:
    """What a file of judgements holds; nothing where there is none. Raises InputError."""
    return _read(path)[0] if path.exists() else {}


def _read(path: Path) -> tuple[dict[str, Judgement], int]:
    """Judgements, and the bytes of their lines. A last line that was cut when a process ended is left out; what else
    is wrong is bad input."""
    data = read_given(path, MAX_BYTES)
    found: dict[str, Judgement] = {}
    lines = data.split(b"\n")
    for number, line in enumerate(lines, 1):
        each = _judgement(line) if line.strip() and number < len(lines) else None
        if each is not None:
            found[each.key] = each
        elif line.strip() and (number < len(lines) or len(lines) == 1):
            hint = "--output names the file of an earlier judge-check, or one that does not exist."
            raise InputError([Problem(path=path, line=number, message="is not a judgement", hint=hint)])
    return found, data.rfind(b"\n") + 1


def _judgement(line: bytes) -> Judgement | None:
    try:
        row = read_json(line, max_values=_MAX_VALUES)
    except ForeignJsonError:
        return None
    judgement = read(Judgement, row, found := Found()) if isinstance(row, dict) else None
    wrong = {*found.wrong, *found.missing} - {"cost_usd"} if judgement else ()
    if judgement is None or wrong or judgement.verdict not in _VERDICTS:
        return None
    if amount(judgement.score, 1.0) is None:
        return None
    return replace(judgement, cost_usd=amount(judgement.cost_usd, 1e9))
