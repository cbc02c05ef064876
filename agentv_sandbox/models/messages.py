"""What the messages of a test's input hold: their text, and whether roles have to be told apart."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from agentv_sandbox.models.suite import Json, Message

_SPACE = (
    "\t\n\v\f\r \xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
_VISIBLE = {"text": "value", "file": "text"}


def trim(text: str) -> str:
    """``String.prototype.trim``: a byte order mark is space, control characters are not."""
    return text.strip(_SPACE)


def texts(content: Json) -> list[str]:
    """The texts of a message's content, without its files and images."""
    if isinstance(content, str):
        return [content]
    if isinstance(content, dict):
        return [json.dumps(content, indent=2, ensure_ascii=False)]
    blocks = content if isinstance(content, list) else []
    return [
        b["value"]
        for b in blocks
        if isinstance(b, dict) and b.get("type") not in ("file", "image") and isinstance(b.get("value"), str)
    ]


def visible(content: Json) -> bool:
    """Whether there is anything but space in the content."""
    if not isinstance(content, list):
        return any(text.strip() for text in texts(content))
    return any(
        isinstance(b, dict)
        and (attached(b) or str(b.get(_VISIBLE.get(str(b.get("type")), "")) or "").strip())
        for b in content
    )


def attached(block: Mapping[str, Json]) -> bool:
    """Whether a block is an image of the suite, or a file that is not text."""
    kinds = {"file": "media_type", "image": "resolvedPath"}
    return bool(block.get(kinds.get(str(block.get("type")), "")))


def needs_roles(messages: Sequence[Message]) -> bool:
    """Whether it matters who says what: there is an assistant or tool message, or more than one message with
    something to see in it."""
    return (
        any(message.get("role") in ("assistant", "tool") for message in messages)
        or sum(visible(message.get("content")) for message in messages) > 1
    )
