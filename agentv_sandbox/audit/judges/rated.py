"""Answers of a run that a person rated on its page, as the run's judges saw them."""

from __future__ import annotations

import re
from dataclasses import replace

from agentv_sandbox.audit.judges.samples import Sample
from agentv_sandbox.base.dataclass import dataclass
from agentv_sandbox.base.errors import InputError, Problem
from agentv_sandbox.base.logs import safe_name
from agentv_sandbox.models.json.records import JsonRecord, under_key
from agentv_sandbox.rows.layout import RATINGS
from agentv_sandbox.rows.reader import Run
from agentv_sandbox.rows.record import Row
from agentv_sandbox.runfolder.ratings import key_of, read_ratings

_GRADED = ("ok", "quality_failure")
_NONCE = re.compile(r"[0-9a-f]{16}")
_HEADINGS = ("question", "reference_answer")
"""After the criteria."""


@dataclass(frozen=True, kw_only=True)
class Rated:
    """What a run's ratings give."""

    samples: tuple[Sample, ...]
    targets: tuple[str, ...]
    """Judges of the run that were asked of these, by name."""
    notes: tuple[str, ...]
    """What was left out, and why."""


def rated_samples(run: Run, grader: str | None) -> Rated:
    """Of each rated result the answer as the judge ``grader`` saw it; None: the only one that there is.

    Raises InputError where nothing is rated, or nothing of it was judged with the built-in prompt."""
    read = read_ratings(run)
    if not read.ratings:
        problems = [Problem(message=each) for each in read.problems]
        hint = f"Rate results on the run's page and save {RATINGS} into this folder."
        raise InputError(
            problems or [Problem(path=run.path / RATINGS, message="there are no ratings", hint=hint)]
        )
    found: list[Sample] = []
    targets: dict[str, None] = {}
    notes = list(read.problems)
    for row in run.rows:
        rating = read.ratings.get(key_of(row))
        if rating is None or row.status not in _GRADED:
            continue
        name = f"{row.suite}/{row.test_id}/{row.target}" + (f"/{row.trial}" if row.trial else "")
        said = _judged(run, row, grader)
        if isinstance(said, str):
            notes.append(f"{safe_name(name)}: {said}; left out")
            continue
        target, seen = said
        targets[target] = None
        found.append(replace(seen, name=name, label=rating.verdict == "pass"))
    if not found:
        message = f"no rated result can be put to a judge: {notes[-1] if notes else 'none was graded'}"
        raise InputError([Problem(path=run.path, message=message)])
    return Rated(samples=tuple(found), targets=tuple(targets), notes=tuple(notes))


def _judged(run: Run, row: Row, grader: str | None) -> tuple[str, Sample] | str:
    """The judge's target and what it saw; or why there is nothing."""
    prompts = _prompts(run, row)
    if grader is not None:
        prompts = [each for each in prompts if each.grader == grader]
    if not prompts:
        return "no model judged it" if grader is None else f"no judge {safe_name(grader)} was asked"
    if len(prompts) > 1:
        names = ", ".join(safe_name(each.grader) for each in prompts[:5])
        return f"several judges were asked ({names}): --grader chooses one"
    if (seen := _seen(prompts[0].user_prompt)) is None:
        return "it was not judged with the built-in prompt without rubrics"
    sample, rest = seen
    if "[[ ## " in rest:
        return "its judge saw file changes or tool calls, too"
    return prompts[0].target, sample


def _seen(prompt: str) -> tuple[Sample, str] | None:
    """The parts of the built-in prompt without rubrics, and what follows them; None of any other. The answer stands
    between marks that are made from a hash of it, so that it cannot hold them itself."""
    said: list[str] = []
    _, begun, rest = prompt.partition("[[ ## criteria ## ]]\n")
    for after in (*_HEADINGS, "answer"):
        text, there, rest = rest.partition(f"\n\n[[ ## {after} ## ]]\n")
        said.append(text)
        begun = begun and there
    mark, opened, rest = rest.removeprefix("<<<BEGIN UNTRUSTED ").partition(">>>\n")
    answer, closed, rest = rest.partition(f"\n<<<END UNTRUSTED {mark}>>>")
    if not (begun and opened and closed and _NONCE.fullmatch(mark)):
        return None
    criteria, question, reference = said
    sample = Sample(
        name="", label=False, question=question, criteria=criteria, reference=reference, answer=answer
    )
    return sample, rest


class _Prompt(JsonRecord):
    grader: str
    target: str
    user_prompt: str = under_key("request/user_prompt")


def _prompts(run: Run, row: Row) -> list[_Prompt]:
    return _Prompt.all_of(
        [run.json(name) for name in (run.names(row.prompts_dir) if row.prompts_dir else ())]
    )
