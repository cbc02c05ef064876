"""What of a secret is to be found: its parts, and each part as it stands in texts once their escapes are undone."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from agentv_sandbox.masking.spellings import beginnings, decoded

MIN_LENGTH = 6
"""Characters of a secret. Shorter values would blank out ordinary words; nobody protects anything with them."""
MIN_PART = 8
"""Characters of a line or a value of a secret that are a secret of their own."""
MIN_BASE64_CORE = 8
MOST_PART = 128
"""Characters of a part. What is longer is cut into several, so that the time for a match is bounded."""
_ANCHOR = 8
_LEAST_ANCHOR = 4
_DEPTH = 4
"""Of JSON in strings of JSON."""
_FRAME = re.compile(r"-{2,}[ ]?(BEGIN|END)\b.*")
_NAMED = re.compile(r"(?:export )?[\w.-]{1,100}\s*[=:]\s*(.+)")
_WORD = re.compile(r"[A-Za-z]?[a-z]{0,14}|[A-Z]{1,14}")
_CONSONANTS = re.compile(r"[b-df-hj-np-tv-xz]{5}", re.IGNORECASE)
_VOWELS = re.compile(r"[aeiouy]", re.IGNORECASE)
_PLAIN = re.compile(rb"[0-9A-Za-z]+")


@dataclass(frozen=True, kw_only=True)
class Form:
    """Bytes that are a secret, and how to notice that they may stand somewhere."""

    value: bytes
    anchors: tuple[bytes, ...]
    """Parts of the value. Where it is written without escapes, one of them stands as it is."""
    escapes: tuple[bytes, ...] = ()
    """Beginnings of escapes, one of which stands where no anchor does."""
    coded: bool = False
    """Hexadecimal or base64."""
    wraps: bool = False
    """Whether its lines may end anywhere, or stand apart."""


def forms_of(secret: str) -> list[Form]:
    """All forms of ``secret``, none where it is too short to be one."""
    found: dict[bytes, Form] = {}
    for part in parts_of(secret):
        for form in _forms(part):
            found.setdefault(form.value, form)
    return list(found.values())


# -- parts ------------------------------------------------------------------------------------------------
def parts_of(secret: str) -> list[str]:
    """What is a secret of its own: the whole; of several lines each; of JSON its strings; behind ``name =`` what
    follows. Without frames of keys and lines of common words, each of at most ``MOST_PART`` characters."""
    whole = secret.strip()
    if len(whole) < MIN_LENGTH:
        return []
    parts = dict.fromkeys(_inner_parts(whole, 0))
    if len(whole.splitlines()) == 1:
        parts[whole] = None
    return [piece for part in parts for piece in _pieces(part)]


def _inner_parts(text: str, depth: int) -> Iterator[str]:
    if depth > _DEPTH:
        return
    if text[:1] in ("{", "["):
        try:
            values = list(_strings(json.loads(text)))
        except (ValueError, RecursionError):
            values = []
        if values:
            for value in map(str.strip, values):
                yield from _inner_parts(value, depth + 1)
                if len(value.splitlines()) == 1 and _is_secret(value):
                    yield value
            return
    lines = [line for line in map(str.strip, text.splitlines()) if line and not _FRAME.fullmatch(line)]
    if len(text.splitlines()) < 2:
        return
    yield from (line for line in lines if _is_secret(line))
    named = (match[1].strip("'\" ,;") for line in lines if (match := _NAMED.fullmatch(line)))
    yield from (value for value in named if _is_secret(value))
    if not all(map(_is_secret, lines)):
        # A phrase of short lines is known where it stands whole.
        yield "\n".join(lines)


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item)


def _is_secret(line: str) -> bool:
    return len(line) >= MIN_PART and not all(map(_is_word, re.findall(r"[^\W_]+", line)))


def _is_word(text: str) -> bool:
    """Whether ``text`` looks like a common word or a small number."""
    if text.isdecimal() or text.lower() == "https":
        return len(text) <= 5
    known = _WORD.fullmatch(text) is not None and _CONSONANTS.search(text) is None
    return known and (len(text) < 4 or len(_VOWELS.findall(text)) * 5 >= len(text))


def _pieces(part: str) -> Iterator[str]:
    size = math.ceil(len(part) / math.ceil(len(part) / MOST_PART))
    yield from (part[at : at + size] for at in range(0, len(part), size))


# -- forms ------------------------------------------------------------------------------------------------
def _forms(part: str) -> Iterator[Form]:
    raw = part.encode("utf-8", "surrogatepass")
    written = [raw]
    if not part.isascii():
        written.append(part.encode("latin-1", "ignore"))
    written.append(raw.replace(b" ", b"+"))
    for _ in range(2):
        # A secret that holds what looks like an escape, in a text whose other escapes are undone.
        written.append(decoded(written[0] if len(written) < 4 else written[-1]))
    for value in dict.fromkeys(written):
        lines = [line for line in value.split(b"\n") if line]
        if sum(map(len, lines)) >= MIN_LENGTH:
            yield _written_form(lines)
    for value in (raw.hex().encode(), raw.hex().upper().encode(), *_base64_cores(raw)):
        yield _coded_form(value)


def _written_form(lines: list[bytes]) -> Form:
    runs = [run for line in lines for run in _PLAIN.findall(line)]
    best = max(runs, key=_rarity, default=b"")
    value = b"".join(lines)
    if not best:
        whole = value if len(lines) == 1 else max(lines, key=len)
        return Form(value=value, anchors=(whole,), escapes=tuple(beginnings(whole)), wraps=len(lines) > 1)
    anchor = min((best[at : at + _ANCHOR] for at in range(max(len(best) - _ANCHOR, 0) + 1)), key=_likeness)
    return Form(value=value, anchors=(anchor,), escapes=tuple(beginnings(anchor)), wraps=len(lines) > 1)


def _rarity(run: bytes) -> tuple[int, bool, int]:
    """How seldom a run of letters and digits stands in other texts, the larger the more."""
    return min(len(run), _LEAST_ANCHOR), not _is_word(run.decode()), min(len(run), 2 * _ANCHOR)


def _likeness(piece: bytes) -> int:
    """How much a piece is like ordinary text: letters that follow their like."""
    return sum(a.islower() == b.islower() and a.isdigit() == b.isdigit() for a, b in pairwise(piece.decode()))


def _coded_form(value: bytes) -> Form:
    """With anchors enough that one is whole wherever lines of usual length end."""
    size = min(_ANCHOR, max(len(value) // 2, _LEAST_ANCHOR))
    anchors = [run[at : at + size] for run in _PLAIN.findall(value) for at in range(0, len(run), size)]
    anchors = [anchor for anchor in dict.fromkeys(anchors) if len(anchor) >= min(size, 6)]
    escapes: tuple[bytes, ...] = ()
    if len(anchors) < 2:
        anchors.append(value)
        halves = {value[at : at + 4] for at in range(0, len(value) - 3, 4)}
        anchors += halves
    return Form(value=value, anchors=tuple(anchors), escapes=escapes, coded=True, wraps=True)


def _base64_cores(raw: bytes) -> Iterator[bytes]:
    """What of ``raw`` looks the same in base64 whatever stands around it, for each of three alignments, in both
    alphabets."""
    for lead in range(3):
        encoded = base64.b64encode(bytes(lead) + raw)
        core = encoded[(0, 2, 3)[lead] : (lead + len(raw)) * 8 // 6]
        if len(core) >= MIN_BASE64_CORE:
            yield core
            yield core.translate(bytes.maketrans(b"+/", b"-_"))
