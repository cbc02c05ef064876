"""Criteria that the prompt gives away."""

from __future__ import annotations

import re
from collections.abc import Iterator

from agentv_sandbox.audit.checks.base import Examined
from agentv_sandbox.audit.findings import Finding
from agentv_sandbox.models.suite import EvalCase

_FEWEST, _MANY = 7, 12
"""Words. Shorter criteria only name the subject, and from many on nobody repeats them by accident."""
_OF_GRADING = re.compile(
    r"(?i)\b(graded|scored|judged|evaluated|assessed|points?|marks|rubric|criteria|criterion|mentions?|names?|explains?|"
    r"includes?|contains?|states?|lists?|says|the answer)\b"
)


def criteria_in_input(examined: Examined) -> Iterator[Finding]:
    """Criteria in the prompt word by word, unless they only say what the prompt is about."""
    case = examined.case
    criteria, prompt = _words(case.criteria), _words(_asked(case))
    if len(criteria) < _FEWEST or " ".join(criteria) not in " ".join(prompt):
        return
    if len(criteria) >= _MANY or _OF_GRADING.search(case.criteria):
        yield examined.finding("criteria-in-input", "the prompt holds the criteria word by word")


def _asked(case: EvalCase) -> str:
    return case.question or case.prompt


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text[:20_000].lower())


CHECKS = (criteria_in_input,)
