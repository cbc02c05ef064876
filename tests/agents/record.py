"""Run the real programs and write what they did: ``make recordings``, which is

    python -m tests.agents.record [NAME…]

Needs the native engine (root, or as docs/reference/engines.md says), AgentV and network for the image. NAME: kinds of
agents, and comparisons with AgentV; without one all.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from .capture import CapturingEngine, run_live
from .harness import KEY, PACKAGES, Agent, made_for, stand_ins, variables, write_project
from .model_server import ModelServer
from .parity import Comparison
from .recording import FOLDER, write
from .scripts import scripts

Make = Callable[[Path], Mapping[str, Any]]


def record_agent(agent: Agent, folder: Path) -> Mapping[str, Any]:
    """All tests of ``agent`` with the real program."""
    write_project(agent, folder)
    engine = CapturingEngine()
    with ModelServer(scripts(skills=f"/workspace/{agent.skills}", key=KEY), key=KEY) as server:
        run_live(folder, engine, variables(agent, server))
        return {"made_for": made_for(agent), "sessions": engine.sessions(stand_ins(server))}


def record_comparison(comparison: Comparison, folder: Path) -> Mapping[str, Any]:
    return comparison.record(folder, CapturingEngine())


def makers() -> dict[str, Make]:
    """What makes each recording, by its name."""
    made: dict[str, Make] = {}
    for kind in PACKAGES:
        module = import_module(f".test_{kind}", __package__)
        agent: Agent = getattr(module, f"Test{kind.capitalize()}").agent
        made[kind] = lambda folder, agent=agent: record_agent(agent, folder)  # type: ignore[misc]
    for name in ("test_parity", "test_parity_copilot_pi"):
        comparison: Comparison = import_module(f".{name}", __package__).COMPARISON
        made[comparison.name] = lambda folder, what=comparison: record_comparison(what, folder)  # type: ignore[misc]
    return made


def main(names: list[str]) -> int:
    known = makers()
    if unknown := [name for name in names if name not in known]:
        print(f"error: no recording is called {', '.join(unknown)}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    for name in names or known:
        print(f"== {name}", flush=True)
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix=f"recording-{name}-") as folder:
            path = FOLDER / f"{name}.json"
            write(path, known[name](Path(folder)))
        print(f"   {path.stat().st_size >> 10} KiB in {time.monotonic() - began:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    status = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(status)  # servers of models may still be waiting, as a script said
