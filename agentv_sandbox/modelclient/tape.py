"""Exchanges with LLM targets that are recorded, or replayed without a connection."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from agentv_sandbox.base.errors import LlmError
from agentv_sandbox.base.lazy import lazily
from agentv_sandbox.modelcalls.recording import current_scope
from agentv_sandbox.modelcalls.replaying import Tape, TapeUse
from agentv_sandbox.modelclient.exchange import Exchanged, Exchanges
from agentv_sandbox.models_api.denial import Miss
from agentv_sandbox.models_api.records import WireCall

if TYPE_CHECKING:
    import httpx
else:
    httpx = lazily("httpx")


def taped_post(exchanges: Exchanges, tape: Tape | None, call: WireCall, timeout_s: float) -> Exchanged:
    """One POST as ``exchanges`` makes it, kept on ``tape`` or answered from it. Raises what ``exchanges`` does, and
    LlmError where a recording has no answer."""
    if tape is None:
        return exchanges.post(call, timeout_s)
    use = TapeUse(tape=tape, scope=current_scope())
    address = urlsplit(call.url)
    path = f"{address.path}?{address.query}" if address.query else address.path
    try:
        reply = use.play("POST", path, call.body)
    except Miss as miss:
        raise LlmError(f"no answer in the replay: {miss.reason}") from None
    if reply is not None:
        if not reply.complete:
            raise httpx.RemoteProtocolError(
                "the recorded answer ends early, as the server closed the connection"
            )
        return reply.status, httpx.Headers(dict(reply.headers)), reply.body
    record = use.record("POST", path, call.body)
    status, headers, data = exchanges.post(call, timeout_s)
    if record is not None:
        record.start(status, {name.lower(): value for name, value in headers.items()})
        record.feed(data)
        record.end(complete=True)
    return status, headers, data
