"""``plan`` and ``build``: a suite's image before and apart from a run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated

import typer

from agentv_sandbox.build import sentence
from agentv_sandbox.cli.common import (
    AllowOutside,
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
from agentv_sandbox.models.image import ImagePlan
from agentv_sandbox.models.suite import Suite
from agentv_sandbox.pipeline import RunOptions, build_images, select_targets
from agentv_sandbox.pipeline.images import suite_env, suite_plan_with_refusals
from agentv_sandbox.plan import dockerfile, refusals
from agentv_sandbox.report.progress import Progress
from agentv_sandbox.sandbox import Sandbox
from agentv_sandbox.settings import load_settings


def register(app: typer.Typer) -> None:
    app.command()(ending(plan))
    app.command()(ending(build))


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
    paths: Paths,
    target: TargetNames = None,
    targets: TargetsFile = None,
    allow_outside: AllowOutside = False,
) -> int:
    """Build (or find) the image of each suite and prove it, without running anything."""
    suites = load(paths, targets, target or (), allow_outside=allow_outside).suites
    settings = load_settings(suites[0].project_root if suites else Path.cwd())
    options = RunOptions(
        targets=tuple(target or ()), image=settings.image, cache_dir=cache_dir(), cwd=Path.cwd()
    )
    with Sandbox(find_engine(os.environ)) as sandbox, Progress(out, sentence=sentence) as progress:
        images = build_images(suites, sandbox, options, progress.on_event)
    for suite in suites:
        out.print(f"{suite.name}: {images[suite.path].tag}  {images[suite.path].id}", markup=False)
    return 0
