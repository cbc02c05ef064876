"""pytest-xdist's groups, for runs in which a worker dies: 3.8 ends such a run with an internal error that names no
test, runs the test that killed its worker again and again, or waits for ever (pytest-xdist#1189, #1323, #1362)."""

from __future__ import annotations

from xdist.scheduler import LoadGroupScheduling
from xdist.workermanage import WorkerController


class Scheduler(LoadGroupScheduling):
    def remove_node(self, node: WorkerController) -> str | None:
        """Forget a worker that has ended; the test that it died of, which is not run again."""
        workload = self.assigned_work.pop(node)
        if not self._pending_of(workload):
            return None
        self.registered_collections.pop(node, None)
        crashed: str = next(test for unit in workload.values() for test, ended in unit.items() if not ended)
        for unit in workload.values():
            if crashed in unit:
                unit[crashed] = True
        left = {scope: unit for scope, unit in workload.items() if not all(unit.values())}
        self.workqueue.update(left)
        for other in self.assigned_work:
            self._reschedule(other)
        return crashed

    def _reschedule(self, node: WorkerController) -> None:
        """Give more to a worker that has said which tests it knows."""
        if node in self.registered_collections:
            super()._reschedule(node)
