"""Work that several tests need and that is done for the first of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

T = TypeVar("T")


class Once(Generic[T]):
    """Results by key. Whoever comes while the work is going on waits; what it raises is raised for everybody."""

    def __init__(self) -> None:
        self._made: dict[Hashable, Future[T]] = {}
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        with self._lock:
            future = self._made.get(key)
            mine = future is None
            if future is None:
                future = self._made[key] = Future()
        if mine:
            try:
                future.set_result(make())
            except BaseException as error:
                future.set_exception(error)
        return future.result()
