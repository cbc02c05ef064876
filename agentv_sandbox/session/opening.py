"""How a session begins."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path

from agentv_sandbox.base.errors import InputError, Problem
from agentv_sandbox.box import open_box
from agentv_sandbox.containers.policy import PATH, Role, policy_of
from agentv_sandbox.containers.sandbox import Sandbox, System
from agentv_sandbox.containers.volumes import StagedFile
from agentv_sandbox.models.container import ImageInfo, LimitOverrides, Mount, VolumeSpec
from agentv_sandbox.models.paths import VAR_TMP, WORKSPACE
from agentv_sandbox.models.suite import NetworkPolicy, SystemSpec, Workspace
from agentv_sandbox.request import ignore
from agentv_sandbox.session.files import Files, staged_files
from agentv_sandbox.session.place import Asked, place_for
from agentv_sandbox.session.session import Held, Needs, Session
from agentv_sandbox.session.snapshots import Snapshot, in_use
from agentv_sandbox.steps.invoke import with_overrides
from agentv_sandbox.workspace.template import workspace_volume

SNAPSHOT = "/snapshot"
"""Where a session sees one whose files are to be copied."""
LIFETIME_S = 86_400.0
"""After which a session ends that nobody closed."""


_SCRATCH = VolumeSpec(mode=0o1777)
"""Where programs keep what is to outlive their temporary files."""
_OWN_USERS = "sed -i -E '/^(passwd|group|shadow):/s/ unknown//' /etc/nsswitch.conf"
"""Our images know every number as a user. On a system, whose root adds users, all would be taken."""


def open_session(
    *,
    needs: Needs = Needs(),  # noqa: B008 - frozen
    image: str | None = None,
    dockerfile: Path | None = None,
    files: Files | None = None,
    env: Mapping[str, str] | None = None,
    limits: LimitOverrides = LimitOverrides(),  # noqa: B008 - frozen
    network: NetworkPolicy = NetworkPolicy(),  # noqa: B008 - frozen
    system: SystemSpec | None = None,
    workspace: bool = True,
    var_tmp: bool = False,
    snapshot: Snapshot | str | None = None,
    lifetime_s: float = LIFETIME_S,
    engine: str | None = None,
    environ: Mapping[str, str] | None = None,
    stop: threading.Event | None = None,
    on_event: Callable[..., None] = ignore,
) -> Session:
    """Build, or find, an image that has ``needs``, prove it, and open a workspace with ``files``.

    ``image`` or ``dockerfile``: what the image is built on, in place of Debian; ``env``: variables of all commands;
    ``limits``: of memory, processors and processes that all commands share, of the workspace's size, and of each
    command's time and output where it names none; ``network``: what may be reached, by default nothing;
    ``snapshot``: what the workspace begins with, ``files`` over it;
    ``system``: have commands work on a writable, bounded copy of the image, by default as its root (natively);
    ``workspace=False``: on nothing else, so that paths are those of the image and commands begin where it says;
    ``var_tmp``: whether ``/var/tmp`` can be written, too, within a bound;
    ``lifetime_s``: after which the session ends by itself; ``engine``: its kind, over that of the settings, which are
    those of the working directory.
    ``stop`` ends everything when it is set. Close the session, or use it as a context manager; what it holds is removed
    in any case when the process ends.
    Raises InputError, ImageRequestError with all that cannot be provided, BuildError, EngineError, Cancelled.
    """
    asked = Asked(needs=needs, image=image, dockerfile=dockerfile)
    asked.spec()
    if not workspace and (system is None or snapshot is not None):
        message = "a session without a workspace works on a system, and begins with no snapshot"
        raise InputError([Problem(message=message, hint="Give it system=SystemSpec().")])
    staged = list(staged_files(files or {}, below=WORKSPACE if workspace else "/"))
    stop = stop or threading.Event()
    with ExitStack() as opening:
        place = opening.enter_context(place_for(asked, engine=engine, environ=environ))
        image_made = place.image(asked, on_event)
        made, declared = image_made.id, place.declared(image_made) if system is not None else None
        policy = policy_of(Role.AGENT, system=system is not None)
        bounds = place.sandbox.bounded(with_overrides(policy.limits, limits), Role.AGENT)
        grant = opening.enter_context(place.way_out.grant(network, {}))
        whole = opening.enter_context(_system(place.sandbox, made, system, declared))
        uid = place.sandbox.new_uid() if whole is None else place.sandbox.uid_in(made, whole.user)
        begun, mounts = None, list[Mount]()
        if workspace:
            begun, uid, mounts = opening.enter_context(
                _workspace(place.sandbox, staged, limits, uid, snapshot, of_user=system is None)
            )
        # Each step is undone by the stack until the session owns it: an error leaves nothing behind.
        if var_tmp and whole is None:
            scratch = opening.enter_context(place.sandbox.unheld_workspace(_SCRATCH))
            mounts.append(Mount(source=scratch, target=VAR_TMP, read_only=False))
        box = opening.enter_context(
            open_box(
                place.sandbox,
                image=made,
                mounts=[*mounts, *grant.mounts],
                limits=replace(bounds, timeout_s=lifetime_s),
                cancelled=stop.is_set,
                wrap=grant.wrap,
                system=whole,
            )
        )
        held = Held(
            sandbox=place.sandbox,
            box=box,
            workspace=Mount(source=mounts[0].source, target=WORKSPACE) if workspace else None,
            image=made,
            uid=uid,
            limits=bounds,
            env={**grant.env, **(env or {})},
            stop=stop,
            opened_with=tuple(staged),
            snapshot=begun,
            system=declared,
            folder=_folder(system, declared, has_workspace=workspace),
        )
        session = Session(held)
        if whole is not None:
            session.exec(_OWN_USERS, user=0, env={"PATH": PATH}, cwd="/")
        if any(mount.target == SNAPSHOT for mount in mounts):
            session.copy_in(SNAPSHOT)
        if staged:
            session.put(files or {})
        session.closing = opening.pop_all()
        return session


def _system(
    sandbox: Sandbox, image: str, asked: SystemSpec | None, declared: ImageInfo | None
) -> AbstractContextManager[System | None]:
    if asked is None:
        return nullcontext()
    user = asked.user or (declared.user if declared is not None else "")
    return sandbox.system(image, size_bytes=asked.size_bytes, inodes=asked.files, user=user)


@contextmanager
def _workspace(
    sandbox: Sandbox,
    staged: list[StagedFile],
    limits: LimitOverrides,
    uid: int,
    snapshot: Snapshot | str | None,
    *,
    of_user: bool,
) -> Iterator[tuple[Snapshot | None, int, list[Mount]]]:
    """What it begins with, whose it is, and what is mounted for it: the workspace first, then a snapshot that is to be
    copied. ``of_user``: whether it belongs to whom its snapshot belonged to."""
    size = workspace_volume(staged, limits, uid, workspace=Workspace())
    with ExitStack() as opening:
        begun, below = None, []
        if snapshot is not None:
            begun = opening.enter_context(in_use(sandbox, snapshot))
            uid = begun.uid if of_user else uid
            size = replace(size, uid=uid, over=begun.volume if sandbox.info.systems else "")
            below = [] if size.over else [Mount(source=begun.volume, target=SNAPSHOT)]
        volume = opening.enter_context(sandbox.unheld_workspace(size))
        yield begun, uid, [Mount(source=volume, target=WORKSPACE, read_only=False), *below]


def _folder(system: SystemSpec | None, image: ImageInfo | None, *, has_workspace: bool) -> str:
    """In which commands begin."""
    if has_workspace or system is None or image is None:
        return WORKSPACE
    return system.workdir or image.workdir or "/"
