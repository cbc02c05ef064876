"""How a session begins."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from agentv_sandbox.box import open_box
from agentv_sandbox.containers.policy import POLICIES, Role
from agentv_sandbox.models.container import Mount
from agentv_sandbox.models.limits import LimitOverrides
from agentv_sandbox.models.paths import WORKSPACE
from agentv_sandbox.models.suite import NetworkPolicy, Workspace
from agentv_sandbox.request import ignore
from agentv_sandbox.runs.session.place import Asked, place_for
from agentv_sandbox.runs.session.session import Files, Held, Needs, Session, staged_files
from agentv_sandbox.steps.invoke import with_overrides
from agentv_sandbox.workspace.template import workspace_volume

LIFETIME_S = 86_400.0
"""After which a session ends that nobody closed."""


def open_session(
    *,
    needs: Needs = Needs(),  # noqa: B008 - frozen
    image: str | None = None,
    dockerfile: Path | None = None,
    files: Files | None = None,
    env: Mapping[str, str] | None = None,
    limits: LimitOverrides = LimitOverrides(),  # noqa: B008 - frozen
    network: NetworkPolicy = NetworkPolicy(),  # noqa: B008 - frozen
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
    ``lifetime_s``: after which the session ends by itself; ``engine``: its kind, over that of the settings, which are
    those of the working directory.
    ``stop`` ends everything when it is set. Close the session, or use it as a context manager; what it holds is removed
    in any case when the process ends.
    Raises InputError, ImageRequestError with all that cannot be provided, BuildError, EngineError, Cancelled.
    """
    asked = Asked(needs=needs, image=image, dockerfile=dockerfile)
    asked.spec()
    staged = list(staged_files(files or {}))
    stop = stop or threading.Event()
    with ExitStack() as opening:
        place = opening.enter_context(place_for(asked, engine=engine, environ=environ))
        made = place.image(asked, on_event)
        bounds = place.sandbox.bounded(with_overrides(POLICIES[Role.AGENT].limits, limits), Role.AGENT)
        grant = opening.enter_context(place.way_out.grant(network, {}))
        uid = place.sandbox.new_uid()
        size = workspace_volume(staged, limits, uid, workspace=Workspace())
        volume = opening.enter_context(place.sandbox.unheld_workspace(size))
        box = opening.enter_context(
            open_box(
                place.sandbox,
                image=made,
                mounts=[Mount(source=volume, target=WORKSPACE, read_only=False), *grant.mounts],
                limits=replace(bounds, timeout_s=lifetime_s),
                cancelled=stop.is_set,
                wrap=grant.wrap,
            )
        )
        held = Held(
            sandbox=place.sandbox,
            box=box,
            workspace=Mount(source=volume, target=WORKSPACE),
            image=made,
            uid=uid,
            limits=bounds,
            env={**grant.env, **(env or {})},
            stop=stop,
            opened_with=tuple(staged),
        )
        session = Session(held)
        if staged:
            session.put(files or {})
        session.closing = opening.pop_all()
        return session
