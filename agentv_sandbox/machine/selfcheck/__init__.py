"""The attack suite against the user's own engine: what would a hostile agent get here?

Every attack runs under the very policy of a real run. A report without failures says that each of them was
contained; it does not say that no other attack exists.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from agentv_sandbox.containers.sandbox import Sandbox
from agentv_sandbox.engines.tier import tier
from agentv_sandbox.machine.selfcheck import (
    artifacts,
    host,
    models,
    network,
    resources,
    surface,
    systems,
)
from agentv_sandbox.machine.selfcheck.report import Attack, Report
from agentv_sandbox.machine.selfcheck.resources import Bench

__all__ = ["Attack", "Report", "selfcheck"]


def selfcheck(sandbox: Sandbox, *, image: str, progress: Callable[[str], None] = lambda _: None) -> Report:
    """Try everything. ``image`` needs Python and coreutils; ``progress`` gets a word before each part.

    Takes about half a minute. Raises what the engine raises when it cannot run containers at all.
    """
    started = time.monotonic()
    figures: dict[str, str] = {}
    bench = Bench(sandbox=sandbox, image=image)
    before = host.snapshot(sandbox)
    attempts: list[Attack] = []
    for name, part in _parts(bench, figures):
        progress(name)
        attempts += part
    attempts += host.compared(before, host.snapshot(sandbox))
    measured = bench.measured
    figures["worst overshoot"] = (
        f"processes {max(measured.pids, 0):+d}, disk {max(measured.disk_bytes, 0):+d} B, "
        f"wall {measured.wall_s:+.1f} s, memory of this process {measured.rss_bytes / (1 << 20):+.0f} MB"
    )
    return Report(
        tier=tier(sandbox.info, sandbox.runtime),
        attempts=tuple(attempts),
        figures=figures,
        seconds=time.monotonic() - started,
    )


def _parts(bench: Bench, figures: dict[str, str]) -> Iterator[tuple[str, Iterator[Attack]]]:
    sandbox, image = bench.sandbox, bench.image
    for role in surface.ROLES:
        yield f"surface of the {role}", surface.probe(sandbox, role, image)
    yield "limits of the policy", resources.ceilings()
    for group in resources.GROUPS:
        yield group.__name__.replace("_", " "), group(bench)
    if sandbox.info.systems:
        yield "root of a whole system", systems.attacks(sandbox, image)
    yield "network", network.egress(sandbox, image)
    yield "keys of models", models.abuses(sandbox, image)
    yield "collection", artifacts.hostile_tree(sandbox, image, figures)
    yield "collection of a moving tree", artifacts.live_swap(sandbox, image)
    yield "git", artifacts.git_traps(sandbox, image, figures)
