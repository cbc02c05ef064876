"""What of an interrupted run stands when it goes on: rows and trials that are made of what a new run would take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from agentv_sandbox.base.dataclass import dataclass
from agentv_sandbox.base.logs import safe_name
from agentv_sandbox.graders.grade import effective_trials
from agentv_sandbox.loading import LoadResult
from agentv_sandbox.models.case import LOST, CaseResult
from agentv_sandbox.models.identity import Key, known_key, suite_keys
from agentv_sandbox.models.image import ProvedImage
from agentv_sandbox.models.suite import Suite
from agentv_sandbox.project import Project
from agentv_sandbox.request.jobs import Job, RunOptions, SuiteStart
from agentv_sandbox.resume.hashes import SCHEME, InputHashes
from agentv_sandbox.rows.layout import TRIAL, TRIALS
from agentv_sandbox.rows.record import Row
from agentv_sandbox.rows.restoring import result_of
from agentv_sandbox.runfolder.earlier import EarlierRun, EarlierTrial, copy_run, earlier_run, folder_of
from agentv_sandbox.runfolder.folder import RunFolder
from agentv_sandbox.runfolder.intact import Intact
from agentv_sandbox.runfolder.takeover import Takeover
from agentv_sandbox.targets.chosen import jobs_of
from agentv_sandbox.workspace.template import template_key

SHOWN = 5
_ERROR = "they ended in an execution error"
_LOST = "trials were lost to faults that are not their agent's"
_SECOND = "another row of the same test and target stands there, so left out"


@dataclass(frozen=True, kw_only=True)
class Resumption:
    """What stands of an earlier run, and what is to be said about the rest."""

    takeover: Takeover
    suites: Mapping[Path, SuiteStart]
    notes: Sequence[str]

    @property
    def rows(self) -> list[Row]:
        return [row for row, _, _ in self.takeover.rows]


def take_over(
    earlier: EarlierRun,
    results: RunFolder,
    loaded: LoadResult,
    images: Mapping[Path, ProvedImage],
    options: RunOptions,
    *,
    rerun_failed: bool,
) -> Resumption:
    """Decide for every row of ``earlier`` whether it stands, and have ``results`` hold those that do.

    ``rerun_failed``: only those at or above their threshold. Raises InputError, SandboxError."""
    if earlier.path.resolve() != results.path:
        copy_run(earlier, results.path)
    # Once more: now nobody else writes there.
    sorting = _Sorting(earlier_run(results.path, locked=True), loaded.suites, rerun_failed=rerun_failed)
    for suite in loaded.suites:
        project = Project(suite.project_root, cwd=options.cwd)
        environ = loaded.environments[suite.path]
        hashes = InputHashes(suite, images.get(suite.path), project, environ, options.request)
        sorting.sort(suite, jobs_of(suite, options), hashes)
    sorting.sort_others()
    plan = sorting.plan()
    results.take_over(plan.takeover)
    return plan


class _Sorting:
    def __init__(self, earlier: EarlierRun, suites: Sequence[Suite], *, rerun_failed: bool) -> None:
        self._earlier = earlier
        self._suites = suites
        self._rerun_failed = rerun_failed
        self._intact = Intact(earlier.path)
        self._taken: dict[Key, set[object]] = defaultdict(set)
        """Folders of the rows that stand for jobs of this run, or would."""
        self._left: dict[Key, list[Row]] = defaultdict(list)
        self._begun: dict[Key, list[EarlierTrial]] = defaultdict(list)
        for trial in sorted(earlier.trials, key=lambda each: each.result.trial):
            self._begun[trial.row.key].append(trial)
        self._kept: dict[tuple[Path, str, str], tuple[Row, CaseResult]] = {}
        self._others: list[tuple[Row, CaseResult]] = []
        self._trials: dict[Path, dict[tuple[str, str], Sequence[CaseResult]]] = defaultdict(dict)
        self._folders: dict[Key, Path] = {}
        self._lost: list[Path] = []
        self._dropped: list[Row] = []
        self._reasons: dict[str, list[str]] = defaultdict(list)
        self._there = {row.key for row in earlier.rows} | self._begun.keys()
        for row in earlier.rows:
            if row in self._left[row.key]:  # written in another way, perhaps; its cost counts once
                self._reasons[_SECOND].append(_name(row))
            else:
                self._left[row.key].append(row)

    def sort(self, suite: Suite, jobs: Sequence[Job], hashes: InputHashes) -> None:
        """The rows and trials of ``jobs``."""
        for job in jobs:
            key = known_key(suite, job.case.id, job.target.name, self._there) or job.key
            rows = self._left[key]
            if not rows:
                begun = self._begun.pop(key, [])
                if not self._take_trials(suite, job, begun, hashes):
                    self._dropped += [each.row for each in begun]
                continue
            row = next((row for row in reversed(rows) if _stands_for(row, job, hashes)), rows[-1])
            rows.remove(row)
            self._taken[key].add(row.artifact_dir)
            result = result_of(row)
            reason = self._why_again(row, result, hashes.like(job, row.input_hashes))
            if reason in (_ERROR, _LOST) and self._completes(
                suite, job, row, hashes, errors=reason == _ERROR
            ):
                self._reasons[reason].append(_name(row))
            elif reason or result is None:
                self._drop(row, reason)
            else:
                self._kept[suite.path, job.target.name, job.case.id] = (row, result)
        self._break_chains(suite, jobs)

    def _why_again(self, row: Row, result: CaseResult | None, wanted: Mapping[str, str]) -> str:
        """Empty: it stands."""
        before = row.input_hashes
        if result is None or not self._intact.holds(row):
            return "their rows or files are no longer as they were written"
        if result.status == "execution_error" and not result.ungraded:
            return _ERROR
        if self._rerun_failed and result.status != "ok" and not result.ungraded:
            return "they are below their threshold"
        # The gravest reason first, since one is shown for each row.
        changed = [part for part, value in wanted.items() if before.get(part) != value]
        if before and SCHEME in changed:
            return "their rows were hashed in a way that this version does not know"
        if len(changed) == len(wanted):
            return "their rows do not say what they were made of, or all of it changed"
        if changed:
            return f"changed since: {', '.join(changed)}"
        return _LOST if any(_is_lost(trial, errors=False) for trial in result.trials) else ""

    def _drop(self, row: Row, reason: str) -> None:
        self._dropped.append(row)
        self._reasons[reason].append(_name(row))

    def _completes(self, suite: Suite, job: Job, row: Row, hashes: InputHashes, *, errors: bool) -> bool:
        """Whether trials of ``row`` stand, and only the others are run again. ``errors``: all execution errors are."""
        folder = folder_of(self._earlier.path, row)
        begun = [each for each in self._begun[row.key] if each.folder == folder]
        return self._take_trials(suite, job, begun, hashes, errors=errors)

    def _take_trials(
        self,
        suite: Suite,
        job: Job,
        begun: Sequence[EarlierTrial],
        hashes: InputHashes,
        *,
        errors: bool = False,
    ) -> bool:
        """Whether those of ``begun`` stand that are not lost: all of them or none."""
        standing = [each for each in begun if not _is_lost(each.result, errors=errors)]
        if not standing or effective_trials(job.case, suite).count < 2 or _shares(job):
            return False
        folder = begun[0].folder
        # One that cannot be read counts, too: a new one is not written over it.
        if len(begun) < sum(1 for _ in folder.glob(f"{TRIALS}/*/{TRIAL}")):
            return False
        if not all(
            _stands_for(each.row, job, hashes)
            and each.folder == folder
            and self._intact.holds_trial(each.row)
            for each in standing
        ):
            return False
        self._folders[job.key] = folder
        self._trials[suite.path][job.target.name, job.case.id] = [each.result for each in standing]
        lost = [each for each in begun if each not in standing]
        self._dropped += [each.row for each in lost]
        self._lost += [folder / TRIALS / str(each.result.trial) for each in lost]
        return True

    def _break_chains(self, suite: Suite, jobs: Sequence[Job]) -> None:
        """A test in a shared workspace starts from what the ones before it left, which is gone with the run: such
        tests stand together or not at all."""
        chains: dict[object, list[Job]] = defaultdict(list)
        for job in filter(_shares, jobs):
            chains[job.target.name, template_key(job.workspace, job.target)].append(job)
        for chain in chains.values():
            keys = [(suite.path, job.target.name, job.case.id) for job in chain]
            missing = next((key for key in keys if key not in self._kept), None)
            for key in keys if missing else ():
                if key in self._kept:
                    row, _ = self._kept.pop(key)
                    assert missing is not None
                    self._drop(
                        row, f"they share a workspace with {safe_name(missing[2])}, which is to be run"
                    )

    def sort_others(self) -> None:
        """Rows that no job of this run stands for: they stay, unless their test is gone."""
        known = {
            (key, case.id) for suite in self._suites for key in suite_keys(suite) for case in suite.cases
        }
        names = {suite for suite, _ in known}
        for key, rows in self._left.items():
            *older, row = self._without_second(key, rows) or [Row()]
            for each in older:
                self._drop(each, _SECOND)
            result = result_of(row)
            if not row:
                continue
            # A suite that was not asked for today may still have its tests; only a known one can
            # have lost them.
            if key[0] in names and key[:2] not in known:
                self._drop(row, "no longer in their suite, so left out")
            elif result is None or not self._intact.holds(row):
                self._drop(row, "their rows or files are no longer as they were written, so left out")
            else:
                self._others.append((row, result))
        self._dropped += [
            each.row for begun in self._begun.values() for each in begun if not self._has_row(each)
        ]

    def _without_second(self, key: Key, rows: Sequence[Row]) -> list[Row]:
        """``rows`` without those that stand beside the one that was taken for a job. Another eval file that is not run
        now may have a suite and a test of the same names: its results are in a folder of their own."""
        if key not in self._taken:
            return list(rows)
        elsewhere = self._earlier.suites - {str(suite.path) for suite in self._suites}
        others = [row for row in rows if elsewhere and row.artifact_dir not in self._taken[key]]
        for row in rows:
            if row not in others:
                self._drop(row, _SECOND)
        return others

    def _has_row(self, trial: EarlierTrial) -> bool:
        return any(row.key == trial.row.key for row in self._earlier.rows)

    def plan(self) -> Resumption:
        paths = {suite.name: str(suite.path) for suite in self._suites}
        kept = [(row, result, str(key[0])) for key, (row, result) in self._kept.items()]
        kept += [(row, result, paths.get(result.suite, result.suite)) for row, result in self._others]
        order = {id(row): number for number, row in enumerate(self._earlier.rows)}
        superseded = [*self._earlier.superseded, *self._dropped]
        return Resumption(
            takeover=Takeover(
                rows=sorted(kept, key=lambda each: order[id(each[0])]),
                superseded=superseded,
                begun=self._folders,
                lost=self._lost,
                suites=[suite.name for suite in self._suites],
            ),
            suites={
                suite.path: self._start(suite, [*superseded, *(row for row, _, _ in kept)])
                for suite in self._suites
            },
            notes=[*self._earlier.problems[:SHOWN], *map(self._note, self._reasons.items())],
        )

    def _start(self, suite: Suite, rows: Iterable[Row]) -> SuiteStart:
        keys = suite_keys(suite)
        return SuiteStart(
            done={key[1:]: result for key, (_, result) in self._kept.items() if key[0] == suite.path},
            trials=self._trials[suite.path],
            spent_usd=sum(row.spent_usd or 0.0 for row in rows if row.key[0] in keys),
        )

    @staticmethod
    def _note(reason: tuple[str, Sequence[str]]) -> str:
        why, names = reason
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        verb = "" if why.endswith("left out") else "run again, "
        return f"{verb}{why}: {', '.join(names[:SHOWN])}{more}"


def _shares(job: Job) -> bool:
    """Whether the job starts from what others left."""
    resets = job.resets("before_each") or job.resets("after_each")
    return job.workspace.isolation == "shared" and not resets


def _stands_for(row: Row, job: Job, hashes: InputHashes) -> bool:
    before = row.input_hashes
    return before == hashes.like(job, before)


def _is_lost(trial: CaseResult, *, errors: bool) -> bool:
    if trial.status != "execution_error" or trial.ungraded or trial.failure is None:
        return False
    return errors or trial.failure.fault in LOST


def _name(row: Row) -> str:
    return safe_name(row.test_id)
