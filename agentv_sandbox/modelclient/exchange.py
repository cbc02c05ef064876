"""HTTP exchanges that end when they must: at their deadline, at their size, at an interrupt."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, wait
from typing import TYPE_CHECKING, TypeAlias

from agentv_sandbox.base.errors import Cancelled
from agentv_sandbox.base.lazy import lazily
from agentv_sandbox.base.webclient import tls_context, without_proxy
from agentv_sandbox.models_api.records import WireCall

if TYPE_CHECKING:
    import asyncio

    import httpx
else:
    asyncio = lazily("asyncio")
    httpx = lazily("httpx")

REPLY_BYTES = 16 << 20
SLICE_S = 0.2
"""Longest sleep between two looks at ``cancelled``."""
_CONNECT_S = 10.0
_CLOSE_S = 2.0

Exchanged: TypeAlias = "tuple[int, httpx.Headers, bytes]"
"""Status, headers and body of a reply."""


def pause(seconds: float, cancelled: Callable[[], bool]) -> None:
    """Sleep; raises ``Cancelled`` soon after the user interrupted."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        if cancelled():
            raise Cancelled
        time.sleep(min(left, SLICE_S))


class Exchanges:
    """Thread-safe. They happen in a thread of their own, so that whoever waits can turn away from one: a socket
    that is being read cannot be ended from outside. The thread starts with the first of them."""

    def __init__(self, cancelled: Callable[[], bool]) -> None:
        self._cancelled = cancelled
        self._lock = threading.Lock()
        self._running: _Running | None = None

    def close(self) -> None:
        with self._lock:
            running, self._running = self._running, None
        if running is not None:
            running.close()

    def post(self, call: WireCall, timeout_s: float) -> Exchanged:
        """One POST, without redirects and compression. Raises httpx's errors, and Cancelled soon after an
        interrupt."""
        running = self.start()
        http = running.borrow()
        try:
            return asyncio.run_coroutine_threadsafe(_exchange(http, call, timeout_s), running.loop).result()
        except CancelledError:
            raise Cancelled from None
        finally:
            running.give_back(http)

    def start(self) -> _Running:
        """Make what the first exchange needs, so that it does not count as a part of it."""
        with self._lock:
            if self._running is None:
                self._running = _Running(self._cancelled)
            return self._running


class _Running:
    """The thread and its clients. Each client serves one exchange at a time: what httpx does for an exchange
    grows with the connections that its client has (with 64, by 14 ms)."""

    def __init__(self, cancelled: Callable[[], bool]) -> None:
        self._cancelled = cancelled
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="llm", daemon=True)
        self._all: list[httpx.AsyncClient] = []
        self._idle: list[httpx.AsyncClient] = []
        self._thread.start()
        self._watch = asyncio.run_coroutine_threadsafe(self._end_at_interrupt(), self.loop)

    async def _end_at_interrupt(self) -> None:
        """Look for all exchanges at once: a look by each thread that waits for one costs as much as a tenth of
        the exchange."""
        watch = asyncio.current_task()
        while True:
            await asyncio.sleep(SLICE_S)
            if self._cancelled():
                for task in asyncio.all_tasks() - {watch}:
                    task.cancel()

    def borrow(self) -> httpx.AsyncClient:
        try:
            return self._idle.pop()
        except IndexError:
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=2)
            http = httpx.AsyncClient(
                verify=tls_context(), limits=limits, follow_redirects=False, mounts=without_proxy()
            )
            self._all.append(http)
            return http

    def give_back(self, http: httpx.AsyncClient) -> None:
        self._idle.append(http)

    def close(self) -> None:
        wait([asyncio.run_coroutine_threadsafe(self._end(), self.loop)], timeout=_CLOSE_S)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(_CLOSE_S)
        if not self._thread.is_alive():
            self.loop.close()

    async def _end(self) -> None:
        """End all tasks before their loop ends: one that waits still is reported by the interpreter."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, *(http.aclose() for http in self._all), return_exceptions=True)


async def _exchange(http: httpx.AsyncClient, call: WireCall, timeout_s: float) -> Exchanged:
    timeout = httpx.Timeout(timeout_s, connect=min(timeout_s, _CONNECT_S))
    headers = {**call.headers, "accept-encoding": "identity", "content-type": "application/json"}
    # As JavaScript writes it; half a character, which an answer may hold and UTF-8 has not, is left out.
    content = json.dumps(call.body, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    data = bytearray()
    try:
        async with (
            asyncio.timeout(timeout_s),
            http.stream(
                "POST", call.url, content=content.encode("utf-8", "ignore"), headers=headers, timeout=timeout
            ) as response,
        ):
            if response.headers.get("content-encoding", "identity") != "identity":
                raise httpx.RemoteProtocolError("the server compressed its reply though asked not to")
            async for chunk in response.aiter_raw():
                data += chunk
                if len(data) > REPLY_BYTES:
                    raise httpx.RemoteProtocolError(f"the reply is larger than {REPLY_BYTES >> 20} MiB")
            return response.status_code, response.headers, bytes(data)
    except TimeoutError:
        raise httpx.ReadTimeout("the reply did not end in time") from None
