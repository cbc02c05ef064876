"""Tokens of calls."""

from __future__ import annotations

from agentv_sandbox.base.dataclass import dataclass
from agentv_sandbox.models.figures import TokenUsage


@dataclass(frozen=True, kw_only=True)
class Usage:
    """Tokens of one call, as its server counted them."""

    input: int = 0
    """Cached and newly cached ones included."""
    output: int = 0
    """Reasoning included."""
    cached: int = 0
    """Of ``input``, read from the server's cache."""
    cache_write: int = 0
    """Of ``input``, written to it."""
    cache_write_1h: int = 0
    """Of ``cache_write``, kept for an hour."""
    reasoning: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            **{name: getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__}
        )

    def tokens(self) -> TokenUsage:
        """As in rows."""
        return TokenUsage(
            input=self.input,
            output=self.output,
            cached=self.cached or None,
            reasoning=self.reasoning or None,
        )
