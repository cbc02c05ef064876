"""Calls, tokens and money of models, counted outside of the containers, and the bounds that they stop at."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import field

from agentv_sandbox.base.dataclass import dataclass
from agentv_sandbox.models.figures import TokenUsage
from agentv_sandbox.models_api.denial import Denial
from agentv_sandbox.models_api.usage import Usage

_MOST_UNKNOWN = 3
"""Calls of which the server says no usage that are made under a bound of tokens or money."""
_WAIT_S = 600.0


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Of a test or a run; None: none."""

    calls: int | None = None
    tokens: int | None = None
    """Input and output together."""
    cost_usd: float | None = None


@dataclass(frozen=True, kw_only=True)
class ModelUse:
    """What was asked of models."""

    calls: int = 0
    """Requests that reached a server, failed ones included."""
    failed: int = 0
    """Of them, those that were answered with an error or not at all."""
    usage: Usage = field(default_factory=Usage)
    cost_usd: float = 0.0
    """Of calls with a known price."""
    rate_limited: int = 0
    """Answers that asked to wait, after which the same request was sent again."""
    without_usage: int = 0
    """Answered calls of which the server did not say the tokens, or not all of them."""
    without_price: int = 0
    """Calls with tokens and no known price."""

    def __add__(self, other: ModelUse) -> ModelUse:
        return ModelUse(
            **{name: getattr(self, name) + getattr(other, name) for name in self.__dataclass_fields__}
        )

    @property
    def cost(self) -> float | None:
        """US dollars; None unless all of it is known."""
        known = self.tokens is not None and not self.without_price and not self.without_usage
        return round(self.cost_usd, 9) if known else None

    @property
    def tokens(self) -> TokenUsage | None:
        """Those that servers said; None where none did."""
        return self.usage.tokens() if self.usage != Usage() else None


class Meter:
    """Thread-safe. ``parent`` counts the same calls and has bounds of its own."""

    def __init__(self, bounds: Bounds, *, subject: str = "test", parent: Meter | None = None) -> None:
        self._bounds = bounds
        self._subject = subject
        self._parent = parent
        self._changed = threading.Condition()
        self._use = ModelUse()
        self._running = 0
        self._most_tokens = 0
        """Of one call so far."""
        self._most_usd = 0.0
        """The same in dollars."""
        self._elsewhere_usd = 0.0

    @property
    def use(self) -> ModelUse:
        with self._changed:
            return self._use

    @property
    def spent(self) -> bool:
        """Whether a bound of its own or of its parent's is reached."""
        with self._changed:
            try:
                self._refuse_when_spent()
            except Denial:
                return True
        return self._parent is not None and self._parent.spent

    def spend(self, cost_usd: float) -> None:
        """Count money that was spent without the gateway."""
        with self._changed:
            self._elsewhere_usd += cost_usd
            self._changed.notify_all()

    @contextmanager
    def call(self) -> Iterator[CallCount]:
        """One call, from its admission to its count. Raises Denial when a bound is reached. A call waits for others
        while they may yet reach it."""
        with ExitStack() as stack:
            if self._parent is not None:
                above = stack.enter_context(self._parent.call())
            self._enter()
            counted = CallCount()
            try:
                yield counted
            finally:
                self._leave(counted.use)
                if self._parent is not None:
                    above.use = counted.use

    def _enter(self) -> None:
        deadline = time.monotonic() + _WAIT_S
        with self._changed:
            while True:
                self._refuse_when_spent()
                if self._running == 0 or self._room_for_one_more():
                    break
                if not self._changed.wait(max(deadline - time.monotonic(), 0)):
                    raise Denial(403, f"other calls of this {self._subject} took too long to be counted")
            self._running += 1

    def _leave(self, use: ModelUse) -> None:
        with self._changed:
            self._running -= 1
            self._use += use
            self._most_tokens = max(self._most_tokens, use.usage.input + use.usage.output)
            self._most_usd = max(self._most_usd, use.cost_usd)
            self._changed.notify_all()

    def _refuse_when_spent(self) -> None:
        bounds, use = self._bounds, self._use
        tokens = use.usage.input + use.usage.output
        cost = use.cost_usd + self._elsewhere_usd
        spent = ""
        if bounds.calls is not None and use.calls >= bounds.calls:
            spent = f"{use.calls} calls were made, and max_calls is {bounds.calls}"
        elif bounds.tokens is not None and tokens >= bounds.tokens:
            spent = f"{tokens} tokens were used, and max_tokens is {bounds.tokens}"
        elif bounds.cost_usd is not None and cost >= bounds.cost_usd:
            spent = f"${cost:.4f} was spent of ${bounds.cost_usd:g}"
        elif (bounds.tokens, bounds.cost_usd) != (None, None) and use.without_usage > _MOST_UNKNOWN:
            spent = f"of {use.without_usage} calls the server did not say the tokens, so no bound can be kept"
        if spent:
            raise Denial(403, f"the budget of this {self._subject} is spent: {spent}")

    def _room_for_one_more(self) -> bool:
        """Whether calls as large as the largest so far leave room beside those that are under way."""
        bounds, use, ahead = self._bounds, self._use, self._running
        if bounds.calls is not None and use.calls + ahead >= bounds.calls:
            return False
        if (bounds.tokens, bounds.cost_usd) == (None, None):
            return True
        if use.calls == 0:
            return False  # nothing is known of what one costs
        if use.without_usage and use.without_usage + ahead > _MOST_UNKNOWN:
            return False  # those under way may say no tokens either
        tokens = use.usage.input + use.usage.output + ahead * self._most_tokens
        cost = use.cost_usd + self._elsewhere_usd + ahead * self._most_usd
        within_tokens = bounds.tokens is None or tokens < bounds.tokens
        return within_tokens and (bounds.cost_usd is None or cost < bounds.cost_usd)


@dataclass
class CallCount:
    """What one call came to; its maker sets it."""

    use: ModelUse = field(default_factory=ModelUse)
