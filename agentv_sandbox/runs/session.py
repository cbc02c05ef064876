"""A box for one's own program: an image with what is needed, a workspace, and commands in it.

    import agentv_sandbox

    needs = agentv_sandbox.Needs(required_python_modules=("pandas",))
    with agentv_sandbox.open_session(needs=needs, files={"report.py": Path("report.py")}) as session:
        done = session.exec("python3 report.py > report.txt")

Each command runs in a container of its own, under the policy of an agent, on the workspace that all of them share. So a
command's whole process tree ends with it, and many may run at a time.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path, PurePosixPath
from typing import Any

from agentv_sandbox.base.errors import InputError, Problem, SandboxError
from agentv_sandbox.base.logs import safe_text
from agentv_sandbox.containers.policy import POLICIES, Role
from agentv_sandbox.containers.sandbox import Sandbox
from agentv_sandbox.containers.volumes import StagedFile, Tar, VolumeSet
from agentv_sandbox.images.plan import plan_image
from agentv_sandbox.loading import LoadResult
from agentv_sandbox.models.container import MB, ExecResult, Mount, OnOutput, Stdin
from agentv_sandbox.models.limits import LimitOverrides
from agentv_sandbox.models.paths import WORKSPACE
from agentv_sandbox.models.suite import DockerSpec, Workspace, WorkspaceEnv
from agentv_sandbox.request import RunRequest, ignore
from agentv_sandbox.runs.imagebuild import WantedImage, proved_images
from agentv_sandbox.runs.prepare import prepare
from agentv_sandbox.steps.invoke import merged, with_overrides
from agentv_sandbox.workspace.template import workspace_volume

Needs = WorkspaceEnv
"""What the image must have: ``required_commands``, ``required_python_modules``, ``packages``, ``versions``."""
Files = Mapping[str, bytes | Path]
"""Content, or a file of this machine, by its path in the workspace."""

_WORKSPACE = "workspace"
_SESSION = Path("session")
_GET_BYTES = 64 * MB
_REASON_CHARS = 300
_END_S = 30.0
"""Commands of a session that is closed have ended by then."""
_PYTHON = ("/usr/bin/python3", "-I", "-S", "-X", "utf8", "-c")


def open_session(
    *,
    needs: Needs = Needs(),  # noqa: B008 - frozen
    image: str | None = None,
    dockerfile: Path | None = None,
    files: Files | None = None,
    limits: LimitOverrides = LimitOverrides(),  # noqa: B008 - frozen
    engine: str | None = None,
    environ: Mapping[str, str] | None = None,
    stop: threading.Event | None = None,
    on_event: Callable[..., None] = ignore,
) -> Session:
    """Build, or find, an image that has ``needs``, prove it, and open a workspace with ``files``.

    ``image`` or ``dockerfile``: what the image is built on, in place of Debian; ``limits``: of each command, and the
    workspace's size; ``engine``: its kind, over that of the settings, which are those of the working directory.
    ``stop`` ends everything when it is set. Close the session, or use it as a context manager; what it holds is removed
    in any case when the process ends.
    Raises InputError, ImageRequestError with all that cannot be provided, BuildError, EngineError, Cancelled.
    """
    if image is not None and dockerfile is not None:
        raise InputError([Problem(message="an image is built on image or on dockerfile, not on both")])
    prepared = prepare(RunRequest(LoadResult(), engine=engine, environ=environ), "images")
    own = DockerSpec(image=image, dockerfile=dockerfile and dockerfile.absolute())
    plan = plan_image(needs, docker=own, config=prepared.settings.image)
    staged = list(_staged(files or {}))
    with ExitStack() as opening:
        sandbox = opening.enter_context(prepared.sandbox(stop))
        prepared.check_engine(sandbox, prepared.required_tiers)
        wanted = WantedImage(plan, needs, None, "the image of a session")
        made = proved_images({_SESSION: wanted}, sandbox, prepared.options, on_event)
        uid = sandbox.new_uid()
        size = workspace_volume(staged, limits, uid, workspace=Workspace())
        volumes = opening.enter_context(sandbox.volumes(**{_WORKSPACE: size}))
        volumes.put(_WORKSPACE, staged, uid=uid)
        box = _Box(sandbox=sandbox, volumes=volumes, image=made[_SESSION].image.id, uid=uid, limits=limits)
        return Session(box, opening.pop_all())


@dataclass(frozen=True, kw_only=True)
class _Box:
    sandbox: Sandbox
    volumes: VolumeSet
    image: str
    uid: int
    limits: LimitOverrides

    def mount(self, *, read_only: bool) -> Mount:
        return self.volumes.mount(_WORKSPACE, WORKSPACE, read_only=read_only)


class Session:
    """What ``open_session`` returns. Safe to share between threads."""

    def __init__(self, box: _Box, closing: ExitStack) -> None:
        self._box = box
        self._closing = closing
        self._lock = threading.Condition()
        self._running = 0
        """Containers that are under way."""
        self._was_used = False
        """Whether a command may have written to the workspace."""
        self._is_closed = False

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def exec(
        self,
        command: Sequence[str] | str,
        *,
        stdin: Stdin = b"",
        env: Mapping[str, str] | None = None,
        cwd: str = WORKSPACE,
        limits: LimitOverrides = LimitOverrides(),  # noqa: B008 - frozen
        on_output: OnOutput | None = None,
    ) -> ExecResult:
        """Run a program with its arguments, or a text with ``sh``, until it ends or reaches a limit: ``outcome`` says
        which. A program that fails is a result. ``limits``: over the session's; ``on_output`` gets standard output as
        it comes. Raises EngineError when the command did not run, Cancelled when the session was closed meanwhile."""
        argv = ["sh", "-c", command] if isinstance(command, str) else list(command)
        if not argv:
            raise InputError([Problem(message="a command has at least the name of a program")])
        with self._open(used=True) as box:
            return box.sandbox.run(
                Role.AGENT,
                argv,
                image=box.image,
                mounts=[box.mount(read_only=False)],
                workdir=cwd,
                env=env,
                stdin=stdin,
                limits=with_overrides(POLICIES[Role.AGENT].limits, merged(box.limits, limits)),
                uid=box.uid,
                on_output=on_output,
            )

    def put(self, files: Files) -> None:
        """Put files into the workspace, in place of what is there by their names. Raises InputError for a path that
        leads out of it, SandboxError where there is no room."""
        staged = tuple(_staged(files))
        with self._lock:
            if not self._was_used and not self._is_closed:  # nobody can have put a link there
                self._box.volumes.put(_WORKSPACE, staged, uid=self._box.uid)
                return
        with tempfile.TemporaryFile() as tar:
            for piece in Tar(staged, uid=self._box.uid):
                tar.write(piece)
            done = self._ours(Role.AGENT, "unpacker.py", stdin=tar)
        if not done.ok:
            raise SandboxError(f"the files cannot be put into the workspace: {_reason(done)}")

    def get(self, path: str, *, limit_bytes: int = _GET_BYTES) -> bytes:
        """The content of a file of the workspace. Raises SandboxError where there is none, for anything but a regular
        file, and for one of more than ``limit_bytes``."""
        checked = _checked(path)
        limits = replace(POLICIES[Role.COLLECTOR].limits, stdout_bytes=2 * limit_bytes + 2)
        done = self._ours(Role.COLLECTOR, "reader.py", checked, str(limit_bytes), limits=limits)
        if not done.ok:
            raise SandboxError(f"{safe_text(path, limit=200)} cannot be read: {_reason(done)}")
        return done.stdout

    def close(self) -> None:
        """End all commands and remove everything. Twice is fine."""
        with self._lock:
            self._is_closed = True
            self._box.sandbox.cancel()
            self._lock.wait_for(lambda: not self._running, _END_S)
        self._closing.close()

    @contextmanager
    def _open(self, *, used: bool = False) -> Iterator[_Box]:
        """The box for one container. Whoever closes it waits for the end of the block."""
        with self._lock:
            if self._is_closed:
                raise SandboxError("the session is closed")
            self._was_used |= used
            self._running += 1
        try:
            yield self._box
        finally:
            with self._lock:
                self._running -= 1
                self._lock.notify_all()

    def _ours(self, role: Role, script: str, *arguments: str, **options: Any) -> ExecResult:
        """Run a script of ours on the workspace, which ``role`` may write or not, in the tool image."""
        writes = WORKSPACE in POLICIES[role].may_write
        with self._open() as box:
            return box.sandbox.run(
                role,
                [*_PYTHON, _script(script), *arguments],
                image=box.sandbox.tool_image,
                mounts=[box.mount(read_only=not writes)],
                uid=box.uid,
                **options,
            )


def _staged(files: Files) -> Iterator[StagedFile]:
    for path, data in files.items():
        mode = 0o644
        if isinstance(data, Path):
            if not data.is_file():
                raise InputError([Problem(message="is not a file", path=data)])
            mode = 0o755 if data.stat().st_mode & 0o100 else mode
        yield StagedFile(path=_checked(path), data=data, mode=mode)


def _checked(path: str) -> str:
    """``path`` relative to the workspace, in one spelling. Raises InputError for one that leads out of it."""
    known = PurePosixPath(path)
    inside = known.relative_to(WORKSPACE) if known.is_relative_to(WORKSPACE) else known
    if inside.is_absolute() or not inside.parts or ".." in inside.parts or "\0" in path:
        raise InputError([Problem(message=f"{safe_text(path, limit=200)!r} is not a file of the workspace")])
    return str(inside)


@cache
def _script(name: str) -> str:
    return (resources.files("agentv_sandbox") / "data" / name).read_text("utf-8")


def _reason(done: ExecResult) -> str:
    said = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
    return safe_text(said, limit=_REASON_CHARS) if done.outcome == "exited" and said else done.outcome


__all__ = ["ExecResult", "LimitOverrides", "Needs", "Session", "open_session"]
