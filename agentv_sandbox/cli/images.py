"""``plan`` and ``build``: a suite's image before and apart from a run."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from agentv_sandbox.build import sentence
from agentv_sandbox.cli.common import (
    AllowOutside,
    Frozen,
    Paths,
    TargetNames,
    TargetsFile,
    cache_dir,
    ending,
    load,
    out,
    show_problems,
)
from agentv_sandbox.engines.docker import find_engine
from agentv_sandbox.models.image import ImagePlan, LockMode
from agentv_sandbox.models.suite import Suite
from agentv_sandbox.pipeline import RunOptions, build_images, select_targets
from agentv_sandbox.pipeline.images import suite_env, suite_plan_with_refusals
from agentv_sandbox.plan import dockerfile, refusals
from agentv_sandbox.report.progress import Progress
from agentv_sandbox.sandbox import Sandbox
from agentv_sandbox.settings import load_settings

OptionalPaths = Annotated[
    list[Path] | None, typer.Argument(metavar="[PATH...]", help="Eval files, folders or globs.")
]


def register(app: typer.Typer) -> None:
    app.command()(ending(plan))
    app.command()(ending(build))
    app.command()(ending(lock))


def plan(
    paths: Paths,
    target: TargetNames = None,
    targets: TargetsFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON, refusals included.")] = False,
    as_dockerfile: Annotated[
        bool, typer.Option("--dockerfile", help="As an equivalent Dockerfile, for people.")
    ] = False,
    allow_outside: AllowOutside = False,
) -> int:
    """Show what the image of each suite would hold, and why. Builds and fetches nothing."""
    suites = load(paths, targets, target or (), allow_outside=allow_outside).suites
    settings = load_settings(suites[0].project_root if suites else Path.cwd())
    plans = [
        (suite, suite_plan_with_refusals(suite, select_targets(suite, target or ()), settings.image))
        for suite in suites
    ]
    if as_json:
        typer.echo(json.dumps([_as_json(suite, made) for suite, made in plans], indent=2))
    for suite, made in plans:
        if as_dockerfile:
            typer.echo(dockerfile(made))
        elif not as_json:
            _show(suite, made)
        if not as_json:
            show_problems(refusals(suite_env(suite), made))
    return 2 if any(made.refused for _, made in plans) else 0


def _as_json(suite: Suite, made: ImagePlan) -> dict[str, object]:
    return {
        "suite": str(suite.path),
        "key": made.key,
        "base": made.base or f"debian:{made.suite}-slim",
        "apt": list(made.apt),
        "pip": list(made.pip),
        "npm": list(made.npm),
        "links": dict(made.links),
        "provides": dict(made.provides),
        "refused": dict(made.refused),
        "why": {name: list(reasons) for name, reasons in made.why.items()},
    }


def _show(suite: Suite, made: ImagePlan) -> None:
    out.print(f"{suite.name}: on {made.base or f'debian {made.suite}, slim'}", markup=False)
    for package, reasons in sorted(made.why.items()):
        out.print(f"  {package:<32} {'; '.join(reasons)}", markup=False)
    if not made.why:
        out.print("  nothing beyond the base and Python", markup=False)


def build(
    paths: OptionalPaths = None,
    target: TargetNames = None,
    targets: TargetsFile = None,
    frozen: Frozen = False,
    allow_outside: AllowOutside = False,
) -> int:
    """Build (or find) the image of each suite and prove it, without running anything. No PATH: the base alone."""
    suites = load(paths, targets, target or (), allow_outside=allow_outside).suites if paths else ()
    return _build(suites, target or (), "frozen" if frozen else "default")


def lock(
    paths: Paths,
    target: TargetNames = None,
    targets: TargetsFile = None,
    update: Annotated[bool, typer.Option("--update", help="Resolve anew, to what is current today.")] = False,
    allow_outside: AllowOutside = False,
) -> int:
    """Write agentv-sandbox.lock beside each suite: every file of its image, by hash."""
    suites = load(paths, targets, target or (), allow_outside=allow_outside).suites
    return _build(suites, target or (), "update" if update else "default")


def _build(suites: Sequence[Suite], target: Sequence[str], mode: LockMode) -> int:
    settings = load_settings(suites[0].project_root if suites else Path.cwd())
    options = RunOptions(
        targets=tuple(target), image=settings.image, cache_dir=cache_dir(), cwd=Path.cwd(), lock_mode=mode
    )
    with Sandbox(find_engine(os.environ)) as sandbox, Progress(out, sentence=sentence) as progress:
        images = build_images(suites, sandbox, options, progress.on_event)
        tool_image = sandbox.tool_image
    for suite in suites:
        out.print(f"{suite.name}: {images[suite.path].tag}  {images[suite.path].id}", markup=False)
    if not suites:
        out.print(tool_image, markup=False)
    return 0
