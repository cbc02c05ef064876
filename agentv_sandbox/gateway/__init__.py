"""The model gateway: what an agent may do with the key of a model's server.

The egress proxy holds the key; this decides what is asked with it. A request is read, held against the rules of its
target and written anew; a refusal is answered in the API's own form and never reaches the server. ``examine`` is a
pure function; ``ModelGateway`` adds what a container asked for so far.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import lru_cache

from agentv_sandbox import masking
from agentv_sandbox.gateway.anthropic import Anthropic
from agentv_sandbox.gateway.calls import CallLog
from agentv_sandbox.gateway.canonical import Scope
from agentv_sandbox.gateway.chat import Chat, adds_usage_event
from agentv_sandbox.gateway.denial import Denial, Miss
from agentv_sandbox.gateway.dialect import Check, Dialect, Operation, names
from agentv_sandbox.gateway.gemini import Gemini
from agentv_sandbox.gateway.heard import HeardAnswers
from agentv_sandbox.gateway.limiter import (
    MOST_ADDED_S,
    GoneAway,
    KeyLimit,
    LimitWait,
    RateLimits,
    Turn,
    WaitClock,
)
from agentv_sandbox.gateway.meter import Bounds, Meter, ModelUse
from agentv_sandbox.gateway.modelcall import Admitted, LimitAnswer, ModelCall
from agentv_sandbox.gateway.modelnames import matches
from agentv_sandbox.gateway.policy import GRANTS, GatewayPolicy, ModelRequest
from agentv_sandbox.gateway.prices import Price, PriceList, warm_up
from agentv_sandbox.gateway.recording import RecordedReply, Recorder, asked_by, current_scope
from agentv_sandbox.gateway.replaying import Player, Tape, TapeUse
from agentv_sandbox.gateway.responses import Responses
from agentv_sandbox.gateway.servers import PREFIXES, is_model_server
from agentv_sandbox.gateway.strict import read_object, write_object
from agentv_sandbox.gateway.trajectory import trajectory
from agentv_sandbox.gateway.waits import asked_wait, may_ask_to_wait, stated_wait

BODY_BYTES = 32 << 20
"""Of a request."""
DIALECTS: tuple[Dialect, ...] = (Anthropic(), Responses(), Chat(), Gemini())
"""A path tells which one is spoken, since no two share one."""
_PASSED_HEADERS = names(
    "accept user-agent anthropic-version anthropic-beta anthropic-dangerous-direct-browser-access x-app "
    "idempotency-key"
)
"""Of a request; all others, among them those that override methods, addresses and accounts, are dropped."""
_MOST_REASONS = 5
_FIRST_ERROR = 400


def examine(request: ModelRequest, policy: GatewayPolicy, *, prefix: str = "") -> Admitted:
    """What of ``request`` is sent on under ``policy``; the model is checked by its form alone. ``prefix``: where the
    API stands on its server, beside the usual places. Raises Denial."""
    dialect, operation, before = _routed(request, prefix)
    if operation.name == "models":
        return _list_of_models(request, policy, dialect, operation, before)
    if request.method != "POST":
        raise Denial(
            404,
            f"{request.method[:10]} {masking.first(request.path, 80)} is not an operation that the gateway knows",
        )
    if (coding := request.headers.get("content-encoding", "identity").strip().lower()) != "identity":
        raise Denial(
            400, f"a body in content-encoding {masking.first(coding, 40)!r} is not read; send it as it is"
        )
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type != "application/json":
        raise Denial(400, f"content-type must be application/json, found {masking.first(media_type, 60)!r}")
    if len(request.body) > BODY_BYTES:
        raise Denial(413, f"the body is larger than {BODY_BYTES >> 20} MiB")
    asked = read_object(request.body)
    model, body = dialect.check(dict(asked), operation, Check(policy, dialect.name))
    return Admitted(
        dialect=dialect,
        operation=replace(operation, stream=operation.stream or body.get("stream") is True),
        method="POST",
        path=before + operation.path,
        model=model,
        headers=_headers(request),
        body=write_object(body),
        sent=body,
        adds_usage_event=isinstance(dialect, Chat) and adds_usage_event(asked),
    )


def refusal(denial: Denial, request: ModelRequest) -> bytes:
    """The body that says ``denial`` in the form of the API that was spoken, as far as that can be seen."""
    text = f"agentv-sandbox's model gateway refused this request: {denial.reason}"
    return json.dumps(_spoken(request).error(denial.status, text)).encode()


class ModelGateway:
    """The requests of one container to one server. Thread-safe."""

    def __init__(
        self,
        policy: GatewayPolicy,
        meter: Meter,
        log: CallLog,
        *,
        prefix: str = "",
        tape: TapeUse | None = None,
        limit: KeyLimit | None = None,
        waits: WaitClock | None = None,
        heard: HeardAnswers | None = None,
    ) -> None:
        """``tape``: where calls are recorded, or replayed from. ``limit``: of the server, shared with others; ``waits``
        counts for how long the container waits for it. ``heard``: notes what its models ask for."""
        self._limit = limit or KeyLimit()
        self._waits = waits or WaitClock()
        self._heard = heard or HeardAnswers()
        self._policy = policy
        self._tape = tape
        self._meter = meter
        self._log = log
        self._prices = PriceList(policy.prices)
        self._prefix = prefix
        self._lock = threading.Lock()
        self._first: str | None = None
        self._refused: Counter[str] = Counter()
        self.misses = 0
        """Requests that a recording has no answer to."""
        self._first_miss = ""
        warm_up()

    @contextmanager
    def call(self, request: ModelRequest) -> Iterator[ModelCall]:
        """``request`` from its admission to the end of its answer, which ``ModelCall.reply`` is to be fed. Raises
        Denial, which is counted."""
        with ExitStack() as stack:
            try:
                admitted = examine(request, self._policy, prefix=self._prefix)
                if admitted.operation.name != "models":
                    self._check_model(admitted.model)
                replayed = self._replayed(admitted)
                counted = None
                if admitted.operation.name == "generate":
                    counted = stack.enter_context(self._meter.call())
            except Denial as denial:
                self.note(denial)
                raise
            record = None
            if self._tape is not None:
                record = self._tape.record(admitted.method, admitted.path, admitted.sent)
            if admitted.operation.name == "generate":
                self._heard.told(admitted.sent, time.time())
            call = ModelCall(admitted, limit=self._limit, waits=self._waits, replayed=replayed, record=record)
            try:
                yield call
            except LimitWait as wait:
                early = Denial(429, str(wait), retry_after_s=wait.seconds)
                self.note(early)
                raise early from None
            finally:
                call.end_record()
                if call.asked:
                    use = self._use(call)
                    if counted is not None:
                        counted.use = use
                    self._heard.add(call, time.time())
                    self._log.add(call.began, admitted.sent, call.facts(use))

    def note(self, denial: Denial) -> None:
        """Count a refusal."""
        with self._lock:
            if isinstance(denial, Miss):
                self.misses += 1
                self._first_miss = self._first_miss or denial.reason
            elif len(self._refused) < 1000 or denial.reason in self._refused:
                self._refused[denial.reason] += 1

    def refusals(self) -> tuple[str, ...]:
        """One sentence for each kind of request that was refused, the most frequent first."""
        with self._lock:
            common = self._refused.most_common()
            missed, first_miss = self.misses, self._first_miss
        # The first alone: what a program asks then follows from it.
        more = f" ({missed - 1} more requests after it had no answer either)" if missed > 1 else ""
        said = [f"{first_miss}{more}"] if missed else []
        said += [f"{text} ({times} times)" if times > 1 else text for text, times in common[:_MOST_REASONS]]
        if len(common) > _MOST_REASONS:
            said.append(f"{len(common) - _MOST_REASONS} more kinds of refusal are in network.jsonl")
        return tuple(f"the model gateway refused: {each}" for each in said)

    def _replayed(self, admitted: Admitted) -> RecordedReply | None:
        """The recorded answer, where there is a recording to answer from. Raises Miss."""
        if self._tape is None:
            return None
        return self._tape.play(admitted.method, admitted.path, admitted.sent)

    def _check_model(self, model: str) -> None:
        policy = self._policy
        with self._lock:
            if not policy.admits(model, self._first):
                named = ", ".join((*(policy.models or (self._first or "",)), *policy.side_models))
                raise Denial(
                    403,
                    f"the model {model!r} is not one of this target's ({named}); in the target, "
                    f"gateway: {{models: [...]}} permits more",
                )
            if self._first is None and not matches(model, policy.side_models):
                self._first = model
        if policy.needs_price and not self._prices.knows(model):
            raise Denial(
                403,
                f"max_cost_usd is set and the price of {model!r} is unknown; in the target, "
                f"gateway: {{prices: ...}} states it",
            )

    def _use(self, call: ModelCall) -> ModelUse:
        usage, failed = call.reply.usage, call.status is None or call.status >= _FIRST_ERROR
        if usage is None:
            return ModelUse(
                calls=1,
                failed=int(failed),
                rate_limited=call.limited,
                without_usage=int(call.cut or not failed),
            )
        names = tuple(dict.fromkeys((call.admitted.model, call.reply.model or call.admitted.model)))
        cost = self._prices.cost(names, usage)
        return ModelUse(
            calls=1,
            failed=int(failed),
            rate_limited=call.limited,
            usage=usage,
            cost_usd=cost or 0.0,
            without_usage=int(call.cut),
            without_price=int(cost is None),
        )


def _routed(request: ModelRequest, prefix: str) -> tuple[Dialect, Operation, str]:
    """The API that is spoken, what is asked, and the prefix of the path. Raises Denial."""
    path = request.path
    if "%" in path or "//" in path or "/../" in path or "/./" in path:
        raise Denial(404, "the address has more than one reading")
    query = _query(request.query)
    for before in _prefixes(prefix):
        if not path.startswith(before):
            continue
        rest = path[len(before) :]
        if rest == "/models" and not query:
            return _spoken(request), Operation(name="models", path=rest), before
        for dialect in DIALECTS:
            if (operation := dialect.operation(rest, query)) is not None:
                return dialect, operation, before
    raise Denial(
        404, f"{request.method[:10]} {masking.first(path, 80)} is not an operation that the gateway knows"
    )


@lru_cache(maxsize=64)
def _prefixes(prefix: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys((prefix, *(f"{prefix}{each}" for each in PREFIXES), *PREFIXES)))


def _query(text: str) -> dict[str, str]:
    """A query without escapes and repetitions. Raises Denial."""
    if not text:
        return {}
    pairs = [part.partition("=") for part in text.split("&")]
    query = {key: value for key, _, value in pairs}
    if len(query) != len(pairs) or "%" in text or "+" in text:
        raise Denial(403, "the query is not one that the gateway knows")
    return query


def _list_of_models(
    request: ModelRequest, policy: GatewayPolicy, dialect: Dialect, operation: Operation, before: str
) -> Admitted:
    Check(policy, dialect.name).need("list_models", "the list of models")
    if request.method != "GET" or request.body:
        raise Denial(
            404,
            f"{request.method[:10]} {masking.first(request.path, 80)} is not an operation that the gateway knows",
        )
    return Admitted(
        dialect=dialect,
        operation=operation,
        method="GET",
        path=before + operation.path,
        model="",
        headers=_headers(request),
        body=b"",
    )


def _headers(request: ModelRequest) -> dict[str, str]:
    kept = {name: value for name, value in request.headers.items() if name in _PASSED_HEADERS}
    return {**kept, "content-type": "application/json"} if request.body else kept


def _spoken(request: ModelRequest) -> Dialect:
    anthropic, responses, chat, gemini = DIALECTS
    if "anthropic-version" in request.headers or "/messages" in request.path:
        return anthropic
    if "x-goog-api-key" in request.headers or ":" in request.path:
        return gemini
    return responses if "/responses" in request.path else chat


__all__ = [
    "BODY_BYTES",
    "DIALECTS",
    "GRANTS",
    "MOST_ADDED_S",
    "Admitted",
    "Bounds",
    "CallLog",
    "Denial",
    "GatewayPolicy",
    "GoneAway",
    "HeardAnswers",
    "KeyLimit",
    "LimitAnswer",
    "LimitWait",
    "Meter",
    "Miss",
    "ModelCall",
    "ModelGateway",
    "ModelRequest",
    "ModelUse",
    "Player",
    "Price",
    "PriceList",
    "RateLimits",
    "RecordedReply",
    "Recorder",
    "Scope",
    "Tape",
    "TapeUse",
    "Turn",
    "WaitClock",
    "asked_by",
    "asked_wait",
    "current_scope",
    "examine",
    "is_model_server",
    "may_ask_to_wait",
    "refusal",
    "stated_wait",
    "trajectory",
]
