"""What an agent prints, line by line as it prints it, for somebody who watches one test. Whatever it prints, little of
it is held and told on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

LINE_BYTES = 8 << 10
"""A longer line is left out whole: a part of it could be a part of a secret, which nobody would know again."""
MOST_LINES = 2000
"""Of one agent; what comes then is in the results alone."""


@dataclass
class Followed:
    """The lines of both streams of one agent container. ``say`` takes each as text, without its end."""

    say: Callable[[str], None]
    lines: int = 0
    _output: bytearray = field(default_factory=bytearray)
    _errors: bytearray = field(default_factory=bytearray)

    def output(self, data: bytes) -> None:
        self._feed(self._output, data)

    def errors(self, data: bytes) -> None:
        self._feed(self._errors, data)

    def end(self) -> None:
        """Say what has no end of line."""
        for begun in (self._output, self._errors):
            if begun:
                self._feed(begun, b"\n")

    def _feed(self, begun: bytearray, data: bytes) -> None:
        if self.lines > MOST_LINES:
            return
        *ended, rest = data.split(b"\n", MOST_LINES + 1)
        for line in ended:
            self._add(begun, line)
            self._say(bytes(begun))
            begun.clear()
        self._add(begun, rest)

    def _add(self, begun: bytearray, data: bytes) -> None:
        begun += data[: LINE_BYTES + 1 - len(begun)]

    def _say(self, line: bytes) -> None:
        self.lines += 1
        if self.lines > MOST_LINES:
            if self.lines == MOST_LINES + 1:
                self.say(f"[more than {MOST_LINES} lines: the rest is in the results]")
        elif len(line) > LINE_BYTES:
            self.say(f"[a line of more than {LINE_BYTES} bytes, left out]")
        else:
            self.say(line.decode("utf-8", "replace"))
