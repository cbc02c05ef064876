"""Commands that take a request: their options are made from its fields."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from agentv_sandbox.cli.completing import completed
from agentv_sandbox.request import RunRequest
from agentv_sandbox.request.asked import options_of
from agentv_sandbox.request.option import Option


def asks(*commands: str) -> Callable[[Callable[..., int | None]], Callable[..., int | None]]:
    """Give a function ``(request, ...)`` the options that any of ``commands`` takes, in the place of the request."""

    def wrap(function: Callable[..., int | None]) -> Callable[..., int | None]:
        known = (each for command in commands for each in options_of(command))
        taken = {_parameter(option): (name, option) for name, option in known}
        hints = get_type_hints(function, include_extras=True)
        own = [each.replace(annotation=hints[each.name]) for each in _after_first(function)]
        made = [
            inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
            for key, (annotation, default) in ((key, _typed(*each)) for key, each in taken.items())
        ]
        arguments = [each for each in own if each.default is each.empty]
        others = [each for each in own if each.default is not each.empty]

        @wraps(function)
        def called(*arguments: Any, **values: Any) -> int | None:
            asked = {name: values.pop(key, None) for key, (name, _) in taken.items()}
            values |= dict(zip((each.name for each in own), arguments, strict=False))
            return function(_request(asked), **values)

        parameters = [
            each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*arguments, *made, *others)
        ]
        called.__signature__ = inspect.Signature(parameters, return_annotation=int | None)  # type: ignore[attr-defined]
        called.__annotations__ = {each.name: each.annotation for each in parameters}
        return called

    return wrap


def _after_first(function: Callable[..., int | None]) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())[1:]


def _parameter(option: Option) -> str:
    """Name of the parameter that stands for ``option``."""
    return option.name.removeprefix("--").replace("-", "_")


_DEFAULTS = {each.name: each.default for each in fields(RunRequest)}


def _typed(name: str, option: Option) -> tuple[Any, Any]:
    """Annotation and default of the parameter for the field ``name``."""
    default = None if option.many else _DEFAULTS.get(name)
    told: dict[str, Any] = {
        "help": option.sentence,
        "show_default": option.default_text or default not in (None, False),
        "rich_help_panel": option.group or None,
    }
    if not option.metavar:
        return Annotated[bool, typer.Option(*option.flags, **told)], default
    told["metavar"] = option.metavar
    if option.values:
        told["autocompletion"] = completed(option.values)
    if option.many:
        return Annotated[list[str] | None, typer.Option(*option.flags, **told)], default
    if option.is_path:
        return Annotated[Path | None, typer.Option(*option.flags, **told)], default
    return Annotated[str | None, typer.Option(*option.flags, parser=parser(option.read), **told)], default


def parser(read: Callable[[object], object]) -> Callable[[str], Any]:
    """``read`` as the command line calls it."""

    def parse(value: str) -> Any:
        try:
            return read(value)
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    return parse


def _request(values: dict[str, Any]) -> RunRequest:
    """``values`` by the names of fields, dotted in a record inside."""
    plain = {name: value for name, value in values.items() if "." not in name and value is not None}
    limits = {name.partition(".")[2]: value for name, value in values.items() if "." in name}
    return RunRequest(**plain, limits=replace(RunRequest().limits, **limits))
