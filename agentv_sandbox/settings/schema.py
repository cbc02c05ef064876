"""The JSON Schema of ``agentv-sandbox.toml``, for editors."""

from __future__ import annotations

from agentv_sandbox.loading.schema import DIALECT, Schema, describe, tidy
from agentv_sandbox.models.image import ImageConfig
from agentv_sandbox.settings.files import NAME, TABLES
from agentv_sandbox.settings.model import Ceiling, Settings


def settings_schema() -> Schema:
    """The JSON Schema of the file."""
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
    for table in TABLES:
        top["properties"].get(table, {}).pop("default", None)
    return {
        "$schema": DIALECT,
        "title": f"{NAME}, settings of agentv-sandbox",
        **tidy(top),
        "$defs": tidy(definitions),
    }
