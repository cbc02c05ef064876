"""``agentv-sandbox clean``: what dead or kept runs left."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from agentv_sandbox.cli.common import out
from agentv_sandbox.engines import LABEL_OWNER, LABEL_RUN
from agentv_sandbox.engines.docker import find_engine
from agentv_sandbox.engines.owner import Owner


def clean(
    everything: Annotated[
        bool, typer.Option("--all", help="Also what runs that may still be going on own.")
    ] = False,
) -> None:
    """Remove containers, volumes and networks that earlier runs left."""
    engine = find_engine(os.environ)
    removed = 0
    for obj in engine.owned({LABEL_RUN: None}):
        if everything or not Owner.parse(obj.labels.get(LABEL_OWNER, "")).alive():
            engine.destroy(obj)
            out.print(f"removed {obj.kind} {obj.name}", markup=False)
            removed += 1
    out.print(f"{removed} removed" if removed else "nothing to remove", markup=False)
