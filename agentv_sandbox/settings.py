"""``agentv-sandbox.toml``: what the operator of a machine or project decides, over what suites ask for."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    TypeAdapter,
    ValidationError,
    WithJsonSchema,
)
from pydantic_core import ErrorDetails

from agentv_sandbox.authoring.docs import explain
from agentv_sandbox.egress import Way
from agentv_sandbox.engines.table import ENGINES, known_kind
from agentv_sandbox.engines.tier import Level
from agentv_sandbox.errors import InputError, Problem
from agentv_sandbox.loading.schema import DIALECT, Schema, describe, tidy
from agentv_sandbox.loading.suite_docs import SIZE_SCHEMA, parse_size
from agentv_sandbox.models.image import ImageConfig
from agentv_sandbox.models.suite import LimitOverrides, Suite

NAME = "agentv-sandbox.toml"

Size = Annotated[int, BeforeValidator(parse_size), WithJsonSchema(SIZE_SCHEMA)]
EngineName = Annotated[
    str, AfterValidator(known_kind), WithJsonSchema({"type": "string", "enum": list(ENGINES)})
]
Amount = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Ceiling(BaseModel):
    """Highest values that a suite, a target or the command line may ask for; names as in a suite's ``limits``."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    memory: Size | None = None
    """Memory of a container."""
    cpus: Amount | None = None
    """Processors of a container."""
    pids: Annotated[int, Field(gt=0)] | None = None
    """Processes of a container."""
    timeout_seconds: Amount | None = None
    """Time of one command."""
    workspace_size: Size | None = None
    """Bytes of the workspace."""
    workspace_files: Annotated[int, Field(gt=0)] | None = None
    """Files of the workspace."""
    output_size: Size | None = None
    """Bytes of standard output and standard error that are kept, each."""
    tmp_size: Size | None = None
    """Bytes of `/tmp`, which is also `HOME`."""

    def limits(self) -> LimitOverrides:
        return LimitOverrides(
            memory_bytes=self.memory,
            cpus=self.cpus,
            pids=self.pids,
            timeout_s=self.timeout_seconds,
            workspace_bytes=self.workspace_size,
            workspace_inodes=self.workspace_files,
            output_bytes=self.output_size,
            tmp_bytes=self.tmp_size,
        )


class Settings(BaseModel):
    """The whole file. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    image: ImageConfig = ImageConfig()
    """How images are made."""
    engine: EngineName | None = None
    """Kind of engine; ``--engine`` wins. Without one, the first that answers."""
    runtime: str | None = None
    """OCI runtime of every container; ``--runtime`` wins. Without one, the engine's."""
    require_tier: Level | None = None
    """Weakest isolation in which anything is run; ``--require-tier`` wins."""
    egress: Way = "auto"
    """How containers reach the egress proxy: by a ``socket`` that they share with this machine, or over a ``relay``, a
    container that carries it; ``auto`` tries the socket once a run."""
    ceiling: Ceiling = Ceiling()
    """Highest values of `limits` in a suite, a target or on the command line, with the same names."""
    private_results: bool = False
    """Run folders can be entered by their owner alone, whatever the umask says."""


_TABLES: Mapping[str, Iterable[str]] = {
    "": Settings.model_fields,
    "ceiling": Ceiling.model_fields,
    "image": ImageConfig.__dataclass_fields__,
}
"""Known keys of each table."""


def settings_schema() -> Schema:
    """The JSON Schema of the file, for editors."""
    top: Schema = Settings.model_json_schema(ref_template="#/$defs/{model}")
    definitions: Schema = top.pop("$defs")
    for part, model in (
        (top, Settings),
        (definitions["Ceiling"], Ceiling),
        (definitions["ImageConfig"], ImageConfig),
    ):
        describe(part["properties"], model)
        part["additionalProperties"] = False
        part["description"] = part["description"].replace("``", "`")
        del part["title"]
    for table in _TABLES:
        top["properties"].get(table, {}).pop("default", None)
    return {
        "$schema": DIALECT,
        "title": f"{NAME}, settings of agentv-sandbox",
        **tidy(top),
        "$defs": tidy(definitions),
    }


def load_settings(project_root: Path) -> Settings:
    """The file in ``project_root``; defaults where there is none. Raises InputError."""
    path = project_root / NAME
    if not path.is_file():
        return Settings()
    try:
        text = path.read_text("utf-8")
        data: dict[str, Any] = tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise InputError([Problem(path=path, message="is not UTF-8 text")]) from error
    except tomllib.TOMLDecodeError as error:
        raise InputError([Problem(path=path, message=f"is not valid TOML: {error}")]) from error
    try:
        return TypeAdapter(Settings).validate_python(data)
    except ValidationError as error:
        raise InputError([_problem(path, text, row) for row in error.errors()]) from error


def _problem(path: Path, text: str, row: ErrorDetails) -> Problem:
    message, hint = explain([row], row["input"])
    loc = [str(part) for part in row["loc"]]
    if row["type"] in ("extra_forbidden", "unexpected_keyword_argument"):
        hint = f"known here: {', '.join(_TABLES.get(loc[0] if loc[1:] else '', ()))}"
    return Problem(path=path, line=_line(text, loc), field=".".join(loc), message=message, hint=hint)


def _line(text: str, loc: Sequence[str]) -> int | None:
    """Where the key at ``loc`` is written, as far as it is written in the usual way; the parser does not say."""
    table: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if header := re.match(r"\s*\[([^\[\]]+)\]", line):
            table = [part.strip(" '\"") for part in header[1].split(".")]
        elif key := re.match(r"\s*([\w.'\" -]+?)\s*=", line):
            place = [*table, *(part.strip(" '\"") for part in key[1].split("."))]
            if place == list(loc[: len(place)]):
                return number
    return None


def check_ceiling(suites: Sequence[Suite], asked: LimitOverrides, ceiling: Ceiling) -> None:
    """Raises InputError with everything that suites, targets or the command line ask for beyond the ceiling."""
    top = ceiling.limits()
    problems = list(_over(asked, top, Problem(message="", field="command line")))
    for suite in suites:
        problems += _over(suite.limits, top, Problem(message="", path=suite.path, field="limits"))
        for target in suite.targets.values():
            at = target.position
            where = Problem(
                message="",
                path=at.path if at else suite.path,
                line=at.line if at else None,
                field=f"target {target.name}: limits",
            )
            problems += _over(target.limits, top, where)
    if problems:
        raise InputError(list(dict.fromkeys(problems)))


def _size(number: float) -> str:
    """The size as people write it."""
    for letter, scale in (("g", 1 << 30), ("m", 1 << 20), ("k", 1 << 10)):
        if number >= scale:
            return f"{number / scale:.4g}{letter}"
    return f"{number:g}"


_KEYS: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "memory_bytes": ("memory", _size),
    "cpus": ("cpus", "{:g}".format),
    "pids": ("pids", str),
    "timeout_s": ("timeout_seconds", "{:g}".format),
    "workspace_bytes": ("workspace_size", _size),
    "workspace_inodes": ("workspace_files", str),
    "output_bytes": ("output_size", _size),
    "tmp_bytes": ("tmp_size", _size),
}
"""How a limit is written in suites, and how its values are."""


def _over(asked: LimitOverrides, top: LimitOverrides, where: Problem) -> Iterator[Problem]:
    for field in fields(LimitOverrides):
        wanted, most = getattr(asked, field.name), getattr(top, field.name)
        if wanted is not None and most is not None and wanted > most:
            key, shown = _KEYS[field.name]
            message = f"{key} {shown(wanted)} is more than the operator's ceiling of {shown(most)}"
            yield Problem(
                path=where.path,
                line=where.line,
                field=where.field,
                message=message,
                hint=f"{NAME} of the project sets the ceiling.",
            )
