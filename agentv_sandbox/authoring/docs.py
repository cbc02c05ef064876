"""How authoring models are read: other spellings, unknown keys, and pydantic's errors as problems.

A ``Doc`` is what a person writes; the records of ``models/`` are what it amounts to. The same models give
the JSON Schema for editors (``schema.py``).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, ClassVar, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, SkipValidation, ValidationError, model_validator
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import ErrorDetails
from pydantic_core.core_schema import ValidationInfo

from agentv_sandbox import masking
from agentv_sandbox.authoring.keydocs import key_docs
from agentv_sandbox.authoring.tree import Map, Node, Problems, Seq, nearest, show, without

Source = SkipJsonSchema[Annotated[Any, SkipValidation, Field(repr=False)]]


class Doc(BaseModel):
    """Base of the authoring models. Validate with ``read``, which passes the problem list as context."""

    # Of the many models a command uses few; to build all took a quarter of the time in which it starts.
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", defer_build=True)

    ALIASES: ClassVar[Mapping[str, str]] = {}
    """Other spellings of keys: written to canonical."""
    REMOVED: ClassVar[Mapping[str, str]] = {}
    """Keys that are refused, with what to write instead."""
    REPLACED: ClassVar[Mapping[str, str]] = {}
    """Fields that removed keys were written for: that one is missing then is not a second problem."""
    OTHERS: ClassVar[Mapping[str, str]] = {}
    """Words of other tools for what is written otherwise here, with what to write instead."""
    OPEN: ClassVar[bool] = False
    """Unknown keys are kept in ``extras`` (they are data for a program of the user's)."""

    src: Source = None
    """The ``Map`` this was read from, for positions."""
    extras: Source = None

    @model_validator(mode="before")
    @classmethod
    def _take(cls, data: Any, info: ValidationInfo) -> Any:
        if not isinstance(data, Map):
            return data
        problems = info.context
        assert isinstance(problems, Problems)
        entries: dict[str, Any] = {"src": data, "extras": {}}
        spelled: dict[str, str] = {}
        known = known_keys(cls)
        for written, value in data.items():
            key = known.get(written)
            if written in cls.REMOVED:
                problems.error(
                    data, written, f"'{written}' is not supported", hint=cls.removed(written, value)
                )
                problems.stands_for(data, cls.REPLACED.get(written, ""))
            elif key is None:
                cls._unknown(written, data, entries["extras"], problems)
            elif key in entries:
                if entries[key] == value:
                    continue
                problems.error(
                    data, written, f"'{written}' and '{spelled[key]}' are two spellings of one key"
                )
            elif value is None:
                problems.warn(data, written, "has no value; it counts as absent")
            else:
                entries[key] = value
                spelled[key] = written
        return entries

    @classmethod
    def removed(cls, key: str, _value: Any) -> str:
        """What to write instead of a key that is refused."""
        return cls.REMOVED[key]

    @classmethod
    def _unknown(cls, key: str, node: Map, extras: dict[str, Any], problems: Problems) -> None:
        if not cls.OPEN:
            problems.unknown_key(
                node, key, known_keys(cls), inside=_inside(cls).get(key, ""), instead=cls.OTHERS.get(key, "")
            )
            return
        extras[key] = node[key]
        meant = nearest(key, known_keys(cls))
        if (
            meant
            and meant not in node
            and meant in cls.model_fields
            and cls.model_fields[meant].is_required()
        ):
            problems.unknown_key(node, key, known_keys(cls))
        elif meant:
            problems.warn(node, key, f"'{key}' is passed on as config", hint=f"did you mean '{meant}'?")


@cache
def known_keys(model: type[Doc]) -> Mapping[str, str]:
    """Every key that may be written, with the field it fills."""
    fields = {name: name for name in model.model_fields if name not in ("src", "extras")}
    keys = {**fields, **{alias: name for alias, name in model.ALIASES.items() if name in fields}}
    return {key: name for key, name in keys.items() if key != "schema_uri"}


@cache
def _inside(model: type[Doc]) -> Mapping[str, str]:
    """Of each key that a key of ``model`` has below it, which: ``execution`` for ``trials``."""
    keys: dict[str, str] = {}
    for name, field in model.model_fields.items():
        if get_origin(field.annotation) is not list:
            for each in _docs_in(field.annotation):
                for key in known_keys(each):
                    keys.setdefault(key, name)
    return keys


def _docs_in(annotation: Any) -> Iterator[type[Doc]]:
    if isinstance(annotation, type) and issubclass(annotation, Doc):
        yield annotation
    for each in get_args(annotation):
        yield from _docs_in(each)


def _model_of(model: type[Doc], loc: tuple[str | int, ...]) -> type[Doc]:
    """The model below ``model`` whose field ends ``loc``."""
    for part, after in pairwise(loc):
        field = model.model_fields.get(part) if isinstance(part, str) else None
        below = list(_docs_in(field.annotation)) if field is not None else []
        model = next((each for each in below if after in each.model_fields), below[0] if below else model)
    return model


AnyDoc = TypeVar("AnyDoc", bound=Doc)


def read(model: type[AnyDoc], node: Map, problems: Problems) -> AnyDoc | None:
    """``node`` as ``model``. What does not fit is reported and left out, so that the rest can still be
    checked; None when the model cannot be made without it."""
    try:
        return model.model_validate(node, context=problems)
    except ValidationError as error:
        places = _report(error.errors(include_url=False), node, problems, model)
    rest: Any = without(node, places)
    for _ in range(len(node)):
        try:
            return model.model_validate(rest, context=Problems())
        except ValidationError as error:
            # What is left of a broken part may be broken in its turn (an empty list, a missing key), which is
            # no news: the whole top-level entry goes.
            keys = {_written(rest, str(row["loc"][0])) for row in error.errors() if row["loc"]}
            known = {(id(rest), key) for key in keys if key is not None}
            if not known:
                return None
            rest = without(rest, known)
    return None


Place = tuple[int, str | int | None]


def _report(errors: list[ErrorDetails], root: Node, problems: Problems, model: type[Doc]) -> set[Place]:
    """One problem a place, and the places. Alternatives of a union are joined; an error inside a container
    hides the complaint that the container itself is of another kind."""
    places: dict[Place, tuple[Node, list[ErrorDetails]]] = {}
    inner: set[int] = set()
    for error in errors:
        node, key = _place(root, error["loc"], inner, missing=error["type"] == "missing")
        places.setdefault((id(node), key), (node, []))[1].append(error)
    for (_, key), (node, details) in places.items():
        value = _value(node, key)
        if key is not None and isinstance(value, Map | Seq) and id(value) in inner:
            continue
        missing = any(error["type"] == "missing" for error in details)
        if missing and isinstance(key, str) and problems.is_misspelt(node, key):
            continue
        message, hint = explain(details, value)
        if missing and isinstance(node, Map) and (other := problems.instead(node)) is not None:
            hint = f"{show(other)} is not a key here: is it {key} under another name?"
        if missing and not hint:
            said = key_docs(_model_of(model, details[0]["loc"])).get(str(key), "")
            hint = f"write {key}: {_in_a_sentence(said)}" if said else ""
        problems.error(node, key, message, hint=_several(node, key, value) or hint)
    return set(places)


def _in_a_sentence(text: str) -> str:
    """``text`` without its capital, unless that is of an abbreviation."""
    return text if text[1:2].isupper() else text[0].lower() + text[1:]


def explain(errors: list[ErrorDetails], value: Any) -> tuple[str, str]:
    """Message and hint. A broken bound says more than another kind that was also possible."""
    kinds = list(dict.fromkeys(_KINDS[error["type"]] for error in errors if error["type"] in _KINDS))
    others = [error for error in errors if error["type"] not in _KINDS]
    if others:
        texts = dict.fromkeys(_message(error) for error in others)
        return ", or ".join(texts), _nearest_literal(others, value) or _share(others, value)
    return f"must be {' or '.join(kinds)}, found {show(value)}", _other_kind(kinds, value)


def _share(errors: list[ErrorDetails], value: Any) -> str:
    """A word on a percentage where a share is due."""
    most = next((each.get("ctx", {}).get("le") for each in errors if each["type"] == "less_than_equal"), None)
    is_share = (
        most == 1 and isinstance(value, int | float) and not isinstance(value, bool) and 1 < value <= 100
    )
    return f"a share: {value:g} % is {value / 100:g}" if is_share else ""


def _other_kind(kinds: list[str], value: Any) -> str:
    """What to write instead of a value of another kind."""
    hint = ""
    words = _words(value) if isinstance(value, str) and " " in value else []
    if "text" in kinds and isinstance(value, int | float) and not isinstance(value, bool):
        hint = f'write it in quotes: "{show(value)}"'
    elif _NUMBERS & set(kinds) and isinstance(value, str) and re.fullmatch(r"[0-9]+(\.[0-9]+)?", value):
        hint = f"write it without quotes: {value}"
    elif _NUMBERS & set(kinds) and isinstance(value, str):
        percent = re.fullmatch(r"([0-9]{1,3}) ?%", value.strip())
        has_digits = any(map(str.isdigit, value))
        hint = "write the number alone, without a unit; the key says which unit it has" if has_digits else ""
        hint = f"write it as a share: {int(percent[1]) / 100:g}" if percent is not None else hint
    elif kinds == ["text"] and isinstance(value, Seq) and value and all(isinstance(v, str) for v in value):
        hint = f"write it as one text: {show(' '.join(value))}"
    elif {"a list", "a mapping"} <= set(kinds) and isinstance(value, str) and _SETTING.fullmatch(value):
        name, _, text = value.partition("=")
        hint = f"write it as a mapping: {{{name}: {text}}}"
    elif "a list" in kinds and isinstance(value, str):
        hint = f"write it as a list: [{', '.join(map(show, words or [value]))}]"
    elif "a list" in kinds and isinstance(value, Map):
        hint = "begin each entry with a dash and a space"
    elif kinds == ["a mapping"]:
        hint = "write its keys below it, each with its value"
    return hint


def _several(node: Node, key: str | int | None, value: Any) -> str:
    """A word for those who give a list where one text, or a hook, is due, or a mapping where a list has a text."""
    if isinstance(node, Seq) and isinstance(value, Map):
        return _pair_in_list(node, value)
    if isinstance(value, Seq) and key in _OF_PACKAGES and all(isinstance(each, str) for each in value):
        pairs = ", ".join(f"{each}: {each}" for each in value[:3] if len(each) < 40)
        more = ", …" if len(value) > len(value[:3]) else ""
        return f"write {key}: {{{pairs}{more}}}: each name that is needed, with the package that provides it"
    if isinstance(value, Seq) and key in _OF_HOOKS:
        return f"write {{command: {_listed(value)}}}"
    kind = node.get("type") if isinstance(node, Map) and key == "value" and isinstance(value, Seq) else None
    return f"of several texts, {kind}-any wants one and {kind}-all wants each" if kind in _OF_ONE_TEXT else ""


def _pair_in_list(node: Seq, value: Map) -> str:
    """What to write where a colon made a mapping of an entry of a list of texts."""
    parent = node.where[1] if node.where is not None else None
    pairs = [(name, each) for name, each in value.items() if not isinstance(each, list | dict)]
    if len(pairs) != 1 or len(value) != 1:
        return ""
    (name, text), *_ = pairs
    written = masking.first(f"{name}: {'' if text is None else text}", 60).strip()
    if parent == "env":
        return f"write env as one mapping, with all of its entries: env: {{{written}, …}}"
    return f"in quotes it is a text: '{written}'"


def _listed(value: Seq) -> str:
    """A short list of short texts, else its beginning."""
    texts = [each for each in value[:4] if isinstance(each, str) and len(each) < 20]
    return f"[{', '.join([*texts, *(['…'] if len(value) > len(texts) else [])])}]"


def _words(text: str) -> list[str]:
    """The words of what looks like a command line; empty for other texts, and for one that a shell has to read."""
    if re.search(r"[|;&<>$`*?()\n]", text) or not re.match(r"(?:[\w.+-]*/)*[a-z][\w.+-]* ", text):
        return []
    try:
        words = shlex.split(text)
    except ValueError:
        return []
    known = any(re.search(r"\.\w{1,5}\Z|\A-", word) for word in words[1:])
    return words if known else []


_SETTING = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=[^\s'\"]*")
_OF_HOOKS = ("before_all", "before_each", "after_each", "after_all")
_OF_PACKAGES = ("apt", "pip", "sdist", "npm")
_OF_ONE_TEXT = ("contains", "icontains")


def _place(
    root: Node, loc: tuple[str | int, ...], passed: set[int], *, missing: bool
) -> tuple[Node, str | int | None]:
    """The deepest container of ``loc`` and the key in it; names of union members are skipped over. All
    containers on the way are added to ``passed``."""
    parent: Node = root
    key: str | int | None = None
    for part in loc:
        current = _value(parent, key)
        if isinstance(current, Seq) and isinstance(part, int) and part < len(current):
            parent, key = current, part
            passed.add(id(current))
        elif isinstance(current, Map) and isinstance(part, str):
            written = _written(current, part)
            if written is not None:
                parent, key = current, written
                passed.add(id(current))
    if missing:
        current = _value(parent, key)
        passed.add(id(current))
        return (current if isinstance(current, Map) else parent), loc[-1]
    return parent, key


def _value(node: Node, key: str | int | None) -> Any:
    if key is None:
        return node
    if isinstance(node, Map):
        return node.get(str(key))
    return node[key] if isinstance(key, int) and key < len(node) else None


@cache
def _all_aliases() -> Mapping[str, frozenset[str]]:
    spellings: dict[str, set[str]] = {}
    todo: list[type[Doc]] = [Doc]
    while todo:
        model = todo.pop()
        todo.extend(model.__subclasses__())
        for alias, name in model.ALIASES.items():
            spellings.setdefault(name, set()).add(alias)
    return {name: frozenset(aliases) for name, aliases in spellings.items()}


def _written(node: Map, name: str) -> str | None:
    if name in node:
        return name
    return next((alias for alias in _all_aliases().get(name, ()) if alias in node), None)


_NUMBERS = {"a whole number", "a number"}
_KINDS = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "dataclass_type": "a mapping",
    "is_instance_of": "a list",
    "model_attributes_type": "a mapping",
}
_BOUNDS = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}


def _message(error: ErrorDetails) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind == "missing":
        return "is required"
    if kind in _BOUNDS:
        name, words = _BOUNDS[kind]
        return f"must be {words} {context[name]:g}, found {show(error['input'])}"
    if kind in ("string_too_short", "too_short"):
        return "must not be empty"
    if kind == "too_long":
        return f"must have at most {context['max_length']} items"
    if kind == "literal_error":
        return f"must be {context['expected']}, found {show(error['input'])}"
    if kind in ("extra_forbidden", "unexpected_keyword_argument"):
        return "is not a known key here"
    return error["msg"].removeprefix("Value error, ")


def _nearest_literal(errors: list[ErrorDetails], value: Any) -> str:
    if not isinstance(value, str):
        return ""
    literals = [
        error.get("ctx", {}).get("expected", "") for error in errors if error["type"] == "literal_error"
    ]
    meant = nearest(value, re.findall(r"'([^']+)'", " ".join(literals)))
    return f"did you mean '{meant}'?" if meant else ""
