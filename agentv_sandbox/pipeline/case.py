"""One case from an empty workspace to its result: the stages in order."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from agentv_sandbox.collect import Baseline, Collected, assemble, gather
from agentv_sandbox.egress import EgressProxy
from agentv_sandbox.errors import BuildError, Cancelled, EngineLost, EngineUnavailable, SandboxError
from agentv_sandbox.files import BlobStore, staged_files
from agentv_sandbox.grade import effective_threshold, grade_case
from agentv_sandbox.graders.base import GradeContext
from agentv_sandbox.invoke import (
    HookPayload,
    Rooms,
    agent_env,
    input_paths,
    merged,
    prompt_for_container,
    run_agent,
    run_hook,
    staged_inputs,
)
from agentv_sandbox.llm import LlmClient
from agentv_sandbox.models.case import AgentResponse, Blob, CaseFailure, CaseOutput, CaseResult, Stage
from agentv_sandbox.models.container import Mount
from agentv_sandbox.models.image import Image
from agentv_sandbox.models.suite import (
    EvalCase,
    Hook,
    LimitOverrides,
    NetworkPolicy,
    Suite,
    Target,
    Workspace,
)
from agentv_sandbox.pipeline.tools import ContainerTools
from agentv_sandbox.pipeline.workspace import Templates, restaged, seal, workspace_size
from agentv_sandbox.preprocess import Preprocessors
from agentv_sandbox.project import SUITE, Project
from agentv_sandbox.providers import PROVIDERS, Prepared, Ran, Request
from agentv_sandbox.providers.response import MAX_BYTES
from agentv_sandbox.sandbox import Sandbox, StagedFile, VolumeSet, VolumeSpec

OnEvent = Callable[..., None]
_MB = 1 << 20


@dataclass(frozen=True, kw_only=True)
class CaseOptions:
    """What the command line decides for every case."""

    threshold: float | None = None
    """Wins over the test's and the suite's."""
    grader_target: str | None = None
    max_retries: int | None = None
    """More attempts of an agent that failed; None: the target's ``max_retries``, else none."""
    keep_failed: bool = False
    limits: LimitOverrides = LimitOverrides()


@dataclass(frozen=True, kw_only=True)
class SuiteRun:
    """What the cases of one suite share."""

    suite: Suite
    sandbox: Sandbox
    image: Image
    project: Project
    project_volume: str
    store: BlobStore
    llm: LlmClient
    preprocessors: Preprocessors
    options: CaseOptions
    environ: Mapping[str, str]
    on_event: OnEvent
    templates: Templates
    agent_volume: Callable[[Sequence[Path]], str]
    """Name of a volume that holds just these project files."""
    run_env: Mapping[str, str] = field(default_factory=dict)
    """``AGENTV_*`` names that every container gets."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One row to be."""

    case: EvalCase
    target: Target
    trial: int = 0


@dataclass
class _Progress:
    """Where a case stands, for the failure that may come."""

    stage: Stage = "setup"
    code: str = "setup_error"


class CaseFailed(Exception):
    """A stage failed in a way that ends the case and nothing else."""

    def __init__(self, failure: CaseFailure, response: AgentResponse | None = None) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.response = response
        self.kept: str | None = None


def run_case(run: SuiteRun, job: Case) -> CaseResult:
    """Run and grade ``job``. A failure of the case becomes its result; Cancelled and the loss of the engine
    are raised, since every other case would meet them too."""
    case, target = job.case, job.target
    threshold = effective_threshold(case, run.suite, run.options.threshold)
    started = time.monotonic()
    result = CaseResult(
        case_id=case.id, suite=case.suite, category=case.category, target=target.name, score=0.0,
        status="execution_error", threshold=threshold, trial=job.trial, image_id=run.image.id,
        timestamp=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    )  # fmt: skip
    key = {"suite": case.suite, "case_id": case.id, "target": target.name, "trial": job.trial}
    run.on_event("case.started", **key)
    at = _Progress()
    try:
        result = _attempts(run, job, result, at, lambda stage: run.on_event("case.stage", **key, stage=stage))
    except (Cancelled, EngineLost, EngineUnavailable):
        raise
    except CaseFailed as failed:
        result = replace(result, failure=failed.failure, response=failed.response, workspace_kept=failed.kept)
    except (SandboxError, OSError) as error:
        failure = CaseFailure(stage=at.stage, code=at.code, message=_message(error))
        result = replace(result, failure=failure)
    return replace(result, duration_ms=round((time.monotonic() - started) * 1000, 1))


def _attempts(
    run: SuiteRun, job: Case, blank: CaseResult, at: _Progress, stage: Callable[[str], None]
) -> CaseResult:
    """Try the target, then its fallbacks, each in a fresh workspace. An agent that fails is tried again only
    when that was asked for; what the engine did to it is tried once more in any case."""
    names = [job.target, *(run.suite.targets[name] for name in job.target.fallback_targets)]
    attempt = 0
    engine_faults = 0
    last: CaseFailed | None = None
    for target in names:
        retries = run.options.max_retries
        if retries is None:
            retries = int(target.settings.get("max_retries") or 0)
        left = 1 + retries
        while left > 0:
            left -= 1
            attempt += 1
            try:
                return _one_attempt(run, replace(job, target=target), attempt, blank, at, stage)
            except CaseFailed as failed:
                if failed.failure.stage != "agent":
                    raise
                last = failed
                if failed.failure.code == "engine_restarted" and engine_faults == 0:
                    engine_faults += 1
                    left += 1
    assert last is not None
    raise last


def _one_attempt(
    run: SuiteRun, job: Case, attempt: int, blank: CaseResult, at: _Progress, stage: Callable[[str], None]
) -> CaseResult:
    case, target, sandbox = job.case, job.target, run.sandbox
    at.stage, at.code = "setup", "setup_error"
    stage("workspace")
    workspace = case.workspace or Workspace()
    limits = merged(run.suite.limits, target.limits, run.options.limits)
    paths = input_paths(case, run.project)
    request = Request(suite=run.suite, case=case, target=target, project=run.project, input_paths=paths,
                      prompt=prompt_for_container(case, paths), attempt=attempt)  # fmt: skip
    prepared = PROVIDERS[target.provider].prepare(request)
    template = run.templates.files(workspace, target, lambda files: _before_all(run, job, workspace, files))
    uid = sandbox.new_uid()
    with ExitStack() as stack:
        volumes = stack.enter_context(
            sandbox.volumes(
                workspace=VolumeSpec(uid=uid, inodes=limits.workspace_inodes or 50_000,
                                     size_bytes=workspace_size(template, limits.workspace_bytes)),
                output=VolumeSpec(uid=uid, size_bytes=64 * _MB, inodes=1024),
                input=VolumeSpec(size_bytes=_room(case.input_files), inodes=4096),
                files=VolumeSpec(size_bytes=1024 * _MB, inodes=8192),
                grading=VolumeSpec(size_bytes=256 * _MB, inodes=8192),
            )
        )  # fmt: skip
        volumes.put("workspace", template, uid=uid)
        volumes.put("input", [*staged_inputs(request), *prepared.inputs])
        keep = stack.enter_context(_Keep(run, volumes))
        agent = _AgentCase(run=run, job=job, volumes=volumes, uid=uid, workspace=workspace, limits=limits)
        baseline = agent.before(Baseline.staged(template))
        at.stage, at.code = "agent", "provider_error"
        stage("agent")
        ran, found = agent.invoke(prepared, baseline, stage)
        response = PROVIDERS[target.provider].response(request, ran)
        if response.failure is not None:
            raise CaseFailed(response.failure, response)
        output = assemble(found, baseline=baseline, store=run.store, response=response, outputs=case.outputs,
                          as_text=run.preprocessors.as_text(run.suite.preprocessors))  # fmt: skip
        at.stage, at.code = "evaluator", "evaluator_error"
        stage("grading")
        seal(sandbox, volumes, found)
        volumes.put("files", staged_files(output.files, run.store))
        result = _graded(run, job, output, response, volumes, blank)
        notes = agent.after()
        return keep.noted(replace(result, notes=(*result.notes, *notes)))


class _Keep:
    """``--keep-failed``: decides at the end of an attempt whether its volumes stay."""

    def __init__(self, run: SuiteRun, volumes: VolumeSet) -> None:
        self._wanted = run.options.keep_failed
        self._volumes = volumes

    def noted(self, result: CaseResult) -> CaseResult:
        if not self._wanted or result.status == "ok":
            return result
        return replace(result, workspace_kept=self._keep())

    def _keep(self) -> str:
        self._volumes.kept = True
        inside = "cd /volumes/workspace && exec sh"
        return f"docker exec -it {self._volumes.holder[:12]} sh -c '{inside}'   (agentv-sandbox clean removes it)"

    def __enter__(self) -> _Keep:
        return self

    def __exit__(self, _kind: object, error: object, _trace: object) -> None:
        if self._wanted and isinstance(error, CaseFailed):
            error.kept = self._keep()


def _graded(
    run: SuiteRun,
    job: Case,
    output: CaseOutput,
    response: AgentResponse,
    volumes: VolumeSet,
    blank: CaseResult,
) -> CaseResult:
    tools = ContainerTools(run_of=run, case=job.case, target=job.target, output=output, volumes=volumes)
    graded = grade_case(
        GradeContext(case=job.case, suite=run.suite, target=job.target, output=output, threshold=blank.threshold,
                     tools=tools, grader_target=run.options.grader_target)
    )  # fmt: skip
    return replace(blank, score=graded.score, status=graded.status, scores=graded.scores,
                   failure=graded.failure, output=output, response=response)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class _AgentCase:
    """The half of a case that happens before anything is graded."""

    run: SuiteRun
    job: Case
    volumes: VolumeSet
    uid: int
    workspace: Workspace
    limits: LimitOverrides

    def before(self, baseline: Baseline) -> Baseline:
        """Run the before hooks; the baseline is what they leave."""
        ran = False
        for hook in self.hooks("before_each"):
            self.must_hook(hook, "before_each")
            ran = True
        if not ran:
            return baseline
        found = gather(self.run.sandbox, mounts=[self.volumes.mount("workspace", "/workspace")],
                       known=baseline.entries, store=self.run.store)  # fmt: skip
        return baseline.moved_to(found.roots["/workspace"], self.run.store)

    def after(self) -> list[str]:
        """Run the after hooks; their failures are only noted."""
        problems = [self._hook(hook) for hook in self.hooks("after_each")]
        return [f"after_each: {problem}" for problem in problems if problem is not None]

    def invoke(
        self, prepared: Prepared, baseline: Baseline, stage: Callable[[str], None]
    ) -> tuple[Ran, Collected]:
        """The agent's container from start to removal, then what it left."""
        run, target = self.run, self.job.target
        result = None
        log = ""
        if prepared.argv:
            rooms = self._rooms(self._agent_mounts(prepared), target.env)
            policy = NetworkPolicy(allow=(*run.suite.network.allow, *target.network.allow))
            with EgressProxy(run.environ).grant(policy, target.secrets) as grant:
                result = run_agent(run.sandbox, prepared, rooms, grant)
            log = grant.log
            if result.outcome == "engine":
                failure = CaseFailure(
                    stage="agent",
                    code="engine_restarted",
                    message="the container engine ended the agent's container",
                )
                raise CaseFailed(failure)
        stage("collecting")
        mounts = [self.volumes.mount("workspace", "/workspace"), self.volumes.mount("output", "/output")]
        found = gather(run.sandbox, mounts=mounts, known=baseline.entries, store=run.store)
        data, why = _output_file(found, run.store)
        return Ran(result=result, network_log=log, output_file=data, output_missing=why), found

    def _agent_mounts(self, prepared: Prepared) -> list[Mount]:
        mounts = [
            self.volumes.mount("workspace", "/workspace", read_only=False),
            self.volumes.mount("output", "/output", read_only=False),
            self.volumes.mount("input", "/input"),
        ]
        if prepared.suite_files:
            mounts.append(Mount(source=self.run.agent_volume(prepared.suite_files), target=SUITE))
        return mounts

    def hooks(self, name: str) -> list[Hook]:
        """The suite's hook first on the way in, the target's first on the way out."""
        sources = [self.workspace.hooks, self.job.target.hooks]
        if name.startswith("after"):
            sources.reverse()
        return [source[name] for source in sources if name in source]

    def must_hook(self, hook: Hook, name: str) -> None:
        problem = self._hook(hook)
        if problem is not None:
            raise CaseFailed(CaseFailure(stage="setup", code="script_error", message=f"{name}: {problem}"))

    def _hook(self, hook: Hook) -> str | None:
        case = self.job.case
        payload = HookPayload(
            test_id=case.id, run_id=self.run.sandbox.run_id, case_input=case.question,
            case_metadata=dict(case.metadata) or None,
        )  # fmt: skip
        mounts = [
            self.volumes.mount("workspace", "/workspace", read_only=False),
            self.volumes.mount("input", "/input"),
            Mount(source=self.run.project_volume, target=SUITE),
        ]
        return run_hook(self.run.sandbox, hook, payload, self._rooms(mounts, ()), self.run.project)

    def _rooms(self, mounts: Sequence[Mount], env: Sequence[str]) -> Rooms:
        own = {"AGENTV_WORKSPACE_PATH": "/workspace", "AGENTV_EVAL_ID": self.job.case.id}
        return Rooms(
            image=self.run.image.id, uid=self.uid, mounts=tuple(mounts), limits=self.limits,
            env=agent_env(env, self.run.environ, {**self.run.run_env, **own}),
        )  # fmt: skip


def _before_all(run: SuiteRun, job: Case, workspace: Workspace, files: list[StagedFile]) -> list[StagedFile]:
    """What the workspace holds after the suite's and the target's ``before_all``."""
    uid = run.sandbox.new_uid()
    size = workspace_size(files, run.suite.limits.workspace_bytes)
    with run.sandbox.volumes(
        workspace=VolumeSpec(uid=uid, inodes=50_000, size_bytes=size), input=VolumeSpec(size_bytes=_MB)
    ) as volumes:
        volumes.put("workspace", files, uid=uid)
        everybody = replace(job.case, id="__before_all__", question="", metadata={})
        agent = _AgentCase(run=run, job=replace(job, case=everybody), volumes=volumes, uid=uid,
                           workspace=workspace, limits=run.suite.limits)  # fmt: skip
        for hook in agent.hooks("before_all"):
            agent.must_hook(hook, "before_all")
        baseline = Baseline.staged(files)
        found = gather(run.sandbox, mounts=[volumes.mount("workspace", "/workspace")], known=baseline.entries,
                       store=run.store)  # fmt: skip
        moved = baseline.moved_to(found.roots["/workspace"], run.store)
        return restaged(moved)


def _output_file(found: Collected, store: BlobStore) -> tuple[bytes | None, str]:
    entry = found.roots.get("/output", {}).get(b"response.json")
    if entry is None:
        reasons = [row.reason for row in found.skipped if row.path.endswith("response.json")]
        return None, reasons[0] if reasons else ""
    if entry.kind != "file":
        return None, f"it is a {entry.kind}"
    if entry.size > MAX_BYTES:
        return None, f"it is larger than {MAX_BYTES >> 20} MiB"
    return store.read(Blob(sha256=entry.sha256, size=entry.size)), ""


def _room(files: Sequence[Path]) -> int:
    return 2 * sum(path.stat().st_size for path in files) + 64 * _MB


def _message(error: Exception) -> str:
    if isinstance(error, BuildError) and error.log:
        return f"{error.message}\n{error.log[-2000:]}"
    return error.message if isinstance(error, SandboxError) else f"{type(error).__name__}: {error}"
