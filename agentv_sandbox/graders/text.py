"""The deterministic text types: substrings, equality, regular expressions, JSON."""

from __future__ import annotations

import json
from collections.abc import Callable

from agentv_sandbox.graders.base import GradeContext, options_of, yes_no
from agentv_sandbox.graders.javascript import trim
from agentv_sandbox.graders.regexp import search
from agentv_sandbox.models.case import GraderResult
from agentv_sandbox.models.graders import IsJsonOptions, RegexOptions, TextListOptions, TextOptions
from agentv_sandbox.models.suite import GraderSpec

Check = Callable[[str, str], bool]
Words = tuple[str, str]
"""What is said when a check holds, and when it does not."""

IGNORING_CASE = " (case-insensitive)"


def _contains(answer: str, value: str) -> bool:
    return value in answer


def _icontains(answer: str, value: str) -> bool:
    return value.lower() in answer.lower()


def _starts(answer: str, value: str) -> bool:
    return trim(answer).startswith(trim(value))


def _ends(answer: str, value: str) -> bool:
    return trim(answer).endswith(trim(value))


def _equals(answer: str, value: str) -> bool:
    return trim(answer) == trim(value)


def contains(spec: GraderSpec, context: GradeContext) -> GraderResult:
    return _one(spec, context, _contains, ("contains", "does not contain"))


def icontains(spec: GraderSpec, context: GradeContext) -> GraderResult:
    return _one(spec, context, _icontains, ("contains", "does not contain"), note=IGNORING_CASE)


def starts_with(spec: GraderSpec, context: GradeContext) -> GraderResult:
    return _one(spec, context, _starts, ("starts with", "does not start with"))


def ends_with(spec: GraderSpec, context: GradeContext) -> GraderResult:
    return _one(spec, context, _ends, ("ends with", "does not end with"))


def equals(spec: GraderSpec, context: GradeContext) -> GraderResult:
    return _one(spec, context, _equals, ("equals", "does not equal"))


def contains_any(spec: GraderSpec, context: GradeContext) -> GraderResult:
    return _any(spec, context, _contains, "")


def icontains_any(spec: GraderSpec, context: GradeContext) -> GraderResult:
    return _any(spec, context, _icontains, IGNORING_CASE)


def contains_all(spec: GraderSpec, context: GradeContext) -> GraderResult:
    return _all(spec, context, _contains, "")


def icontains_all(spec: GraderSpec, context: GradeContext) -> GraderResult:
    return _all(spec, context, _icontains, IGNORING_CASE)


def regex(spec: GraderSpec, context: GradeContext) -> GraderResult:
    options = options_of(spec, RegexOptions)
    found = search(options.value, options.flags, context.output.answer)
    says = "matches" if found else "does not match"
    label = f" (flags: {options.flags})" if options.flags else ""
    return yes_no(spec, found, f"Output {says} pattern /{options.value}/{options.flags}{label}")


def is_json(spec: GraderSpec, context: GradeContext) -> GraderResult:
    options_of(spec, IsJsonOptions)
    try:
        json.loads(trim_json(context.output.answer), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return yes_no(spec, False, "Output is not valid JSON")
    return yes_no(spec, True, "Output is valid JSON")


def trim_json(text: str) -> str:
    """JSON's own white space; ``JSON.parse`` takes no other."""
    return text.strip(" \t\r\n")


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def _quoted(value: str) -> str:
    return f'"{value}"'


def _one(
    spec: GraderSpec, context: GradeContext, check: Check, words: Words, *, note: str = ""
) -> GraderResult:
    value = options_of(spec, TextOptions).value
    passed = check(context.output.answer, value)
    return yes_no(spec, passed, f'Output {words[0] if passed else words[1]} "{value}"{note}')


def _any(spec: GraderSpec, context: GradeContext, check: Check, note: str) -> GraderResult:
    values = options_of(spec, TextListOptions).value
    hit = next((value for value in values if check(context.output.answer, value)), None)
    if hit is not None:
        return yes_no(spec, True, f"Output contains {_quoted(hit)}{note}")
    return yes_no(spec, False, f"Output does not contain any of: {', '.join(map(_quoted, values))}{note}")


def _all(spec: GraderSpec, context: GradeContext, check: Check, note: str) -> GraderResult:
    values = options_of(spec, TextListOptions).value
    missing = [value for value in values if not check(context.output.answer, value)]
    if not missing:
        return yes_no(spec, True, f"Output contains all {len(values)} expected strings{note}")
    return yes_no(spec, False, f"Output missing{note}: {', '.join(map(_quoted, missing))}")
