"""Whether a form may stand around its anchor: a look at what is next to it, much cheaper than undoing escapes."""

from __future__ import annotations

from agentv_sandbox.masking.forms import Form
from agentv_sandbox.masking.spellings import MARKS, escape_at

_BREAKS = frozenset(b"\r\n\"', \t\x1b")
"""Where a form is broken into lines, one of these is next."""
_ESCAPE_ENDS = frozenset(b"0123456789abcdefABCDEF;}nrt\\")
_LINE_BEGINS = frozenset(b"\r\n \t+->#|*\"'m")


def may_stand(data: bytes, at: int, size: int, form: Form, offset: int) -> bool:
    """``at``, ``size``: of the anchor in ``data``; ``offset``: in the form. False only where the form cannot be there,
    in whatever spelling."""
    return _goes_on(data, at + size, form, offset + size) and _began(
        data[max(at - offset, 0) : at], form, offset
    )


def _goes_on(data: bytes, at: int, form: Form, done: int) -> bool:
    """Whether ``form.value[done:]`` may be what ``data`` goes on with."""
    value = form.value
    while done < len(value):
        same = _common(data[at : at + len(value) - done], value[done:])
        if _has_mark(value[done : done + same]):
            return True  # may be read in two ways
        at, done = at + same, done + same
        if done == len(value):
            return True
        if at >= len(data):
            return False
        if data[at] not in MARKS:
            return form.wraps and data[at] in _BREAKS
        meaning, after = escape_at(data, at)
        if meaning in (b"%", b"\\", b"&"):
            return True  # of an escape within an escape
        if not meaning or not value.startswith(meaning, done):
            return form.wraps and meaning in (b"\n", b"\r", b'"')
        at, done = after, done + len(meaning)
    return True


def _began(left: bytes, form: Form, offset: int) -> bool:
    """Whether ``form.value[:offset]`` may end where ``left`` does."""
    same = _common(left[::-1], form.value[:offset][::-1])
    if same == len(left):
        return True
    before = left[-same - 1]
    ends = before in _ESCAPE_ENDS or (form.wraps and before in _LINE_BEGINS)
    return ends or b";" in left[-same - 1 :] or _has_mark(form.value[offset - same : offset])


def _has_mark(piece: bytes) -> bool:
    return not MARKS.isdisjoint(piece)


def _common(one: bytes, other: bytes) -> int:
    """How many bytes at their beginning are the same."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
