"""The credential kept out of what a server answers, in every spelling in which a server may repeat it."""

from __future__ import annotations

from agentv_sandbox.masking import Masker

_SHORTEST = 8
"""Spellings of shorter credentials stand in ordinary text by chance: those are looked for as they are."""


class Mask:
    """Stars in place of the credential, should a server repeat it; lengths stay the same."""

    def __init__(self, value: bytes) -> None:
        self._value = value
        self._masker = Masker([_text(value)] if len(value) >= _SHORTEST else [])
        self._kept = b""

    @property
    def active(self) -> bool:
        return bool(self._value)

    def whole(self, data: bytes) -> bytes:
        if not self._masker:
            return data.replace(self._value, b"*" * len(self._value)) if self._value else data
        spans = self._masker.spans(data)
        if not spans:
            return data
        masked = bytearray(data)
        for start, end in spans:
            masked[start:end] = b"*" * (end - start)
        return bytes(masked)

    def feed(self, data: bytes) -> bytes:
        """What can be passed on of ``data``: its end may be the start of the credential."""
        data = self.whole(self._kept + data)
        cut = len(data) - self._held(data)
        self._kept = data[cut:]
        return data[:cut]

    def _held(self, data: bytes) -> int:
        if self._masker:
            return self._masker.pending(data)
        sizes = range(min(len(self._value) - 1, len(data)), 0, -1)
        return next((size for size in sizes if data.endswith(self._value[:size])), 0)

    def rest(self) -> bytes:
        kept, self._kept = self._kept, b""
        return kept


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value.decode("latin-1")
