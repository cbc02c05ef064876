"""``contains-any``, ``contains-all`` and their forms that ignore case: the answer beside a list of texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentv_sandbox.authoring.fields import Texts
from agentv_sandbox.graders.text import IGNORING_CASE, Check, contains, contains_ignoring_case
from agentv_sandbox.judging.base import GradeContext, options_of, yes_no
from agentv_sandbox.judging.kind import GraderKind, Options, sentence
from agentv_sandbox.models.case import GraderResult
from agentv_sandbox.models.suite import GraderSpec


class TextListOptions(Options):
    value: Texts
    """The texts that are looked for."""


def _any(spec: GraderSpec, answer: str, values: Sequence[str], check: Check, note: str) -> GraderResult:
    hit = next((value for value in values if check(answer, value)), None)
    if hit is not None:
        return yes_no(spec, True, f"Output contains {_quoted([hit])}{note}")
    return yes_no(spec, False, f"Output does not contain any of: {_quoted(values)}{note}")


def _all(spec: GraderSpec, answer: str, values: Sequence[str], check: Check, note: str) -> GraderResult:
    missing = [value for value in values if not check(answer, value)]
    if not missing:
        return yes_no(spec, True, f"Output contains all {len(values)} expected strings{note}")
    return yes_no(spec, False, f"Output missing{note}: {_quoted(missing)}")


def _quoted(values: Iterable[str], mark: str = '"') -> str:
    return ", ".join(f"{mark}{value}{mark}" for value in values)


def _kind(quantity: str, *, ignoring_case: bool) -> GraderKind[TextListOptions]:
    """``quantity``: any or all."""
    kind = f"{'i' if ignoring_case else ''}contains-{quantity}"
    check, note = (contains_ignoring_case, IGNORING_CASE) if ignoring_case else (contains, "")
    judge = _any if quantity == "any" else _all

    def grade(spec: GraderSpec, context: GradeContext) -> GraderResult:
        return judge(spec, context.output.answer, options_of(spec, TextListOptions).value, check, note)

    extent = "at least one" if quantity == "any" else "every one"
    return GraderKind(
        type=kind,
        summary=f"The answer contains {extent} of the texts in `value`{', ignoring case' if note else ''}.",
        options=TextListOptions,
        grade=grade,
        translate=sentence(
            lambda options: f"Output contains{note} {quantity} of: {_quoted(options.value, chr(39))}"
        ),
        keys={"values": "value"},
        default_name=lambda options: f"{kind}-{len(options.value)}",
    )


KINDS = (
    _kind("any", ignoring_case=False),
    _kind("all", ignoring_case=False),
    _kind("any", ignoring_case=True),
    _kind("all", ignoring_case=True),
)
