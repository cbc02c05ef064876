"""A bound for what steps write: they run on this machine's disk, which has none of its own for a folder."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

_EVERY_S = 0.25
MOST_BYTES = 32 << 30
MOST_FILES = 2_000_000
_LEAST_FREE_BYTES = 512 << 20
_LEAST_FREE_FILES = 20_000


class DiskWatch:
    """Says when the disk of ``folder`` has lost more than steps may write, or is nearly full. Called often; it looks
    now and then. What others write meanwhile counts, too: that errs to the safe side."""

    def __init__(
        self,
        folder: Path,
        *,
        most_bytes: int = MOST_BYTES,
        most_files: int = MOST_FILES,
        least_bytes: int = 0,
    ) -> None:
        self._folder = folder
        self._most_bytes, self._most_files = most_bytes, most_files
        self._least_bytes = least_bytes or _LEAST_FREE_BYTES
        self._looked = 0.0
        self.reason = ""
        """Why steps must end; empty as long as they need not."""
        self._start = self._free()

    def _free(self) -> tuple[int, int]:
        known = os.statvfs(self._folder)
        return known.f_bavail * known.f_frsize, known.f_favail if known.f_files else MOST_FILES

    def exceeded(self) -> bool:
        now = time.monotonic()
        if not self.reason and now - self._looked >= _EVERY_S:
            self._looked = now
            free, files = self._free()
            if self._start[0] - free > self._most_bytes:
                self.reason = f"its steps wrote more than {self._most_bytes >> 20} MB"
            elif self._start[1] - files > self._most_files:
                self.reason = f"its steps made more than {self._most_files:,} files"
            elif free < self._least_bytes or files < _LEAST_FREE_FILES:
                self.reason = f"the disk of {self._folder} is full"
        return bool(self.reason)

    def also(self, cancelled: Callable[[], bool]) -> Callable[[], bool]:
        """``cancelled``, or this."""
        return lambda: cancelled() or self.exceeded()
