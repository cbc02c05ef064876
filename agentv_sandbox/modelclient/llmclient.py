"""The one HTTP client for LLM targets: keys by name, rate limits, retries, deadlines."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from agentv_sandbox.base.dataclass import dataclass
from agentv_sandbox.base.errors import Cancelled, LlmError
from agentv_sandbox.base.lazy import lazily
from agentv_sandbox.base.logs import get_logger
from agentv_sandbox.modelcalls.limiter import (
    GoneAway,
    KeyLimit,
    LimitWait,
    RateLimits,
    WaitClock,
    server_name,
)
from agentv_sandbox.modelcalls.replaying import Tape
from agentv_sandbox.modelclient.exchange import Exchanges, pause
from agentv_sandbox.modelclient.retry import PassingError, RequestBudget, RetryPolicy
from agentv_sandbox.modelclient.server import ModelServer
from agentv_sandbox.models.suite import Target
from agentv_sandbox.models_api.dialects.base import Dialect
from agentv_sandbox.models_api.prices import warm_up
from agentv_sandbox.models_api.records import (
    ChatRequest,
    LlmReply,
    LlmRequest,
    WireCall,
    stated_prices,
)

if TYPE_CHECKING:
    import tenacity
else:
    tenacity = lazily("tenacity")

log = get_logger()

TIMEOUT_S = 120.0
"""Of one HTTP exchange; ``timeout_seconds`` of the target overrides it."""
ANSWER_TIMEOUT_S = 600.0
"""The same of an answer to a test, which models may think about for long."""
_STRUCTURED_REFUSED = frozenset({400, 404, 422, 501})
_LEAST_S = 0.1
_PORTS = {"http": 80, "https": 443}
_TIME_LIMITS = "limits.timeout_seconds of the target or the suite, --agent-timeout"


@dataclass(kw_only=True)
class _Asking:
    """One question to a target on its way through attempts."""

    target: Target
    limit: KeyLimit
    policy: RetryPolicy
    budget: RequestBudget
    clock: WaitClock = field(default_factory=WaitClock)
    attempts: int = 0


class LlmClient:
    """Thread-safe. Keys are looked up in ``environ`` by the name that a target gives; proxies and CA
    bundles come from the process's environment, as httpx reads it."""

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        cancelled: Callable[[], bool] = lambda: False,
        tape: Tape | None = None,
        limits: RateLimits | None = None,
    ) -> None:
        """``tape``: where exchanges are recorded, or replayed from. ``limits``: rate limits of servers, shared with
        others."""
        self._limits = limits or RateLimits()
        self._environ = environ
        self._tape = tape
        self._cancelled = cancelled
        self._exchanges = Exchanges(cancelled)
        self._lock = threading.Lock()
        self._of_targets: dict[str, KeyLimit] = {}
        self._unstructured: set[str] = set()
        """Targets whose server refused a structured output request."""

    def close(self) -> None:
        self._exchanges.close()

    def __enter__(self) -> LlmClient:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    def complete(self, target: Target, request: LlmRequest, wire: Dialect) -> LlmReply:
        """Ask ``target``, whose server speaks ``wire``. Raises ``LlmError`` when no attempt gave an answer,
        ``Cancelled`` on interrupt."""
        server = self._server(target, wire)
        structured = self._may_structure(target)
        stream = target.flag("stream") is True
        call = wire.call(target, request, key=server.key, structured=structured, stream=stream)
        limit = self._limit(server, call)
        budget = request.budget or RequestBudget.of_grading(target)
        return self._with_retries(
            server, call, limit, budget, lambda: self._judgement(server, request, call, budget)
        )

    def answer(self, target: Target, request: ChatRequest, wire: Dialect) -> LlmReply:
        """Have ``target`` answer a test, within ``request.time_limit_s``, retries included. Raises as ``complete``
        does."""
        server = self._server(target, wire)
        self._exchanges.start()
        stream = target.flag("stream") is not False
        call = wire.chat(target, request, key=server.key, stream=stream)
        timeout_s = target.number("timeout_seconds") or ANSWER_TIMEOUT_S
        budget = RequestBudget(requests=math.inf, seconds=request.time_limit_s)

        def attempt() -> LlmReply:
            try:
                if budget.left_s > 0:
                    budget.used += 1
                    return server.exchange(call, min(timeout_s, budget.left_s))
            except PassingError:
                if budget.left_s > 0:
                    raise
            message = f"target '{target.name}': no answer within {request.time_limit_s:g} s ({_TIME_LIMITS})"
            raise LlmError(message, fault="timeout")

        limit = self._limit(server, call)
        return self._with_retries(server, call, limit, budget, attempt)

    def _with_retries(
        self,
        server: ModelServer,
        call: WireCall,
        limit: KeyLimit,
        budget: RequestBudget,
        attempt: Callable[[], LlmReply],
    ) -> LlmReply:
        """Waits for ``limit`` do not count in ``budget``, which ``attempt`` draws on."""
        started = time.monotonic()
        target = server.target
        policy = RetryPolicy.of(target)
        asking = _Asking(target=target, limit=limit, policy=policy, budget=budget)

        def before_sleep(state: tenacity.RetryCallState) -> None:
            error = state.outcome.exception() if state.outcome else None
            delay = state.next_action.sleep if state.next_action else 0.0
            log.info(
                "llm.retry", target=target.name, attempt=state.attempt_number, delay_s=delay, error=str(error)
            )

        def may_pass(error: BaseException) -> bool:
            """A server that wants us to come back much later is not waited for."""
            return isinstance(error, PassingError) and error.retry_after_s <= policy.max_delay_s

        def is_enough(state: tenacity.RetryCallState) -> bool:
            return state.attempt_number > policy.retries or budget.spent(state.upcoming_sleep)

        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception(may_pass),
            stop=is_enough,
            wait=policy.wait,
            sleep=lambda seconds: pause(seconds, self._cancelled),
            before_sleep=before_sleep,
            reraise=True,
        )

        try:
            reply = retrying(lambda: self._in_turn(asking, attempt))
        except PassingError as error:
            if budget.used == 1:
                raise
            text = f"{error.message} ({budget})"
            raise LlmError(text, status=error.status, hint=error.hint, fault=error.fault) from None
        elapsed_ms = (time.monotonic() - started) * 1000
        tries = retrying.statistics["attempt_number"]
        return replace(reply, attempts=tries, duration_ms=elapsed_ms, cost_usd=server.cost(call, reply))

    def _in_turn(self, asking: _Asking, attempt: Callable[[], LlmReply]) -> LlmReply:
        """One attempt when its turn has come. What it says of the server's rate limit is heard for everybody."""
        clock, policy = asking.clock, asking.policy
        before_s = clock.seconds
        asking.attempts += 1
        try:
            with (
                self._of_target(asking.target).turn(gone=self._cancelled),
                asking.limit.turn(hold_s=policy.max_delay_s, gone=self._cancelled, clock=clock) as turn,
            ):
                asking.budget.waited(clock.seconds - before_s)
                try:
                    reply = attempt()
                except PassingError as error:
                    if error.limited:
                        turn.limited(error.retry_after_s, pause_s=policy.delay_s(asking.attempts))
                    raise
                turn.passed()
                return reply
        except GoneAway:
            raise Cancelled from None
        except LimitWait as error:
            raise LlmError(f"target '{asking.target.name}': {error}", status=429) from None

    def _judgement(
        self, server: ModelServer, request: LlmRequest, call: WireCall, budget: RequestBudget
    ) -> LlmReply:
        target, wire, key = server.target, server.wire, server.key
        stream = target.flag("stream") is True
        timeout_s = target.number("timeout_seconds") or TIMEOUT_S

        def exchange(call: WireCall) -> LlmReply:
            budget.used += 1
            return server.exchange(call, max(min(timeout_s, budget.left_s), _LEAST_S))

        try:
            return exchange(call)
        except LlmError as error:
            refused = (
                self._may_structure(target)
                and request.schema is not None
                and error.status in _STRUCTURED_REFUSED
                and not budget.spent()
            )
            if not refused:
                raise
        reply = exchange(wire.call(target, request, key=key, structured=False, stream=stream))
        self._unstructured.add(target.name)  # only when the same request without a schema worked
        return reply

    def _server(self, target: Target, wire: Dialect) -> ModelServer:
        if not stated_prices(target):
            warm_up()
        return ModelServer(
            target=target, wire=wire, key=self._key(target), exchanges=self._exchanges, tape=self._tape
        )

    def _limit(self, server: ModelServer, call: WireCall) -> KeyLimit:
        """The rate limit of the server for the key, as agents meet it too."""
        try:
            address = urlsplit(call.url)
            port = address.port or _PORTS.get(address.scheme, 443)
        except ValueError:
            return KeyLimit()  # the exchange says what is wrong with the address
        return self._limits.of(server_name(address.hostname or "", port), (server.key or "").encode())

    def _key(self, target: Target) -> str | None:
        name = target.text("api_key_env")
        if not name:
            return None
        key = self._environ.get(name, "").strip()
        if not key:
            raise LlmError(
                f"target '{target.name}': environment variable {name} is not set",
                hint=f"export {name}, or put it into the .env file beside the targets file",
            )
        return key

    def _may_structure(self, target: Target) -> bool:
        return target.flag("structured_output") is not False and target.name not in self._unstructured

    def _of_target(self, target: Target) -> KeyLimit:
        """The bounds that ``target`` sets for its own requests."""
        with self._lock:
            if target.name not in self._of_targets:
                most = target.number("max_concurrency")
                self._of_targets[target.name] = KeyLimit(
                    most=int(most) if most else None,
                    per_minute=target.number("requests_per_minute"),
                )
            return self._of_targets[target.name]
