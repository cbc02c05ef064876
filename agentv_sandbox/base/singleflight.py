"""Work that several threads need and that is done for the first of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Results by key. Whoever comes while the work is going on waits; what it raises is raised for all who wait, and
    with ``keep_failures`` for all who come later, too, but for those that ``forgets`` names."""

    def __init__(self, *, keep_failures: bool = True, forgets: tuple[type[BaseException], ...] = ()) -> None:
        self._forgets = forgets if keep_failures else (BaseException,)
        self._futures: dict[Hashable, Future[T]] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, work: Callable[[], T]) -> T:
        with self._lock:
            future = self._futures.get(key)
            mine = future is None
            if future is None:
                future = self._futures[key] = Future()
        if mine:
            try:
                future.set_result(work())
            except BaseException as error:
                if isinstance(error, self._forgets):
                    with self._lock:
                        del self._futures[key]
                future.set_exception(error)
        return future.result()
