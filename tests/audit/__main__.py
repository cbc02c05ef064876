"""All planted flaws and all honest suites, with every agent: ``python -P -m tests.audit [NAME...]``. It takes minutes.

Prints what was missed, what else was found in a flawed test, and what was said of honest ones; exits with 1 where a flaw
was missed by its name or an honest suite was blamed.
"""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from agentv_sandbox.audit.findings import AuditReport
from agentv_sandbox.runs import auditing
from tests.audit.blind import ALL as BLIND
from tests.audit.honest import HONEST
from tests.audit.later import LATER
from tests.audit.planted import FLAWED, Case
from tests.audit.unseen import FLAWED as UNSEEN
from tests.audit.unseen import HONEST as NEAR


def main(names: Sequence[str]) -> int:
    cases = [
        case
        for case in (*FLAWED, *LATER, *UNSEEN, *BLIND, *HONEST, *NEAR)
        if not names or any(name in case.name for name in names)
    ]
    with tempfile.TemporaryDirectory(prefix="audit-") as name:
        folder, began = Path(name), time.monotonic()
        os.chdir(folder)
        report = auditing.audit(suites=[case.write(folder) for case in cases], output=folder / "out")
        seconds = time.monotonic() - began
    tests = sum(len(case.tests) for case in cases)
    used = sum(getattr(resource.getrusage(who), kind) for who in (0, -1) for kind in ("ru_utime", "ru_stime"))
    wrong = list(_wrong(cases, report))
    print(*wrong, sep="\n")
    flaws = sum(bool(rule) for case in cases for rule in case.flaws)
    missed = sum(line.startswith("missed") for line in wrong)
    print(f"{flaws - missed} of {flaws} flaws found by their names; {report.line}")
    print(f"{seconds / tests:.1f} s a test, {used / tests:.1f} s of processor time, with {len(cases)} suites")
    return int(any(line.startswith(("missed", "blamed")) for line in wrong))


def _wrong(cases: Sequence[Case], report: AuditReport) -> Iterator[str]:
    for case in cases:
        for test, rule in case.expected.items():
            found = {each.rule for each in report.findings if (each.suite, each.test) == (case.name, test)}
            if rule and rule not in found:
                yield f"missed  {case.name}/{test}: {rule}, found {sorted(found)}"
            elif found - {rule}:
                yield f"{'besides' if rule else 'blamed '} {case.name}/{test}: {sorted(found - {rule})}"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
