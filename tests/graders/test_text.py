"""Deterministic text types."""

from __future__ import annotations

import pytest

from agentv_sandbox.graders import regexp
from agentv_sandbox.judging.base import GraderError
from tests.graders.fakes import FakeTools, grade_one, spec_of

ANSWER = "  Hello World, hello again\n"
VALUES = ["Hello", "bye"]

CASES = [
    ("contains", {"value": "World"}, 1, 'Output contains "World"'),
    ("contains", {"value": "world"}, 0, 'Output does not contain "world"'),
    ("icontains", {"value": "wORLD"}, 1, 'Output contains "wORLD" (case-insensitive)'),
    ("icontains", {"value": "moon"}, 0, 'Output does not contain "moon" (case-insensitive)'),
    ("contains-any", {"value": VALUES}, 1, 'Output contains "Hello"'),
    ("contains-any", {"value": ["x", "y"]}, 0, 'Output does not contain any of: "x", "y"'),
    ("icontains-any", {"value": ["HELLO"]}, 1, 'Output contains "HELLO" (case-insensitive)'),
    ("icontains-any", {"value": ["x"]}, 0, 'Output does not contain any of: "x" (case-insensitive)'),
    ("contains-all", {"value": ["Hello", "again"]}, 1, "Output contains all 2 expected strings"),
    ("contains-all", {"value": VALUES}, 0, 'Output missing: "bye"'),
    ("icontains-all", {"value": ["HELLO"]}, 1, "Output contains all 1 expected strings (case-insensitive)"),
    ("icontains-all", {"value": VALUES}, 0, 'Output missing (case-insensitive): "bye"'),
    ("starts-with", {"value": " Hello "}, 1, 'Output starts with " Hello "'),
    ("starts-with", {"value": "hello"}, 0, 'Output does not start with "hello"'),
    ("ends-with", {"value": "again "}, 1, 'Output ends with "again "'),
    ("ends-with", {"value": "x"}, 0, 'Output does not end with "x"'),
    ("equals", {"value": "Hello World, hello again"}, 1, 'Output equals "Hello World, hello again"'),
    ("equals", {"value": "Hello"}, 0, 'Output does not equal "Hello"'),
    ("regex", {"value": "h.llo again$"}, 0, "Output does not match pattern /h.llo again$/"),
    ("regex", {"value": "again$", "flags": "m"}, 1, "Output matches pattern /again$/m (flags: m)"),
    ("is-json", {}, 0, "Output is not valid JSON"),
]


@pytest.mark.parametrize(("kind", "options", "score", "text"), CASES)
def test_rules(kind: str, options: dict[str, object], score: int, text: str) -> None:
    graded = grade_one(spec_of(kind, options), FakeTools(), answer=ANSWER)
    assert (graded.score, graded.verdict) == (score, "pass" if score else "fail")
    assert [(a.text, a.passed) for a in graded.assertions] == [(text, bool(score))]


@pytest.mark.parametrize(
    ("answer", "valid"),
    [
        ('{"a": 1}', True),
        (" [1] \n", True),
        ("3", True),
        ('"x"', True),
        ("null", True),
        ("", False),
        ("```json\n{}\n```", False),
        ("{'a': 1}", False),
        ("NaN", False),
        ("[Infinity]", False),
        ("{} {}", False),
        ("[" * 100_000, False),
        ("\u00a0{}", False),
    ],
)
def test_is_json(answer: str, valid: bool) -> None:
    assert grade_one(spec_of("is-json"), FakeTools(), answer=answer).score == valid


JS_REGEX = [
    # pattern, flags, text, matches: where JavaScript and Python differ, JavaScript is right
    (r"\d", "", "٣", False),
    (r"^\w$", "", "é", False),
    (r"a$", "", "a\n", False),
    (r"(?<year>\d{4})", "", "in 2024", True),
    (r"(?<=\$)\d+", "", "$5", True),
    (r"(?<!a+)b", "", "aab", False),
    (r"\u{1F600}", "u", "😀", True),
    (r"\cJ", "", "\n", True),
    (r"[^]", "", "\n", True),
    (r"\/x\/", "", "/x/", True),
    (r"a.c", "", "a\nc", False),
    (r"a.c", "s", "a\nc", True),
    (r"HELLO", "i", "hello", True),
    (r"b", "y", "ab", False),
    (r"b|ab", "y", "ab", True),
    (r"\p{Lu}", "u", "É", True),
    (r"\bfoo\b", "g", "a foo b", True),
    (r"x", "", "a\ud800x", True),
    (r"\z", "", "z", True),
]


@pytest.mark.parametrize(("pattern", "flags", "text", "matches"), JS_REGEX)
def test_regex_means_what_javascript_says(pattern: str, flags: str, text: str, matches: bool) -> None:
    assert regexp.search(pattern, flags, text) is matches


@pytest.mark.parametrize(
    ("pattern", "flags", "why"),
    [
        ("(", "", "Invalid regular expression: /(/"),
        ("a", "x", "Invalid flags"),
        ("a", "gg", "Invalid flags"),
        ("a", "uv", "Invalid flags"),
    ],
)
def test_invalid_regex_is_a_failed_grader(pattern: str, flags: str, why: str) -> None:
    spec = spec_of("regex", {"value": pattern, "flags": flags}, negate=True)
    graded = grade_one(spec, FakeTools(), answer="a")
    assert (graded.score, graded.verdict) == (0, "fail")
    assert why in (graded.error or "")


def test_a_pattern_that_never_ends_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regexp, "TIMEOUT_S", 0.5)
    graded = grade_one(spec_of("regex", {"value": "(a+)+$"}), FakeTools(), answer="a" * 40 + "b")
    assert "took longer" in (graded.error or "")


def test_searches_share_a_child_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    child = regexp._Child

    def counted() -> regexp._Child:
        started.append(child())
        return started[-1]

    monkeypatch.setattr(regexp, "_idle", regexp._IdleChildren())
    monkeypatch.setattr(regexp, "_Child", counted)
    assert [regexp.search("b+", "", text) for text in ("abb", "a\nb", "a", "x" * (1 << 20))] == [
        True,
        True,
        False,
        False,
    ]
    assert len(started) == 1
    started[0]._process.kill()
    started[0]._process.wait()
    assert regexp.search("b", "", "b")
    monkeypatch.setattr(regexp, "TIMEOUT_S", 0.5)
    with pytest.raises(GraderError, match="took longer"):
        regexp.search("(a+)+$", "", "a" * 40 + "b")
    monkeypatch.setattr(regexp, "TIMEOUT_S", 30.0)
    assert regexp.search("b", "", "b")
    assert len(started) == 3
    assert [one.alive() for one in started] == [False, False, True]
    regexp._idle.end()
    assert not started[-1].alive()


def test_dotted_capitals_do_not_crash_case_folding() -> None:
    assert grade_one(spec_of("icontains", {"value": "İ"}), FakeTools(), answer="i̇").score == 1
