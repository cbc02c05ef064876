"""The half of a case that happens before anything is graded: hooks, the agent, and what it left."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path, PurePosixPath

from agentv_sandbox.agents.layer import layered_python
from agentv_sandbox.base.dataclass import dataclass
from agentv_sandbox.base.errors import ContainerEnded, SandboxError
from agentv_sandbox.base.logs import safe_name
from agentv_sandbox.containers.policy import Role, policy_of
from agentv_sandbox.containers.specs import System
from agentv_sandbox.egress.grant import Grant
from agentv_sandbox.egress.proxy import EgressProxy
from agentv_sandbox.gateway.meter import Meter
from agentv_sandbox.graders.grade import effective_threshold
from agentv_sandbox.models.case import AgentResponse, CaseFailure
from agentv_sandbox.models.container import ExecResult, LimitOverrides, Mount
from agentv_sandbox.models.paths import (
    MOUNTED,
    OF_SUITES,
    OF_TASKS,
    OUTPUT,
    PROGRAMS,
    SUITE,
    TAKEN,
    WORKSPACE,
    Places,
)
from agentv_sandbox.models.suite import Hook, Target
from agentv_sandbox.project import Project
from agentv_sandbox.providers import PROVIDERS, AgentRun, PreparedAgent
from agentv_sandbox.request.jobs import ENGINE_ENDED, CaseFailed, Job
from agentv_sandbox.steps.answerfile import answer_file
from agentv_sandbox.steps.following import followed
from agentv_sandbox.steps.invoke import (
    ContainerSettings,
    HookPayload,
    agent_env,
    agent_limits,
    run_agent,
    run_hook,
    with_overrides,
)
from agentv_sandbox.steps.layer import programs_layer
from agentv_sandbox.steps.limits import JobLimits, job_limits
from agentv_sandbox.steps.limits_met import disk_full, limits_met, system_full
from agentv_sandbox.steps.suiterun import SuiteRun
from agentv_sandbox.steps.tasks.services import beside_service
from agentv_sandbox.steps.tasks.variables import resolved
from agentv_sandbox.workspace.collect import (
    Baseline,
    Collected,
    gather,
    gather_system,
    not_read,
)
from agentv_sandbox.workspace.collect.systems import SystemChanges
from agentv_sandbox.workspace.shared import CaseVolumes

_LAYING_S = 120.0
_ENDED_BY_ENGINE = CaseFailure(
    stage="agent",
    code=ENGINE_ENDED,
    fault=ENGINE_ENDED,
    message="the agent's container was ended from outside, by the engine or by a signal on its machine, or the engine "
    "was away while it ran",
)


OnStage = Callable[[str], None]
"""Called with the stages ``agent``, ``collecting`` and ``grading`` as they begin."""


def _ignore_stage(_name: str) -> None:
    """The ``on_stage`` of work that is no part of a test's progress."""


@dataclass(frozen=True, kw_only=True)
class AgentSide:
    """One case's containers that may write into its workspace."""

    run: SuiteRun
    job: Job
    volumes: CaseVolumes
    """``workspace``, ``input`` and, for the agent, ``output``."""
    uid: int
    attempt: int = 1
    on_stage: OnStage = _ignore_stage
    meter: Meter | None = None
    """Counts what the test asks of models."""
    system_of_case: Callable[[], System] | None = None
    """Makes the system that is the root of its containers, when it is first asked; None: each has the image's files."""

    @property
    def threshold(self) -> float:
        """Score from which the job's test passes."""
        return effective_threshold(self.job.case, self.run.suite, self.run.options.threshold)

    @property
    def _limits(self) -> JobLimits:
        return job_limits(self.run, self.job)

    @property
    def time_limit_s(self) -> float:
        """How long an agent may take that answers without a container."""
        return self.run.sandbox.specs.bounded(agent_limits(self._limits.agent()), Role.AGENT).timeout_s

    def before(self, baseline: Baseline, *, look: bool) -> Baseline:
        """Run the before hooks; the baseline is what they leave. ``look``: the workspace may no longer be what
        ``baseline`` says."""
        hooks = self.job.before_hooks()
        for name, hook in hooks:
            self.run_required_hook(hook, name)
        return self.baseline_now(baseline) if hooks or look else baseline

    def baseline_now(self, baseline: Baseline) -> Baseline:
        """What the workspace holds now, as far as ``baseline`` is out of date. Raises CaseFailed."""
        collected = gather(
            self.run.sandbox,
            mounts=[self.volumes.mount("workspace", WORKSPACE)],
            known=baseline.entries,
            store=self.run.store,
        )
        if collected.ended:
            unread = [safe_name(path) for path in not_read(baseline.entries, collected)]
            names = f", {', '.join(unread[:3])} among them" if unread else ""
            message = (
                f"the workspace could not be read after the hooks: the collection was stopped ({collected.ended}); "
                f"{len(unread)} of the files that were there before are missing from it{names}"
            )
            raise CaseFailed(
                CaseFailure(stage="setup", code="setup_error", message=message, fault="setup_failed")
            )
        return baseline.after_hooks(collected.roots[WORKSPACE], self.run.store)

    def in_system(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        user: str | int | None = None,
        mounts: Sequence[Mount] = (),
    ) -> ExecResult:
        """Run a command of a task folder in the system of the case, as a hook is run. ``user`` None: the system's."""
        settings = self._settings(mounts, None, self._limits.commands)
        system = settings.system
        if system is None:
            raise SandboxError("a task folder has a whole system to work in")
        if user is not None:
            system = replace(system, user=str(user))
        limits = with_overrides(policy_of(Role.HOOK, system=True).limits, settings.limits)
        return self.run.sandbox.run(
            Role.HOOK,
            argv,
            image=settings.image,
            system=system,
            mounts=settings.mounts,
            workdir=settings.workdir,
            env=settings.env,
            limits=replace(limits, timeout_s=timeout_s),
        )

    def after(self, name: str) -> list[str]:
        """Run hooks whose failures are only noted; what went wrong."""
        problems = [self._hook(hook, name) for hook in self.job.hooks(name)]
        return [f"{name}: {problem}" for problem in problems if problem is not None]

    def invoke(self, prepared: PreparedAgent, baseline: Baseline) -> tuple[AgentRun, Collected]:
        """The agent's container from start to removal, then what it left. Raises CaseFailed when the engine
        ended it."""
        run, target = self.run, self.job.target
        asked = self._limits.agent(self._timeout_of(prepared))
        settings = self._settings(self._agent_mounts(prepared), target, asked)
        own = {**prepared.env, **resolved(prepared.variables, run.environ)}
        settings = replace(settings, env={**settings.env, **own})
        prepared = self._beside_service(self._laid(prepared, settings.system))
        with self._granted() as grant, followed(self.run, self.job) as listeners:
            layer = self._layer(grant)
            settings = replace(settings, mounts=(*settings.mounts, *layer))
            python = layered_python() if layer else ("python3",)
            result = run_agent(run.sandbox, prepared, settings, grant, python=python, **listeners)
            ended_at = time.time()
        if result.outcome == "engine":
            raise CaseFailed(_ENDED_BY_ENGINE, AgentResponse(attempts=self.attempt, target_used=target.name))
        self.on_stage("collecting")
        # The answer first: what the workspace holds must not use up the limits that it is collected within.
        mounts = [self.volumes.mount("output", OUTPUT), self.volumes.mount("workspace", WORKSPACE)]
        collected = gather(
            run.sandbox,
            mounts=mounts,
            known=baseline.entries,
            store=run.store,
            answer=prepared.answer,
            kept=run.contents.store if run.contents else None,
        )
        if settings.system is not None:
            collected = replace(collected, system=self._system_changes(settings.system, grant.mounts))
        return self._as_agent_run(result, grant, collected, prepared, asked, ended_at), collected

    def _layer(self, grant: Grant) -> tuple[Mount, ...]:
        """On a task, what is ours is started by a Python of ours: its system may have none."""
        run, needs = self.run, PROVIDERS[self.job.target.provider].has_layer
        if self.job.case.task is None or not (needs or grant.mounts):
            return ()
        return (programs_layer(run),)

    @property
    def entrypoint(self) -> tuple[str, ...]:
        """What a task's image starts in its containers; empty where it starts nothing."""
        declared = self.run.declared if self.job.case.task is not None else None
        return declared.entrypoint if declared is not None else ()

    def _beside_service(self, prepared: PreparedAgent) -> PreparedAgent:
        task = self.job.case.task
        if task is None or not self.entrypoint:
            return prepared
        argv = beside_service(self.entrypoint, task.environment.healthcheck, prepared.argv)
        return replace(prepared, argv=argv)

    def _granted(self) -> AbstractContextManager[Grant]:
        """The way out of the agent's container, to what suite and target list."""
        run, target = self.run, self.job.target
        return EgressProxy(run.environ, tape=run.tape, limits=run.limits, way=run.way).grant(
            run.suite.network + target.network,
            target.secrets,
            gateway=PROVIDERS[target.provider].gateway_policy(target),
            meter=self.meter,
            names={str(self.uid): "<user>"},
            most_at_once=target.gateway.max_concurrency,
        )

    def _as_agent_run(
        self,
        result: ExecResult,
        grant: Grant,
        collected: Collected,
        prepared: PreparedAgent,
        asked: LimitOverrides,
        ended_at: float,
    ) -> AgentRun:
        """What is known of an agent whose container has ended; ``grant`` is complete."""
        run = self.run
        data, why = answer_file(collected, run.store, prepared)
        on_disk = self.job.workspace.storage == "disk"
        whole = self.job.workspace.system is not None
        limits = run.sandbox.specs.bounded(agent_limits(asked, system=whole), Role.AGENT)
        layer = run.image.programs
        resolutions = (run.image.resolution, *([layer.resolution] if layer is not None else []))
        return AgentRun(
            result=result,
            network_log=grant.log,
            output_file=data,
            output_missing=why,
            packages={
                each.name: each.version
                for resolution in resolutions
                for each in (*resolution.npm, *resolution.wheels)
            },
            stand_ins=grant.stand_ins,
            model_use=grant.model_use,
            model_log=grant.model_log,
            answers=grant.answers,
            ended_at=ended_at,
            rate_limit_wait_s=grant.waits.seconds,
            misses=grant.misses,
            budget_spent=bool(grant.model_refusals) and self.meter is not None and self.meter.spent,
            disk_full=disk_full(collected, on_disk=on_disk),
            limits_met=(
                *system_full(collected),
                *limits_met(result, collected, limits, on_disk=on_disk),
                *grant.model_refusals,
                *grant.model_notes,
                *grant.faults(),
            ),
        )

    def system_now(self) -> SystemChanges | None:
        """What its system holds beside the image's files, when nothing runs in it; None where it has none."""
        if self.system_of_case is None:
            return None
        return self._system_changes(self.system_of_case(), ())

    def _system_changes(self, system: System, mounts: Sequence[Mount]) -> SystemChanges:
        ours = (
            MOUNTED
            if self.job.case.task is None
            else (SUITE, OF_TASKS.input, OF_TASKS.output, OF_TASKS.home, TAKEN, PROGRAMS)
        )
        own = {mount.target for mount in mounts} | set(ours)
        folders = {str(folder) for target in own for folder in (target, *PurePosixPath(target).parents)}
        return gather_system(self.run.sandbox, system, self.run.store, own=sorted(folders))

    def _laid(self, prepared: PreparedAgent, system: System | None) -> PreparedAgent:
        """``prepared`` once root's lines have run, which need no container of their own where the agent is root."""
        if not prepared.as_root:
            return prepared
        if system is not None and system.user.partition(":")[0] in ("", "0", "root"):
            argv = ("/bin/sh", "-c", f'{prepared.as_root} && exec "$@"', "sh", *prepared.argv)
            return replace(prepared, argv=argv)
        self._must_as_root(prepared.as_root, [self.volumes.mount("input", self._places.input)])
        return prepared

    def _must_as_root(self, lines: str, mounts: Sequence[Mount]) -> None:
        done = self.in_system(["sh", "-ec", lines], timeout_s=_LAYING_S, user="0:0", mounts=mounts)
        if not done.ok:
            message = f"the agent's files could not be laid into its system: {done.exit_text}"
            raise CaseFailed(
                CaseFailure(stage="setup", code="setup_error", message=message, fault="setup_failed")
            )

    def _timeout_of(self, prepared: PreparedAgent) -> float | None:
        """What the provider asks for, else what the task's step does."""
        task = self.job.case.task
        if prepared.timeout_s is not None or task is None:
            return prepared.timeout_s
        return task.steps[0].agent_timeout_s

    @property
    def _places(self) -> Places:
        return OF_SUITES if self.job.case.task is None else OF_TASKS

    def _workspace_mounts(self) -> list[Mount]:
        """A task's system has its own folder of that name, which the tests see, too."""
        if self.job.case.task is not None:
            return []
        return [self.volumes.mount("workspace", WORKSPACE, read_only=False)]

    def _agent_mounts(self, prepared: PreparedAgent) -> list[Mount]:
        places = self._places
        mounts = [
            *self._workspace_mounts(),
            self.volumes.mount("output", places.output, read_only=False),
            self.volumes.mount("input", places.input),
        ]
        if PROVIDERS[self.job.target.provider].has_home:
            mounts.append(self.volumes.mount("home", places.home, read_only=False))
        if prepared.suite_files:
            mounts.append(self.run.views.part(prepared.suite_files))
        return mounts

    def run_required_hook(self, hook: Hook, name: str) -> None:
        problem = self._hook(hook, name)
        if problem is not None:
            raise CaseFailed(
                CaseFailure(
                    stage="setup", code="script_error", message=f"{name}: {problem}", fault="setup_failed"
                )
            )

    def _hook(self, hook: Hook, name: str) -> str | None:
        case = self.job.case
        payload = HookPayload(
            test_id=case.id,
            run_id=self.run.sandbox.run_id,
            case_input=case.question,
            case_metadata=dict(case.metadata) or None,
            workspace_path=WORKSPACE if case.task is None else self.workdir,
        )
        project, views = self.run.project, self.run.views
        seen = None
        if name not in self._before_any_agent:
            seen = project.seen_by(
                hook.command or (), cwd=hook.cwd, files=hook.files, hidden=views.holds_tests
            )
        mounts = [
            *self._workspace_mounts(),
            self.volumes.mount("input", self._places.input),
            views.whole() if seen is None else views.part(seen, folder=hook.cwd),
        ]
        settings = self._settings(mounts, None, self._limits.commands)
        try:
            problem = run_hook(self.run.sandbox, hook, payload, settings, project)
        except ContainerEnded as error:
            if name.startswith("before"):
                raise
            return error.message  # the verdict is there, and its agent is not asked again for this
        if problem is None or seen is None:
            return problem
        return _not_shown(problem, seen, hook, project) + problem

    @property
    def _before_any_agent(self) -> tuple[str, ...]:
        """Hooks in whose workspace no agent was: nothing in it can make them run its code."""
        return ("before_all",) if self.job.workspace.isolation == "shared" else ("before_all", "before_each")

    def _settings(
        self, mounts: Sequence[Mount], target: Target | None, limits: LimitOverrides
    ) -> ContainerSettings:
        own = {"AGENTV_WORKSPACE_PATH": WORKSPACE, "AGENTV_EVAL_ID": self.job.case.id}
        task = self.job.case.task
        if task is not None:
            own = {
                "AGENTV_EVAL_ID": own["AGENTV_EVAL_ID"],
                **resolved(task.environment.env, self.run.environ),
            }
        return ContainerSettings(
            image=self.run.image.id,
            uid=self.uid,
            mounts=tuple(mounts),
            limits=limits,
            env=agent_env(target, self.run.environ, {**self.run.run_env, **own}),
            system=self.system_of_case() if self.system_of_case is not None else None,
            workdir=self.workdir,
        )

    @property
    def workdir(self) -> str:
        """In which its commands begin."""
        return workdir_of(self.run, self.job)


def workdir_of(run: SuiteRun, job: Job) -> str:
    """In which commands of an agent's side begin."""
    space = job.workspace
    if space.system is None:
        return WORKSPACE
    filled = space.template is not None or space.repos
    image = run.declared if not filled else None
    of_image = image.workdir.rstrip("/") if image is not None else ""
    return space.system.workdir or of_image or ("/" if job.case.task is not None else WORKSPACE)


def _not_shown(problem: str, seen: Sequence[Path], hook: Hook, project: Project) -> str:
    """A word on what a hook may have missed of the project, to stand before ``problem``; empty without."""

    def shown(path: Path) -> bool:
        return any(each.is_relative_to(path) for each in seen)

    missed = project.missed(problem, cwd=hook.cwd, shown=shown)
    if not missed:
        return ""
    names = missed[:3]
    return (
        f"it may have missed {', '.join(map(safe_name, names))}, since a hook that runs where an agent was sees only "
        f"what its command names and imports; write under it: files: {json.dumps(names)}. "
    )
