"""Frozen records to JSON and back, by their fields: the one place that knows what a type looks like as JSON.

Texts, numbers, lists (tuples here), mappings and records are as JSON has them; keys are names of fields, or what their
metadata says. What a record does not know is left out, and what has another type than its field says is named.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from agentv_sandbox.models.json.untrusted import count
from agentv_sandbox.models.json.value import Json

MAX_COUNT = 1 << 53
"""Whole numbers are below it: every reader of JSON takes them for what they are."""
ALWAYS: Mapping[str, Any] = {"wire": "always"}
"""Metadata of a field that is written also where it is empty."""
REST: Mapping[str, Any] = {"wire": "rest"}
"""Metadata of a field that holds all of the mapping that was read, without what has a wrong type."""
NEVER: Mapping[str, Any] = {"wire": "never"}
"""Metadata of a field that is neither written nor read."""

_T = TypeVar("_T")
_Made = TypeVar("_Made")
_NOT_ONE = object()
_EMPTY: Sequence[Any] = ("", (), [], {})


def _once_a_kind(make: Callable[[Any], _Made]) -> Callable[[Any], _Made]:
    """``make`` of a class of records, the result kept."""
    made: dict[Any, _Made] = {}

    @functools.wraps(make)
    def known(kind: Any) -> _Made:
        if kind not in made:
            made[kind] = make(kind)
        return made[kind]

    return known


class Found:
    """What was not as a record has it."""

    def __init__(self, *, skips: bool = False) -> None:
        """``skips``: as strangers' JSON is read: counts have the bound of theirs, and lists and mappings leave out what
        has another type."""
        self.skips = skips
        self.wrong: list[str] = []
        """Keys whose values have another type; ``[]`` stands for the members of a list."""
        self.missing: list[str] = []
        """Keys without which it is not such a record."""


_Read = Callable[[Any, Found, str], Any]


def read(kind: type[_T], value: Mapping[str, Json], found: Found, at: str = "") -> _T:
    """The record in ``value``. A value of the wrong type counts as if it was not there; where a field must be there, it
    is empty, or the last that it may be; null is not there. ``at``: of the keys in ``found``."""
    if found.skips and hasattr(kind, "CAMEL"):
        return _skimmed(kind, value, found)
    values: dict[str, Any] = {}
    for name, key, one_of, empty in _plan(kind):
        given = value.get(key)
        if given is not None:
            result = one_of(given, found, f"{at}{key}")
            if result is not _NOT_ONE:
                values[name] = result
                continue
            found.wrong.append(f"{at}{key}")
        if empty is not _NOT_ONE:
            found.missing.append(f"{at}{key}")
            values[name] = empty
    if (rest := _rest(kind)) is not None:
        wrong = {key for key in found.wrong if not at}
        values[rest] = {key: each for key, each in value.items() if key not in wrong} if wrong else value
    return kind(**values)


def _skimmed(kind: type[_T], value: Mapping[str, Json], found: Found) -> _T:
    """The same of a ``JsonRecord``, of which streams have very many: most of its keys are missing."""
    readers, values = _skim_plan(kind)
    values = dict(values)
    for key, given in value.items():
        if given is not None:
            for name, one_of in readers.get(key, ()):
                if (result := one_of(given, found, "")) is not _NOT_ONE:
                    values[name] = result
    if (rest := _rest(kind)) is not None:
        values[rest] = value
    record = object.__new__(kind)
    record.__dict__.update(values)
    return record


def read_exactly(kind: type[_T], value: Json) -> _T:
    """The same of a value that must be such a record. Raises ValueError."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{type(value).__name__} where a {kind.__name__} should be")
    record = read(kind, value, found := Found())
    if found.wrong or found.missing:
        raise ValueError(f"a {kind.__name__} whose {', '.join((*found.wrong, *found.missing))} is not one")
    return record


def written(record: Any) -> dict[str, Json]:
    """``record`` as JSON, without what is unknown (None) or empty though it may be left out."""
    values: dict[str, Json] = {}
    for name, always in _pen(type(record)):
        value = getattr(record, name)
        if value is not None and (always or value not in _EMPTY):
            values[name] = _written(value)
    return values


def keys(kind: type) -> list[str]:
    """The keys that a record is written with."""
    return [name for name, _ in _pen(kind)]


@_once_a_kind
def _pen(kind: type) -> Sequence[tuple[str, bool]]:
    """Name of each field, and whether it is written where it is empty."""
    return [
        (each.name, each.metadata.get("wire") == "always" or not _has_default(each))
        for each in fields(kind)
        if each.metadata.get("wire") not in ("never", "rest")
    ]


def _written(value: Any) -> Json:
    if is_dataclass(value):
        return written(value)
    if isinstance(value, Mapping):
        return dict(value)
    return [_written(each) for each in value] if isinstance(value, list | tuple) else value


@_once_a_kind
def _plan(kind: type) -> Sequence[tuple[str, str, _Read, Any]]:
    """Name, key, reader and, where there is no default, the empty value of each field."""
    hints = get_type_hints(kind)
    return [
        (each.name, _key(kind, each), _reader(hints[each.name]), _empty(each, hints[each.name]))
        for each in fields(kind)
        if each.metadata.get("wire") not in ("never", "rest")
    ]


@_once_a_kind
def _skim_plan(kind: type) -> tuple[Mapping[str, list[tuple[str, _Read]]], Mapping[str, Any]]:
    """Name and reader of each field by its key, and what is where nothing is read."""
    readers: dict[str, list[tuple[str, _Read]]] = {}
    for name, key, one_of, _ in _plan(kind):
        outer, _, inner = key.partition("/")
        readers.setdefault(outer, []).append((name, _inside(inner, one_of) if inner else one_of))
    return readers, {name: empty for name, _, _, empty in _plan(kind)}


def _inside(key: str, one_of: _Read) -> _Read:
    def read_inside(value: Any, found: Found, at: str) -> Any:
        inner = value.get(key) if isinstance(value, Mapping) else None
        return _NOT_ONE if inner is None else one_of(inner, found, at)

    return read_inside


@_once_a_kind
def _rest(kind: type) -> str | None:
    return next((each.name for each in fields(kind) if each.metadata.get("wire") == "rest"), None)


def _key(kind: type, each: Field[Any]) -> str:
    own, words = each.name, "".join(map(str.capitalize, each.name.split("_")))
    if getattr(kind, "PASCAL", False):
        own = words
    elif getattr(kind, "CAMEL", False):
        own = words[0].lower() + words[1:]
    return str(each.metadata.get("key", own))


def _has_default(each: Field[Any]) -> bool:
    return each.default is not MISSING or each.default_factory is not MISSING


def _empty(each: Field[Any], hint: Any) -> Any:
    if _has_default(each):
        return _NOT_ONE
    if get_origin(hint) is Literal:
        return get_args(hint)[-1]
    if is_dataclass(hint) and isinstance(hint, type):
        return read(hint, {}, Found())
    if hint in (Any, object) or NoneType in get_args(hint):
        return None
    return hint() if hint in (str, int, float, bool) else {} if get_origin(hint) is Mapping else ()


def _reader(hint: Any) -> _Read:
    origin, args = get_origin(hint), get_args(hint)
    if hint in (Any, object):
        return lambda value, _found, _at: value
    # Made once for each record, so that reading a row asks no type about itself.
    if origin in (Union, UnionType):
        kinds = [arg for arg in args if arg is not NoneType]
        return _reader(kinds[0]) if len(kinds) == 1 else _any_of(kinds)
    if origin is Literal:
        return lambda value, _found, _at: value if isinstance(value, str) and value in args else _NOT_ONE
    if origin is tuple:
        return _list_of(args[0])
    if origin is not None and issubclass(origin, Mapping):
        return _mapping_of(args[1])
    if isinstance(hint, type) and is_dataclass(hint):
        return lambda value, found, at: (
            read(hint, value, found, f"{at}.") if isinstance(value, Mapping) else _NOT_ONE
        )
    return _SCALARS[hint]


def _any_of(kinds: Sequence[Any]) -> _Read:
    readers = [_reader(kind) for kind in kinds]

    def read_any(value: Any, found: Found, at: str) -> Any:
        results = (reader(value, found, at) for reader in readers)
        return next((result for result in results if result is not _NOT_ONE), _NOT_ONE)

    return read_any


def _list_of(hint: Any) -> _Read:
    of_item, may_be_none = _reader(hint), NoneType in get_args(hint)

    def read_list(value: Any, found: Found, at: str) -> Any:
        if not isinstance(value, list | tuple):
            return _NOT_ONE
        items = [None if each is None and may_be_none else of_item(each, found, f"{at}[]") for each in value]
        if found.skips:
            return tuple(item for item in items if item is not _NOT_ONE)
        return _NOT_ONE if _NOT_ONE in items else tuple(items)

    return read_list


def _mapping_of(hint: Any) -> _Read:
    if hint in (Any, object):
        return _is(Mapping)
    of_item = _reader(hint)

    def read_mapping(value: Any, found: Found, at: str) -> Any:
        if not isinstance(value, Mapping):
            return _NOT_ONE
        items = {key: of_item(each, found, at) for key, each in value.items()}
        if found.skips:
            return {key: item for key, item in items.items() if item is not _NOT_ONE}
        return _NOT_ONE if _NOT_ONE in items.values() else items

    return read_mapping


def _is(*kinds: type) -> _Read:
    return lambda value, _found, _at: value if isinstance(value, kinds) else _NOT_ONE


def _number(value: Any, _found: Found, _at: str) -> Any:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else _NOT_ONE


def _count(value: Any, found: Found, _at: str) -> Any:
    if found.skips:
        return _NOT_ONE if (known := count(value)) is None else known
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_COUNT
    return value if is_count else _NOT_ONE


_SCALARS: Mapping[Any, _Read] = {str: _is(str), bool: _is(bool), float: _number, int: _count}

__all__ = ["ALWAYS", "NEVER", "Found", "read", "read_exactly", "written"]
