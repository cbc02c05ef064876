"""Functions that take a request, callable with its fields as keywords."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import update_wrapper
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from agentv_sandbox.base.errors import InputError
from agentv_sandbox.base.keywords import check_names, signature_by
from agentv_sandbox.request import RunRequest
from agentv_sandbox.request.asked import others

P = ParamSpec("P")
R = TypeVar("R")
First = TypeVar("First")


class _ByKeywords(Generic[P, R]):
    """``function``, which takes a request as its only argument."""

    def __init__(self, function: Callable[[RunRequest], R], commands: Sequence[str]) -> None:
        self._function = function
        self._commands = commands
        update_wrapper(self, function)
        self.__signature__ = signature_by(RunRequest, function)

    @overload
    def __call__(self, request: RunRequest, /) -> R: ...
    @overload
    def __call__(self, *args: P.args, **keywords: P.kwargs) -> R: ...
    def __call__(self, *args: object, **keywords: Any) -> R:
        return self._function(_request(self._commands, args, keywords))


def by_keywords(
    _record: Callable[P, RunRequest], *commands: str
) -> Callable[[Callable[[RunRequest], R]], _ByKeywords[P, R]]:
    """Have a function of a request take the request, or all that ``_record`` is made of. Raises InputError for what
    none of ``commands`` does."""
    return lambda function: _ByKeywords(function, commands)


def after_one(
    _record: Callable[P, RunRequest], *commands: str
) -> Callable[[Callable[[First, RunRequest], R]], Callable[Concatenate[First, P], R]]:
    """The same for a function that takes something before the request."""

    def wrap(function: Callable[[First, RunRequest], R]) -> Callable[Concatenate[First, P], R]:
        def called(first: First, /, *args: P.args, **keywords: P.kwargs) -> R:
            return function(first, _request(commands, args, keywords))

        update_wrapper(called, function)
        called.__signature__ = signature_by(RunRequest, function)  # type: ignore[attr-defined]
        return called

    return wrap


def _request(commands: Sequence[str], args: tuple[Any, ...], keywords: dict[str, Any]) -> RunRequest:
    check_names(RunRequest, keywords)
    if args and isinstance(first := args[0], RunRequest):
        request = replace(first, **keywords)
    else:
        request = RunRequest(*args, **keywords)
    if problems := list(others(request, commands)):
        raise InputError(problems)
    return request
