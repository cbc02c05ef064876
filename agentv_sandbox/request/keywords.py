"""Functions that take a request, callable with its fields as keywords."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from agentv_sandbox.request import RunRequest

P = ParamSpec("P")
R = TypeVar("R")
First = TypeVar("First")


class _ByKeywords(Generic[P, R]):
    """``function``, which takes a request as its only argument."""

    def __init__(self, function: Callable[[RunRequest], R], signature: inspect.Signature) -> None:
        self._function = function
        update_wrapper(self, function)
        self.__signature__ = signature

    @overload
    def __call__(self, request: RunRequest, /) -> R: ...
    @overload
    def __call__(self, *args: P.args, **keywords: P.kwargs) -> R: ...
    def __call__(self, *args: Any, **keywords: Any) -> R:
        return self._function(_request(args, keywords))


def by_keywords(_record: Callable[P, RunRequest]) -> Callable[[Callable[[RunRequest], R]], _ByKeywords[P, R]]:
    """Have a function of a request take the request, or all that ``_record`` is made of."""

    def wrap(function: Callable[[RunRequest], R]) -> _ByKeywords[P, R]:
        return _ByKeywords(function, _signature(function))

    return wrap


def after_one(
    _record: Callable[P, RunRequest],
) -> Callable[[Callable[[First, RunRequest], R]], Callable[Concatenate[First, P], R]]:
    """The same for a function that takes something before the request."""

    def wrap(function: Callable[[First, RunRequest], R]) -> Callable[Concatenate[First, P], R]:
        def called(first: First, /, *args: P.args, **keywords: P.kwargs) -> R:
            return function(first, _request(args, keywords))

        update_wrapper(called, function)
        called.__signature__ = _signature(function)  # type: ignore[attr-defined]
        return called

    return wrap


def _request(args: tuple[Any, ...], keywords: dict[str, Any]) -> RunRequest:
    if args and isinstance(first := args[0], RunRequest):
        return replace(first, **keywords)
    return RunRequest(*args, **keywords)


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """That of the function with the request's fields in the place of its last parameter."""
    own = inspect.signature(function)
    *before, _ = own.parameters.values()
    fields = inspect.signature(RunRequest).parameters.values()
    return own.replace(parameters=[*before, *fields])
