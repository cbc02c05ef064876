"""``dataclass`` as the standard library's, whose methods are made when the first object is.

There, each class compiles four to six functions when its module is imported, which takes a millisecond of a processor;
hundreds of classes made that a third of what ``validate`` of a small suite took, and most of them never have an object
in one command. Here ``__init__`` is compiled at the first call, and the rest is shared by all classes.
``fields``, ``replace``, ``asdict`` and ``is_dataclass`` see what they know. Fields of the type ``InitVar`` are not
supported; classes with an order, with slots or below another dataclass are left to the standard library.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, fields, is_dataclass
from dataclasses import dataclass as eagerly
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, kw_only=False, eq=True, repr=True, order=False, slots=False):
        """As the standard library's."""
        chosen = {"frozen": frozen, "kw_only": kw_only, "eq": eq, "repr": repr}

        def made(cls):
            if order or slots or any(map(is_dataclass, cls.__bases__)):
                return eagerly(order=order, slots=slots, **chosen)(cls)
            return _made(cls, **chosen)

        return made if cls is None else made(cls)


def _made(cls: type, *, frozen: bool, kw_only: bool, eq: bool, repr: bool) -> object:
    own: dict[str, Any] = {"__init__": _first_init(cls), "__signature__": _Signature()}
    if repr:
        own["__repr__"] = _repr
    if eq:
        own["__eq__"] = _eq
        own["__hash__"] = _hash if frozen else None
    if frozen:
        own |= {"__setattr__": _unassignable(cls), "__delattr__": _undeletable(cls)}
    for name, value in own.items():
        # As there: what the class defines itself stays, but what makes and freezes its objects.
        if name in ("__init__", "__signature__") or name not in cls.__dict__ or _from_eq(cls, name):
            setattr(cls, name, value)
    cls.__doc__ = cls.__doc__ or cls.__name__  # or the standard library writes a signature there
    made: Any = eagerly(init=False, repr=False, eq=False, kw_only=kw_only)(cls)
    made.__dataclass_params__.frozen = frozen  # classes below it have to be, too
    return made


def _from_eq(cls: type, name: str) -> bool:
    """Whether Python itself has put it there: a class that defines how it is equal has no hash."""
    return name == "__hash__" and cls.__dict__[name] is None and "__eq__" in cls.__dict__


def _first_init(cls: type) -> Callable[..., None]:
    def __init__(self: object, *values: Any, **named: Any) -> None:
        made = _init_of(cls)
        cls.__init__ = made  # type: ignore[misc]
        made(self, *values, **named)

    return __init__


def _init_of(cls: type) -> Callable[..., None]:
    """``__init__``, which writes below ``__setattr__``, so that it serves frozen classes, too. Names that are not of
    fields begin with two underscores."""
    given = sorted((each for each in fields(cls) if each.init), key=lambda each: bool(each.kw_only))
    names: dict[str, Any] = {"__MISSING": MISSING}
    parameters, lines = ["self"], ["__own = self.__dict__"]
    for each in given:
        if each.kw_only and "*" not in parameters:
            parameters.append("*")
        parameters.append(f"{each.name}{_default(each, names)}")
    for each in fields(cls):
        value = each.name
        if each.default_factory is not MISSING:
            names[f"__make_{each.name}"] = each.default_factory
            value = f"__make_{each.name}()"
            if each.init:
                value += f" if {each.name} is __MISSING else {each.name}"
        elif not each.init:
            continue
        lines.append(f"__own[{each.name!r}] = {value}")
    if hasattr(cls, "__post_init__"):
        lines.append("self.__post_init__()")
    text = f"def __init__({', '.join(parameters)}):\n    " + "\n    ".join(lines)
    exec(text, names)  # noqa: S102  of names of fields alone, as the standard library does
    init: Callable[..., None] = names["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__module__ = cls.__module__
    return init


def _default(field: Field[object], names: dict[str, object]) -> str:
    """What follows a parameter's name."""
    if field.default_factory is not MISSING:
        return "=__MISSING"
    if field.default is MISSING:
        return ""
    names[f"__default_{field.name}"] = field.default
    return f"=__default_{field.name}"


class _Signature:
    """``inspect.signature`` of a class is that of its ``__init__``, once it is made."""

    def __get__(self, _instance: object, cls: type) -> inspect.Signature:
        made = inspect.signature(_init_of(cls))
        types = {each.name: each.type for each in fields(cls)}
        return made.replace(
            parameters=[
                each.replace(annotation=types[name])
                for name, each in made.parameters.items()
                if name != "self"
            ]
        )


_values: dict[type, Callable[[object], tuple[object, ...]]] = {}


def _values_of(cls: Any) -> Callable[[Any], tuple[Any, ...]]:
    """What gives the values of an object by which it is equal to another."""
    if (known := _values.get(cls)) is None:
        names = [each.name for each in fields(cls) if each.compare]
        known = (
            attrgetter(*names) if len(names) > 1 else lambda one: tuple(getattr(one, name) for name in names)
        )
        _values[cls] = known
    return known


def _eq(self: Any, other: object) -> object:
    if other.__class__ is not self.__class__:
        return NotImplemented
    values = _values_of(self.__class__)
    return values(self) == values(other)


def _hash(self: Any) -> int:
    return hash(_values_of(self.__class__)(self))


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _unassignable(cls: Any) -> Callable[..., None]:
    def __setattr__(self: object, name: str, value: object) -> None:
        if type(self) is cls or name in cls.__dataclass_fields__:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    return __setattr__


def _undeletable(cls: Any) -> Callable[..., None]:
    def __delattr__(self: object, name: str) -> None:
        if type(self) is cls or name in cls.__dataclass_fields__:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return __delattr__


__all__ = ["dataclass"]
