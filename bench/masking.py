"""Nanoseconds a byte that masking takes in logs without secrets, beside a search for a few plain spellings.

    python bench/masking.py [MEGABYTES]

Makes MEGABYTES (100) of logs: lines of JSON, JSON in JSON, addresses, Python, HTML, base64 and plain words. Masks them
with several sets of secrets: one key of a provider, four of usual kinds, and a private key of 26 lines. The other thing
that is timed is what masking was before it knew lines and escapes: one regular expression of each secret's plain
spellings. Prints both, and their ratio for texts and for bytes. Exits with 1 when anything was masked, or when masking
takes more than twice as long.
"""

from __future__ import annotations

import base64
import html
import json
import random
import re
import sys
import time
from collections.abc import Callable
from urllib.parse import quote, quote_plus

from agentv_sandbox.masking import Masker

MOST_RATIO = 2.0
_PART = 1 << 20
_WORDS = [
    "error",
    "warning",
    "info",
    "request",
    "GET",
    "POST",
    "the",
    "quick",
    "brown",
    "value",
    "key",
    "server",
    "line",
    "test",
    "module",
    "import",
    "return",
    "self",
    "path",
    "file",
    "user",
    "postgres",
    "production",
    "example",
    "api",
    "token",
    "response",
    "json",
    "build",
    "step",
    "done",
    "install",
    "package",
    "version",
    "http",
    "https",
    "com",
    "sk",
    "openai",
    "live",
    "agent",
    "private",
    "begin",
    "password",
    "secret",
    "database",
    "config",
    "default",
    "service",
    "account",
]


def logs(size: int) -> list[str]:
    """Texts of about one MiB, ``size`` bytes in all."""
    dice = random.Random(7)
    parts: list[str] = []
    while sum(map(len, parts)) < size:
        lines: list[str] = []
        length = 0
        while length < _PART:
            line = _line(dice)
            lines.append(line)
            length += len(line) + 1
        parts.append("\n".join(lines))
    return parts


def _line(dice: random.Random) -> str:
    words = " ".join(dice.choices(_WORDS, k=10))
    kind = dice.randrange(8)
    if kind == 0:
        return json.dumps({"ts": dice.random(), "msg": words, "arg": json.dumps({"p": f'"{words}"\n'})})
    if kind == 1:
        return f"2026-01-{dice.randrange(28):02}T00:00:{dice.randrange(60):02}Z INFO {words}"
    if kind == 2:
        return f"https://api.example.com/v1?q={quote(words)}&next={quote('https://a.b/c?d=e&f', safe='')}"
    if kind == 3:
        return f"    def f(self):  # {words}\n        return {{'a': 'x\\n', \"b\": r'\\w+/'}}"
    if kind == 4:
        return f'<p class="a">{html.escape(f"<{words}> & {words}")}&nbsp;&#39;{words}&#39;</p>'
    if kind == 5:
        return base64.b64encode(dice.randbytes(57)).decode()
    if kind == 6:
        return json.dumps({"url": "https://x.y/z", "html": f"<b>{words}</b>"}).replace("/", r"\/")
    return f"+{dice.randbytes(20).hex()} {words} postgres://other:word@db.example.com/y"


def secrets() -> dict[str, list[str]]:
    dice = random.Random(8)
    key = f"sk-proj-{base64.urlsafe_b64encode(dice.randbytes(60)).decode()}"
    lines = "\n".join(base64.b64encode(dice.randbytes(48)).decode() for _ in range(26))
    usual = [key, dice.randbytes(20).hex(), 'p"a/s+s=w&o<rd', "postgres://user:pa55word@db.example.com/x"]
    frame = "-----{} PRIVATE KEY-----"
    return {
        "one key": [key],
        "four of usual kinds": usual,
        "a private key": [f"{frame.format('BEGIN')}\n{lines}\n{frame.format('END')}\n"],
    }


def plain(values: list[str]) -> re.Pattern[str]:
    """What masking looked for before: a few spellings of each secret, as a whole."""
    found = set()
    for value in map(str.strip, values):
        raw, escaped = value.encode(), json.dumps(value)[1:-1]
        found |= {value, escaped, json.dumps(escaped)[1:-1], quote(value, safe=""), quote_plus(value)}
        found |= {raw.hex(), raw.hex().upper()}
        for lead in range(3):
            core = base64.b64encode(bytes(lead) + raw).decode()[(0, 2, 3)[lead] : (lead + len(raw)) * 8 // 6]
            found |= {core, core.replace("+", "-").replace("/", "_")}
    return re.compile("|".join(map(re.escape, sorted(found, key=len, reverse=True))))


def seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def compared(name: str, values: list[str], parts: list[str], data: list[bytes]) -> int:
    """Prints one line; the number of things that are not as they should be."""
    before, masker = plain(values), Masker(values)
    masker.text("made before it is timed")
    byte_pattern = re.compile(before.pattern.encode())
    times = {
        "plain": seconds(lambda: [before.sub("*", part) for part in parts]),
        "text": seconds(lambda: [masker.text(part) for part in parts]),
        "plain bytes": seconds(lambda: [byte_pattern.sub(b"*", part) for part in data]),
        "bytes": seconds(lambda: [masker.data(part) for part in data]),
    }
    ratios = times["text"] / times["plain"], times["bytes"] / times["plain bytes"]
    masked = sum(masker.text(part) != part for part in parts)
    size = sum(map(len, data))
    shown = ", ".join(f"{what} {spent / size * 1e9:.1f} ns/B" for what, spent in times.items())
    print(f"{name}: {shown}; ratios {ratios[0]:.2f} and {ratios[1]:.2f}; {masked} of {len(parts)} masked")
    return masked + sum(ratio > MOST_RATIO for ratio in ratios)


def main() -> int:
    parts = logs((int(sys.argv[1]) if len(sys.argv) > 1 else 100) * 1_000_000)
    data = [part.encode() for part in parts]
    problems = 0
    for name, values in secrets().items():
        problems += compared(name, values, parts, data)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
