"""One required name -> what to install for it, or why nothing is."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from agentv_sandbox.plan import tables
from agentv_sandbox.plan.names import EXPECTED, normalised_distribution, well_formed
from agentv_sandbox.plan.tables import Entry, Suite

# Essential packages of Debian whose commands every usable base image has, Debian or not.
_IN_EVERY_BASE = frozenset(
    ("bash", "coreutils", "dash", "debianutils", "diffutils", "findutils", "grep", "gzip", "hostname",
     "libc-bin", "mawk", "sed", "tar", "util-linux")
)  # fmt: skip

Pins = Mapping[str, Mapping[str, str]]
"""By kind and required name: package names, separated by blanks or commas."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """The answer for one name."""

    apt: tuple[str, ...] = ()
    pip: tuple[str, ...] = ()
    npm: tuple[str, ...] = ()
    link: str = ""
    run: tuple[str, ...] = ()
    provides: str = ""
    """``apt:jq``: the package that holds it."""
    distribution: str = ""
    """The PyPI distribution that must own the module."""


@dataclass(frozen=True, kw_only=True)
class Refused:
    """Why a name is not provided, and what the user may write."""

    reason: str
    hint: str
    malformed: bool = False
    """Not a name at all, so nothing may have it, the user's own image included."""


def command(name: str, pins: Pins, suite: Suite) -> Found | Refused:
    """Pinned > curated > Debian's index > refused. Never by equal name on npm or PyPI."""
    if not well_formed("command", name):
        return Refused(reason="not a command name", hint=f"Expected {EXPECTED['command']}.", malformed=True)
    entry = tables.commands(suite).get(name)
    if pinned := _pinned(name, pins):
        # How the command is linked and tried out still holds when another package is pinned for it.
        run = entry.run if entry else ("--version",)
        if isinstance(pinned, Found) and pinned.apt and entry and entry.link:
            return _with(pinned, run=run, link=entry.link)
        return _with(pinned, run=run) if isinstance(pinned, Found) else pinned
    if entry is not None:
        return _curated_command(name, entry)
    if packages := tables.debian_commands(suite).get(name):
        if packages[0] in _IN_EVERY_BASE:
            return Found(provides=f"base:{packages[0]}")
        return Found(apt=packages[:1], provides=f"apt:{packages[0]}")
    near = difflib.get_close_matches(name, [*tables.commands(suite), *tables.debian_commands(suite)], 3, 0.75)
    return Refused(
        reason="no package of Debian has a command of this name, and it is in no table",
        hint=_guesses(near) + _pin_line("apt", name, "PACKAGE") + _own_image(),
    )


def module(name: str, pins: Pins, suite: Suite) -> Found | Refused:
    """Pinned > curated > equal name among well-known distributions > Debian's own build > refused."""
    if not well_formed("module", name):
        return Refused(reason="not an import name", hint=f"Expected {EXPECTED['module']}.", malformed=True)
    if pinned := _pinned(name, pins):
        if isinstance(pinned, Found) and pinned.pip:
            return _with(pinned, distribution=normalised_distribution(pinned.pip[0]))
        return pinned
    entry = _longest_prefix(name, tables.modules(suite))
    if entry is not None:
        return _curated_module(name, entry)
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names:
        return Found(provides="base:python3")
    candidate = normalised_distribution(top)
    if candidate in tables.well_known_distributions():
        return Found(pip=(candidate,), provides=f"pip:{candidate}", distribution=candidate)
    if packages := tables.debian_modules(suite).get(top):
        return Found(apt=packages[:1], provides=f"apt:{packages[0]}")
    known = [*tables.modules(suite), *tables.debian_modules(suite)]
    near = difflib.get_close_matches(name, known, 3, 0.8)
    return Refused(
        reason="no table says which distribution holds this module; a distribution of the same name may be "
        "somebody else's",
        hint=_guesses(near) + _pin_line("pip", name, "DISTRIBUTION") + _own_image(),
    )


def _pinned(name: str, pins: Pins) -> Found | Refused | None:
    found: dict[str, tuple[str, ...]] = {}
    for kind in ("apt", "pip", "npm"):
        value = pins.get(kind, {}).get(name)
        if value is None:
            continue
        names = split_pin(kind, value)
        bad = [each for each in names if not well_formed(kind, each)]
        if bad or not names:
            return Refused(
                reason=f"the {kind} package pinned for it is not a name: {', '.join(bad) or 'empty'}",
                hint=f"Expected {EXPECTED[kind]}.",
                malformed=True,
            )
        found[kind] = names
    if not found:
        return None
    kind = next(iter(found))
    return Found(
        apt=found.get("apt", ()),
        pip=found.get("pip", ()),
        npm=found.get("npm", ()),
        provides=f"{kind}:{found[kind][0]}",
    )


def split_pin(kind: str, value: str) -> tuple[str, ...]:
    """The package names of one pin. A comma separates, except inside a Python requirement."""
    return tuple((value if kind == "pip" else value.replace(",", " ")).split())


def _curated_command(name: str, entry: Entry) -> Found | Refused:
    if entry.none:
        return Refused(reason=entry.none, hint=_pin_line("apt", name, "PACKAGE") + _own_image())
    return _from_entry(entry)


def _curated_module(name: str, entry: Entry) -> Found | Refused:
    if entry.none:
        return Refused(reason=entry.none, hint=_pin_line("pip", name, "DISTRIBUTION") + _own_image())
    found = _from_entry(entry)
    if found.pip:
        return _with(found, distribution=normalised_distribution(found.pip[0]))
    return found


def _from_entry(entry: Entry) -> Found:
    if entry.distributions:
        provides = f"pip:{normalised_distribution(entry.distributions[0])}"
    elif entry.npm:
        provides = f"npm:{entry.npm[0]}"
    elif entry.apt:
        provides = f"apt:{entry.apt[0]}"
    else:
        provides = f"base:{entry.base}"
    return Found(
        apt=entry.apt,
        pip=entry.distributions,
        npm=entry.npm,
        link=entry.link,
        run=entry.run,
        provides=provides,
    )


def _with(found: Found, *, run: tuple[str, ...] = (), link: str = "", distribution: str = "") -> Found:
    return Found(
        apt=found.apt, pip=found.pip, npm=found.npm, provides=found.provides,
        run=run or found.run, link=link or found.link, distribution=distribution or found.distribution,
    )  # fmt: skip


def _longest_prefix(name: str, rows: Mapping[str, Entry]) -> Entry | None:
    while name:
        if name in rows:
            return rows[name]
        name = name.rpartition(".")[0]
    return None


def _guesses(near: list[str]) -> str:
    return f"Did you mean {' or '.join(near)}? " if near else ""


def _pin_line(kind: str, name: str, package: str) -> str:
    return f"Say what provides it: workspace.env.packages: {{{kind}: {{{name}: {package}}}}}"


def _own_image() -> str:
    return ", or bring an image that has it: workspace.docker.image."
