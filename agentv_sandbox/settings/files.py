"""One file of settings: read within bounds, checked, and with the places of its keys."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from agentv_sandbox.authoring.docs import explain
from agentv_sandbox.base.errors import InputError, Problem
from agentv_sandbox.models.image import ImageConfig
from agentv_sandbox.settings.model import Ceiling, Settings, all_keys

NAME = "agentv-sandbox.toml"
_FORM = "a setting is a line such as require_tier = 1, texts stand in double quotes"
_MOST_BYTES = 1 << 20
_LONGEST_KEY = 300
"""Characters of a line in which its key is looked for."""

TABLES: Mapping[str, Iterable[str]] = {
    "": Settings.model_fields,
    "ceiling": Ceiling.model_fields,
    "image": ImageConfig.__dataclass_fields__,
}
"""Known keys of each table."""


@dataclass(frozen=True, kw_only=True)
class SettingsFile:
    """What a file says; nothing where there is none."""

    path: Path
    settings: Settings = Settings()
    written: Mapping[str, Any] = field(default_factory=dict)
    """What stands in the file, by keys as ``all_keys`` names them."""
    text: str = ""

    def problem(self, key: str, message: str, *, hint: str = "") -> Problem:
        """A problem of ``key``, with its place."""
        line = _line(self.text, key.split("."))
        return Problem(path=self.path, line=line, field=key, message=message, hint=hint)


def read_file(path: Path) -> SettingsFile:
    """The file at ``path``, which need not be there. Raises InputError."""
    data = regular_file(path, _MOST_BYTES)
    if data is None:
        return SettingsFile(path=path)
    try:
        text = data.decode("utf-8")
        values: dict[str, Any] = tomllib.loads(text)
        settings = TypeAdapter(Settings).validate_python(values)
    except UnicodeDecodeError as error:
        raise InputError([Problem(path=path, message="is not UTF-8 text")]) from error
    except ValidationError as error:
        raise InputError([_problem(path, text, row) for row in error.errors()]) from error
    except (ValueError, RecursionError) as error:  # also of numbers with too many digits
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise InputError([Problem(path=path, message=f"is not valid TOML: {reason}", hint=_FORM)]) from error
    if settings.image.keyring is not None:
        keyring = path.parent / settings.image.keyring
        settings = settings.model_copy(update={"image": replace(settings.image, keyring=keyring)})
    return SettingsFile(path=path, settings=settings, written=_by_key(values), text=text)


def regular_file(path: Path, most: int) -> bytes | None:
    """The content of ``path``, None where nothing has that name. Raises InputError for anything but a regular file of
    at most ``most`` bytes: a file that came with a project may be a pipe that never ends."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError as error:
        if isinstance(error, FileNotFoundError | NotADirectoryError) and not path.is_symlink():
            return None
        raise InputError([Problem(path=path, message=f"cannot be read: {error.strerror}")]) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise InputError([Problem(path=path, message="is not a regular file")])
    with os.fdopen(descriptor, "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise InputError([Problem(path=path, message=f"is larger than {most >> 20} MiB")])
    return data


def _by_key(values: Mapping[str, Any]) -> dict[str, Any]:
    tables = {key.partition(".")[0] for key in all_keys() if "." in key}
    written = {key: value for key, value in values.items() if key not in tables}
    inner = ((table, values.get(table, {})) for table in tables)
    return written | {f"{table}.{key}": value for table, keys in inner for key, value in keys.items()}


def _problem(path: Path, text: str, row: ErrorDetails) -> Problem:
    message, hint = explain([row], row["input"])
    loc = [str(part) for part in row["loc"]]
    if row["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        hint = f"known here: {', '.join(TABLES.get(loc[0] if loc[1:] else '', ()))}"
    return Problem(path=path, line=_line(text, loc), field=".".join(loc), message=message, hint=hint)


def _line(text: str, loc: Sequence[str]) -> int | None:
    """Where the key at ``loc`` is written, as far as it is written in the usual way; the parser does not say."""
    table: list[str] = []
    for number, whole in enumerate(text.splitlines(), 1):
        line = whole[:_LONGEST_KEY]
        if header := re.match(r"\s*\[([^\[\]]+)\]", line):
            table = [part.strip(" '\"") for part in header[1].split(".")]
        elif key := re.match(r"\s*([\w.'\" -]+?)\s*=", line):
            place = [*table, *(part.strip(" '\"") for part in key[1].split("."))]
            if place == list(loc[: len(place)]):
                return number
    return None
