"""What an agent and its models used, and who says so."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from agentv_sandbox.base.dataclass import dataclass
from agentv_sandbox.models.json.wire import written


@dataclass(frozen=True, kw_only=True)
class TokenUsage:
    input: int = 0
    """Cached tokens included."""
    output: int = 0
    cached: int | None = None
    """Input tokens that the server had in its cache; None where it does not say."""
    reasoning: int | None = None
    """Part of ``output``, where it is known."""

    def __add__(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(
            input=self.input + other.input,
            output=self.output + other.output,
            cached=_sum_of_known(self.cached, other.cached),
            reasoning=_sum_of_known(self.reasoning, other.reasoning),
        )

    def without(self, other: TokenUsage) -> TokenUsage:
        """What was used beside ``other``, which is part of this."""
        return TokenUsage(
            input=max(self.input - other.input, 0),
            output=max(self.output - other.output, 0),
            cached=None if self.cached is None else max(self.cached - (other.cached or 0), 0),
            reasoning=None if self.reasoning is None else max(self.reasoning - (other.reasoning or 0), 0),
        )

    def wire(self) -> dict[str, int]:
        """As in rows and in what graders read."""
        return written(self)


def total_usage(parts: Iterable[TokenUsage | None]) -> TokenUsage | None:
    """The sum of what is known; None where nothing is."""
    used = [usage for usage in parts if usage is not None]
    return sum(used, TokenUsage()) if used else None


def total_cost(parts: Iterable[float | None]) -> float | None:
    """US dollars, summed over what is known; None where nothing is."""
    known = [cost for cost in parts if cost is not None]
    return sum(known) if known else None


@dataclass(frozen=True, kw_only=True)
class Claim:
    """Figures that an agent gives of itself, where others count."""

    token_usage: TokenUsage | None = None
    cost_usd: float | None = None
    duration_ms: float | None = None
    turns: int | None = None
    """Of a coding agent's program, by its own way of counting."""

    def __add__(self, other: Claim) -> Claim:
        return Claim(
            token_usage=total_usage((self.token_usage, other.token_usage)),
            cost_usd=total_cost((self.cost_usd, other.cost_usd)),
            duration_ms=total_cost((self.duration_ms, other.duration_ms)),
            turns=_sum_of_known(self.turns, other.turns),
        )


Figure = Literal["tool_calls", "duration_ms", "token_usage", "cost_usd"]


@dataclass(frozen=True, kw_only=True)
class Measure:
    """Who says what an agent did and used."""

    by_agent: tuple[Figure, ...] = ()
    """What rests on its own word alone."""
    answers: int | None = None
    """Of the models that drove it, as the gateway counted; None: its messages are counted."""
    calls_known: bool = True
    """False where its own word is not to count and no gateway has seen what models asked for."""

    def __add__(self, other: Measure) -> Measure:
        return Measure(
            by_agent=tuple(dict.fromkeys((*self.by_agent, *other.by_agent))),
            answers=_sum_of_known(self.answers, other.answers),
            calls_known=self.calls_known and other.calls_known,
        )


@dataclass(frozen=True, kw_only=True)
class ModelCalls:
    """What the model gateway counted of an agent's calls."""

    calls: int = 0
    failed: int = 0
    """Of them, those that were answered with an error or not at all."""
    token_usage: TokenUsage | None = None
    cost_usd: float | None = None
    """None unless all of it is known."""
    rate_limited: int = 0
    """Answers that asked to wait, after which the gateway sent the same request again."""
    rate_limit_wait_ms: float = 0.0
    """For how long at least one call waited for the server's rate limit."""
    without_usage: int = 0
    """Answered calls of which the server did not say the tokens."""
    without_price: int = 0
    """Calls of models whose price is unknown."""

    def __add__(self, other: ModelCalls) -> ModelCalls:
        whole = not any(each.without_usage or each.without_price for each in (self, other))
        return ModelCalls(
            calls=self.calls + other.calls,
            failed=self.failed + other.failed,
            token_usage=total_usage((self.token_usage, other.token_usage)),
            cost_usd=total_cost((self.cost_usd, other.cost_usd)) if whole else None,
            rate_limited=self.rate_limited + other.rate_limited,
            rate_limit_wait_ms=self.rate_limit_wait_ms + other.rate_limit_wait_ms,
            without_usage=self.without_usage + other.without_usage,
            without_price=self.without_price + other.without_price,
        )


def _sum_of_known(*counts: int | None) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if known else None
