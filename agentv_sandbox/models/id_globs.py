"""Globs for ids of tests, as AgentV has them: ``*`` within a part between slashes, ``**`` over all, ``?``, classes,
braces with lists and ranges, and the extended forms ``?(a|b)``, ``*(…)``, ``+(…)``, ``@(…)``, ``!(…)``."""

from __future__ import annotations

import functools
import re

_REPEATS = {"?": "?", "*": "*", "+": "+", "@": ""}
_MOST_NEGATIONS = 3
"""What follows each is written twice."""
_MOST_IN_RANGE = 1000
_RANGE = re.compile(r"(-?\d+|[A-Za-z])\.\.(-?\d+|[A-Za-z])")


def matches(text: str, glob: str) -> bool:
    """Whether ``text`` as a whole matches; a leading ``!`` turns it round."""
    if glob.startswith("!") and not glob.startswith("!("):
        return not matches(text, glob[1:])
    return text == glob or _compiled(glob).fullmatch(text) is not None


@functools.lru_cache(maxsize=256)
def _compiled(glob: str) -> re.Pattern[str]:
    try:
        return re.compile(_Glob(glob).regex(), re.DOTALL)
    except re.error:
        return re.compile(re.escape(glob))


class _Glob:
    def __init__(self, text: str) -> None:
        self._text = text
        self._negations = text.count("!(")

    def regex(self) -> str:
        return self._from(self._text)

    def _from(self, text: str) -> str:
        """The regular expression of ``text``, read from its beginning."""
        done = ""
        while text:
            head = text[0]
            body = _group(text[1:], "()") if text[1:2] == "(" else None
            if body is not None and head == "!" and self._negations <= _MOST_NEGATIONS:
                rest = self._from(text[len(body) + 3 :])
                return f"{done}(?:(?!{self._any(body)}{rest}\\Z)[^/]*?){rest}"
            if body is not None and head in _REPEATS:
                done += self._any(body) + _REPEATS[head]
                text = text[len(body) + 3 :]
                continue
            piece, length = self._plain(text)
            done += piece
            text = text[length:]
        return done

    def _any(self, body: str) -> str:
        return f"(?:{'|'.join(self._from(part) for part in _split(body, '|'))})"

    def _plain(self, text: str) -> tuple[str, int]:
        """The first thing of ``text``, as a regular expression, and its length."""
        if text.startswith("**"):
            return (r"(?:.*/)?", 3) if text.startswith("**/") else (".*", 2)
        match text[0]:
            case "*":
                return "[^/]*", 1
            case "?":
                return "[^/]", 1
            case "\\" if len(text) > 1:
                return re.escape(text[1]), 2
            case "[":
                return _class(text)
            case "{" if (body := _group(text, "{}")) is not None and (
                found := self._braces(body)
            ) is not None:
                return found, len(body) + 2
        return re.escape(text[0]), 1

    def _braces(self, body: str) -> str | None:
        parts = _split(body, ",")
        if len(parts) > 1:
            return f"(?:{'|'.join(self._from(part) for part in parts)})"
        span = _RANGE.fullmatch(body)
        if span is None:
            return None
        if span[1].lstrip("-").isdigit() and span[2].lstrip("-").isdigit():
            low, high = sorted((int(span[1]), int(span[2])))
            numbers = range(low, min(high, low + _MOST_IN_RANGE) + 1)
            return f"(?:{'|'.join(map(str, numbers))})"
        low, high = sorted((ord(span[1][0]), ord(span[2][0])))
        return f"[{re.escape(chr(low))}-{re.escape(chr(high))}]"


def _class(text: str) -> tuple[str, int]:
    end = text.find("]", 2)
    if end < 0:
        return re.escape("["), 1
    body = text[1:end]
    negated = body[:1] in ("!", "^")
    inner = re.sub(r"([\\\[\]^&~|])", r"\\\1", body[1:] if negated else body)
    return f"[{'^/' if negated else ''}{inner}]", end + 1


def _group(text: str, pair: str) -> str | None:
    """What stands between the first of ``pair``, which ``text`` begins with, and its counterpart."""
    depth = 0
    for at, char in enumerate(text):
        depth += (char == pair[0]) - (char == pair[1])
        if depth == 0:
            return text[1:at]
    return None


def _split(body: str, at: str) -> list[str]:
    """``body`` at each ``at`` that stands in no inner group."""
    parts, depth = [""], 0
    for char in body:
        depth += (char in "({") - (char in ")}")
        if char == at and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return parts
