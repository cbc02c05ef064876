"""``agentv-sandbox.toml``: what the operator of a machine or project decides, over what suites ask for."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from agentv_sandbox.errors import InputError, Problem
from agentv_sandbox.models.image import ImageConfig

NAME = "agentv-sandbox.toml"


class Settings(BaseModel):
    """The whole file. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    image: ImageConfig = ImageConfig()
    runtime: str | None = None
    """OCI runtime of every container, unless the command line says otherwise."""
    require_tier: str | None = None
    """Weakest isolation in which anything is run; see ``--require-tier``."""


def load_settings(project_root: Path) -> Settings:
    """The file in ``project_root``; defaults where there is none. Raises InputError."""
    path = project_root / NAME
    if not path.is_file():
        return Settings()
    try:
        data: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError([Problem(path=path, message=f"not valid TOML: {error}")]) from error
    try:
        return TypeAdapter(Settings).validate_python(data)
    except ValidationError as error:
        raise InputError([
            Problem(path=path, field=".".join(map(str, row["loc"])), message=row["msg"]) for row in error.errors()
        ]) from error  # fmt: skip
