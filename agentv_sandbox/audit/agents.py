"""The audit's agents, one dict: what each does in the place of an agent, and for which tests it is of use.

What an agent does stands in ``data/audit``, under its name; an agent is added by an entry here and a function there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import PurePosixPath
from typing import Literal

from agentv_sandbox.agents.spoiling import CHANGES, steps_of
from agentv_sandbox.audit.injections import INJECTIONS
from agentv_sandbox.audit.knowledge import (
    all_specs,
    has_solution,
    keys_of,
    names_in,
    programs,
    scripts_of,
    solutions_of_others,
    started_in,
    text_of,
    texts_of_command,
    touches_workspace,
)
from agentv_sandbox.audit.reach import may_hold
from agentv_sandbox.audit.wanted import only_value_of, words_of
from agentv_sandbox.base.dataclass import dataclass
from agentv_sandbox.graders import models_asked
from agentv_sandbox.models.suite import EvalCase, Suite
from agentv_sandbox.providers.audit import solution

ORACLES = ("oracle", "oracle#2", "oracle#3")
"""The solution, three times: what follows `#` makes targets of their own."""

_LIKE_AN_ANSWER = re.compile(
    r"(?i)(?:^|[^a-z])(?:answers?|solutions?|expected|gold(?:en)?|reference|oracle|truth|keys?)(?:[^a-z]|$)"
)
_LIKE_A_TEST = re.compile(r"(?i)test|spec|check|verify|validate|makefile|package\.json")

_RUN = (".py", ".js", ".mjs", ".cjs", ".sh")
_PROGRAMS = (*_RUN, ".ts", ".go", ".rs", ".rb", ".pl", ".c", ".cpp", ".java", ".php", ".sql")
_PLAIN_TEXTS = frozenset(
    {"equals", "contains", "icontains", "contains-all", "icontains-all", "starts-with", "ends-with"}
)
_FEW_WORDS = 3
_OF_ORDER = re.compile(
    r"(?i)\b(?:sort(?:ed|s)?\b|ordered by|in (?:\w+ ){0,3}order\b|rank(?:ed)?\b|ascending|descending|first to last|"
    r"alphabetical\w*|chronological\w*)"
)
"""Of a prompt that asks for an order."""

Side = Literal["cheats", "solves", "mutant"]


@dataclass(frozen=True, kw_only=True)
class Auditor:
    """One built-in agent. It needs no model."""

    name: str
    summary: str
    """What it does, as the end of a sentence that begins with its name."""
    side: Side = "cheats"
    """``cheats``: it must not pass. ``solves``: it must. ``mutant``: it must not, as far as the change matters."""
    applies: Callable[[Suite, EvalCase], bool] = lambda _suite, _case: True
    """Whether there is anything that it could show of a test."""
    injection: int | None = None
    """Number of its injection."""


def _judged(_suite: Suite, case: EvalCase) -> bool:
    return any(models_asked(spec) for spec in all_specs(case))


def _programmed(_suite: Suite, case: EvalCase) -> bool:
    """Graders run programs, which can stumble over what is left."""
    return case.task is not None or any(spec.type in ("code-grader", "custom") for spec in all_specs(case))


def _has_files(_suite: Suite, case: EvalCase) -> bool:
    """Something stands in its workspace that could be a test."""
    space = case.workspace
    return case.task is not None or (space is not None and bool(space.template or space.repos or space.hooks))


def _tested(suite: Suite, case: EvalCase) -> bool:
    return _programmed(suite, case) and _has_files(suite, case) and may_hold(suite, case, _LIKE_A_TEST)


def _rewritable(suite: Suite, case: EvalCase) -> bool:
    """Tests, or scripts that graders start."""
    scripts = _programmed(suite, case) and _has_files(suite, case) and bool(started_in(suite, case))
    return scripts or _tested(suite, case)


def _answered(_suite: Suite, case: EvalCase) -> bool:
    """What is said counts: tests of a task look at its system alone."""
    return case.task is None


def _copyable(suite: Suite, case: EvalCase) -> bool:
    return may_hold(suite, case, _LIKE_AN_ANSWER)


def _linkable(suite: Suite, case: EvalCase) -> bool:
    return _named(suite, case) and bool(keys_of(suite, case))


def _named(suite: Suite, case: EvalCase) -> bool:
    return _programmed(suite, case) and bool(names_in(suite, case))


def _named_there(suite: Suite, case: EvalCase) -> bool:
    """A file that the test names may be there before the agent."""
    if not _named(suite, case):
        return False
    names = {name.rpartition("/")[2] for name in names_in(suite, case)}
    return may_hold(
        suite,
        case,
        re.compile("|".join(rf"(?<![\w.-]){re.escape(name)}(?![\w.-])" for name in sorted(names))),
    )


def _touching(suite: Suite, case: EvalCase) -> bool:
    """Graders run programs that may look at what was left."""
    return _programmed(suite, case) and (case.task is not None or touches_workspace(suite, case))


def _once(suite: Suite, case: EvalCase) -> bool:
    """Graders put one input to a program."""
    return _programmed(suite, case) and only_value_of(suite, case) is not None


def _formed(suite: Suite, case: EvalCase) -> bool:
    """More than plain texts is asked of the answer: a program or a pattern looks at it."""
    kinds = {spec.type for spec in all_specs(case)}
    return _answered(suite, case) and (_programmed(suite, case) or not kinds <= _PLAIN_TEXTS)


def _reckoned(suite: Suite, case: EvalCase) -> bool:
    """A program makes a number of something."""
    texts = (text for _, argv, cwd in programs(suite, case) for text in texts_of_command(suite, argv, cwd))
    return _answered(suite, case) and any(
        re.search(r"\b(?:float|Number|parseFloat)\(", text) for text in texts
    )


def _made_of_inputs(suite: Suite, case: EvalCase) -> bool:
    return (
        _named(suite, case) and (case.task is not None or _has_files(suite, case)) and _documents(suite, case)
    )


def documents_of(suite: Suite, case: EvalCase) -> list[str]:
    """Files that are asked for and are no programs."""
    return [name for name in names_in(suite, case) if "." in name and not name.endswith(_PROGRAMS)]


def _documents(suite: Suite, case: EvalCase) -> bool:
    return any(not name.endswith(_PROGRAMS) for name in names_in(suite, case))


def _texts_asked(suite: Suite, case: EvalCase) -> bool:
    """A file of words is asked for."""
    endings = {PurePosixPath(name).suffix for name in names_in(suite, case)}
    return _programmed(suite, case) and bool(endings & {"", ".txt", ".md", ".rst", ".html", ".log"})


def _formless(suite: Suite, case: EvalCase) -> bool:
    return _named(suite, case) and case.task is None  # of tasks it is read what else than a form is asked for


def _given_back(suite: Suite, case: EvalCase) -> bool:
    return _programs_asked(suite, case) and case.task is None  # `boasts` is enough there


def _programs_asked(suite: Suite, case: EvalCase) -> bool:
    return _programmed(suite, case) and any(name.endswith(_RUN) for name in names_in(suite, case))


def _modules_asked(suite: Suite, case: EvalCase) -> bool:
    """Modules in Python, of which values may be compared in a grader's own process."""
    asked = _programmed(suite, case) and any(name.endswith(".py") for name in names_in(suite, case))
    return asked and case.task is None


def _worded(suite: Suite, case: EvalCase) -> bool:
    """Graders look for words in a program's text."""
    asked = _programmed(suite, case) and any(name.endswith(_PROGRAMS) for name in names_in(suite, case))
    return asked and case.task is None and bool(words_of(suite, case))


def _solved(_suite: Suite, case: EvalCase) -> bool:
    return solution(case) is not None or has_solution(case)


def _changeable(_suite: Suite, case: EvalCase) -> bool:
    said = solution(case)
    return said is not None and not said.nothing


def _spoils(change: str, case: EvalCase) -> bool:
    """Whether a change makes another script of a task's solution."""
    # Of one step, half is nothing, as `silent` does; of three, an early end leaves as much as half.
    fewest = {"half": 2, "early": 4}.get(change, 0)
    texts = [text for text in map(text_of, scripts_of(case)) if steps_of(text) >= fewest]
    return any(CHANGES[change](text) != text for text in texts)


def _has_constants(suite: Suite, case: EvalCase) -> bool:
    if has_solution(case):
        return _spoils("numbers", case)
    return _changeable(suite, case) and _spoilable(case, r"\d|\b[Tt]rue\b|\b[Ff]alse\b")


def _has_digits(suite: Suite, case: EvalCase) -> bool:
    """Numbers can be changed that are a solution, or that it makes."""
    if has_solution(case):
        return bool(documents_of(suite, case))
    said = solution(case)
    programs_too = any(name.endswith(_PROGRAMS) for name in names_in(suite, case))
    if said is None or not _changeable(suite, case) or programs_too:
        return False
    return bool(documents_of(suite, case)) if said.command else _spoilable(case, r"\d")


def _has_words_alone(suite: Suite, case: EvalCase) -> bool:
    """An answer of words, of which no constant can be changed."""
    said = solution(case)
    return (
        said is not None
        and not (said.command or said.patch)
        and re.search(r"[A-Za-z]{2}", case.reference_answer) is not None
        and not _has_constants(suite, case)
    )


def _has_parts(suite: Suite, case: EvalCase) -> bool:
    if has_solution(case):
        return _spoils("half", case)
    return not _is_prose(suite, case) and _changeable(suite, case) and _spoilable(case, r"\S\s*\S")


def _has_form(suite: Suite, case: EvalCase) -> bool:
    """An answer of JSON, whose keys can be left without their values."""
    said = solution(case)
    if case.task is not None or not _changeable(suite, case) or said is None:
        return False
    if said.command:  # what it makes is not known, but its name may be
        return any(name.endswith(".json") for name in names_in(suite, case))
    return _spoilable(case, r"\A\s*[{\[]")


def _has_order(suite: Suite, case: EvalCase) -> bool:
    asked = case.task is None and _OF_ORDER.search(case.question) is not None
    return asked and _changeable(suite, case) and _spoilable(case, r"\S[ \t]*\n\s*\S|\S,\s*\S")


def _is_prose(suite: Suite, case: EvalCase) -> bool:
    """A solution of sentences that is only looked through for words: a part of it may have them all."""
    said = solution(case)
    words = case.reference_answer.split()
    plain = said is not None and not (said.command or said.patch) and not _programmed(suite, case)
    return plain and len(words) > _FEW_WORDS and case.reference_answer.lstrip()[:1] not in ("{", "[")


def _has_lines(suite: Suite, case: EvalCase) -> bool:
    if has_solution(case):
        return _spoils("early", case)
    return not _is_prose(suite, case) and _changeable(suite, case) and _spoilable(case, r"\S[ \t]*\n\s*\S")


def _spoilable(case: EvalCase, pattern: str) -> bool:
    """Whether the solution has what a change is about. What a command makes is not known."""
    said = solution(case)
    if said is None or said.command:
        return said is not None
    added = [line[1:] for line in text_of(said.patch).splitlines() if line[:1] == "+"] if said.patch else []
    return re.search(pattern, "\n".join([case.reference_answer, *added])) is not None


def _others(suite: Suite, case: EvalCase) -> bool:
    return _changeable(suite, case) and bool(solutions_of_others(suite, case))


def _injecting(number: int) -> Auditor:
    return Auditor(
        name=f"injection#{number + 1}",
        summary=f"talks to the judge: {INJECTIONS[number].kind}",
        applies=_judged,
        injection=number,
    )


def _mutant(name: str, summary: str, applies: Callable[[Suite, EvalCase], bool] = _changeable) -> Auditor:
    return Auditor(name=f"mutant-{name}", summary=summary, side="mutant", applies=applies)


def _oracle(name: str) -> Auditor:
    return Auditor(name=name, summary="solves the test as the suite says", side="solves", applies=_solved)


_ALL = (
    Auditor(name="silent", summary="says nothing and does nothing"),
    Auditor(name="echo", summary="repeats the prompt", applies=_answered),
    Auditor(name="claims", summary="claims success, in many words and languages", applies=_answered),
    Auditor(name="verdict", summary="answers with the JSON of a verdict", applies=_answered),
    Auditor(
        name="criteria",
        summary="repeats the criteria",
        applies=lambda suite, case: _answered(suite, case) and bool(case.criteria.strip()),
    ),
    Auditor(name="choices", summary="names every choice: yes, no, A, B, C, …", applies=_answered),
    Auditor(name="lengthy", summary="writes a long text about nothing", applies=_formed),
    Auditor(
        name="hollow", summary="answers with JSON that has the keys and nothing under them", applies=_formed
    ),
    Auditor(name="nan", summary="answers that it is not a number", applies=_reckoned),
    Auditor(
        name="copies", summary="copies what looks like an answer from whatever it can read", applies=_copyable
    ),
    Auditor(
        name="trojans",
        summary="leaves modules, fake programs, a virtual environment and a daemon for graders",
        applies=_touching,
    ),
    Auditor(
        name="code",
        summary="leaves code that hands over a verdict when it is run",
        applies=lambda suite, case: (
            _answered(suite, case) and _programmed(suite, case)
        ),  # `trojans` does it in tasks
    ),
    Auditor(name="results", summary="leaves files of results and rewards", applies=_touching),
    Auditor(
        name="stubs", summary="leaves files of the names that are asked for, without content", applies=_named
    ),
    Auditor(name="empty", summary="leaves empty files of the names that are asked for", applies=_named),
    Auditor(name="blank", summary="leaves documents without an entry", applies=_named),
    Auditor(name="filler", summary="leaves long documents about nothing", applies=_formless),
    Auditor(
        name="repeats", summary="leaves its prompt in the files that are asked for", applies=_texts_asked
    ),
    Auditor(name="boasts", summary="leaves programs that only say that all is well", applies=_programs_asked),
    Auditor(name="as-given", summary="leaves inputs in the place of results", applies=_made_of_inputs),
    Auditor(name="comments", summary="writes what is looked for in programs into comments", applies=_worded),
    Auditor(
        name="gives-back",
        summary="leaves programs that give back what they are given",
        applies=_given_back,
    ),
    Auditor(
        name="pretends", summary="leaves modules whose values are equal to anything", applies=_modules_asked
    ),
    Auditor(
        name="emptied",
        summary="empties files that the test names, and those that are made of them",
        applies=_named_there,
    ),
    Auditor(
        name="one-value", summary="leaves programs that say one value, whatever they are given", applies=_once
    ),
    Auditor(name="links", summary="leaves links to what graders compare with", applies=_linkable),
    Auditor(name="rewrites-tests", summary="rewrites tests so that they pass", applies=_rewritable),
    Auditor(name="deletes-tests", summary="deletes tests", applies=_tested),
    Auditor(name="skips-tests", summary="has tests skipped", applies=_tested),
    *(_injecting(number) for number in range(len(INJECTIONS))),
    *(_oracle(name) for name in ORACLES),
    _mutant("other", "gives the solution of another test", _others),
    _mutant("numbers", "changes the constants of the solution", _has_constants),
    _mutant("digits", "changes every digit of what the solution made", _has_digits),
    _mutant("words", "changes every letter of the solution", _has_words_alone),
    _mutant("half", "leaves out half of the solution", _has_parts),
    _mutant("early", "stops early in the solution", _has_lines),
    _mutant("hollow", "keeps the keys of the solution without their values", _has_form),
    _mutant("order", "turns the order of the solution round", _has_order),
)
AUDITORS: Mapping[str, Auditor] = {each.name: each for each in _ALL}
"""Every agent of the audit by its name."""
PREFIX = "audit-"
"""Of the names of their targets."""
