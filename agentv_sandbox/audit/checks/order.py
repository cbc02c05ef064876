"""Tests that judge what an earlier test left in a workspace that both share."""

from __future__ import annotations

from collections.abc import Iterator

from agentv_sandbox.audit.checks.base import Examined
from agentv_sandbox.audit.findings import Finding
from agentv_sandbox.audit.knowledge import names_in


def earlier_files(examined: Examined) -> Iterator[Finding]:
    suite, case = examined.suite, examined.case
    space = case.workspace
    if (
        space is None
        or space.isolation != "shared"
        or any(hook.reset != "none" for hook in space.hooks.values())
    ):
        return
    names = set(names_in(suite, case))
    for other in suite.cases:
        if other.id == case.id:
            return
        shared = names & set(names_in(suite, other))
        if (
            shared
            and other.id not in case.depends_on
            and other.workspace is not None
            and other.workspace.isolation == "shared"
        ):
            message = (
                f"its graders read {min(shared)}, which test {other.id!r} is about; both share a workspace"
            )
            yield examined.finding("depends-on-order", message)
            return


CHECKS = (earlier_files,)
