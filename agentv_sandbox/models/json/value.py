"""The type of a JSON value, where nothing more is known of it."""

from __future__ import annotations

from typing import Any

Json = Any
"""A JSON value: dict, list, str, int, float, bool or None."""


def defined(**values: Json) -> dict[str, Json]:
    """The keyword arguments that are not ``None``."""
    return {key: value for key, value in values.items() if value is not None}
