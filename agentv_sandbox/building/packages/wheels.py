"""Python distributions: chosen by uv on the host for the container's platform, fetched by hash, wheels only.

uv reads none of pip's settings, so index, extra indexes, find-links and certificates are translated for it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from urllib.parse import unquote, urlsplit

from packaging.requirements import Requirement
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import canonicalize_name, parse_wheel_filename
from uv import find_uv_bin

from agentv_sandbox import masking
from agentv_sandbox.base import hostprograms
from agentv_sandbox.base.dataclass import dataclass
from agentv_sandbox.base.errors import BuildError, ImageRequestError, Problem
from agentv_sandbox.base.logs import safe_text
from agentv_sandbox.base.ownership import temporary_folder
from agentv_sandbox.building.containers import disk_full
from agentv_sandbox.fetching.credentials import without_credentials
from agentv_sandbox.fetching.pipconf import PipSettings, portable, redacted
from agentv_sandbox.models.image import Artefact, ImageConfig
from agentv_sandbox.models.json.records import JsonRecord, under_key

_TIMEOUT_S = 300
_PYTHONS = ("3.13", "3.11", "3.12", "3.14", "3.10")
"""Versions to try when there is no answer: first those that need no image from a registry."""


@dataclass(frozen=True, kw_only=True)
class Platform:
    """The interpreter that wheels are chosen for."""

    architecture: str
    """Debian's word."""
    python: tuple[int, int]
    glibc: tuple[int, int]

    @property
    def machine(self) -> str:
        return {"amd64": "x86_64", "arm64": "aarch64"}.get(self.architecture, self.architecture)

    @property
    def uv_name(self) -> str:
        # uv knows manylinux up to 2_40; a newer C library runs everything that an older one does.
        major, minor = min(self.glibc, (2, 40))
        known = max(m for m in (17, 28, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40) if m <= minor)
        return f"{self.machine}-manylinux_{major}_{known}"

    def tags(self) -> list[Tag]:
        """Wheel tags, best first."""
        platforms = [f"manylinux_2_{minor}_{self.machine}" for minor in range(self.glibc[1], 4, -1)]
        platforms += [f"manylinux{name}_{self.machine}" for name in ("2014", "2010", "1")]
        platforms.append(f"linux_{self.machine}")
        return [
            *cpython_tags(python_version=self.python, platforms=platforms),
            *compatible_tags(python_version=self.python, interpreter=None, platforms=platforms),
        ]


def resolve_wheels(
    wanted: Sequence[str],
    platform: Platform,
    config: ImageConfig,
    settings: PipSettings,
    *,
    built: Mapping[str, Path] | None = None,
) -> tuple[Artefact, ...]:
    """The wheels of ``wanted`` and of all that they need. ``built`` are wheels by file name that are there
    already; they are used, and are not among the answer. Raises ImageRequestError when there are none."""
    if not wanted:
        return ()
    with tempfile.TemporaryDirectory(prefix="agentv-uv-", dir=temporary_folder()) as folder:
        out = Path(folder) / "pylock.toml"
        (Path(folder) / "requirements.in").write_text("\n".join([*wanted, ""]))
        argv = [
            find_uv_bin(),
            "pip",
            "compile",
            "--quiet",
            "--no-config",
            "--no-progress",
            "--python",
            sys.executable,
            "--format",
            "pylock.toml",
            "--output-file",
            str(out),
            "--only-binary",
            ":all:",
            str(Path(folder) / "requirements.in"),
        ]
        argv += [
            "--python-platform",
            platform.uv_name,
            "--python-version",
            ".".join(map(str, platform.python)),
        ]
        for name, path in (built or {}).items():
            (Path(folder) / "built").mkdir(exist_ok=True)
            shutil.copyfile(path, Path(folder) / "built" / name)
        if built:
            argv += ["--find-links", str(Path(folder) / "built")]
        if config.exclude_newer:
            argv += ["--exclude-newer", config.exclude_newer]
        done = _run_uv(argv, settings)
        if done.returncode != 0:
            text = _said(done)
            raise _about_host(text) or _resolution_error(
                text, wanted, platform, _Retry(argv, settings, folder, wanted, platform)
            )
        have = {parse_wheel_filename(name)[0] for name in built or ()}
        packages = [each for each in _locked(out) if canonicalize_name(each.name) not in have]
        return tuple(_artefacts(packages, platform, Path(folder)))


def _run_uv(argv: list[str], settings: PipSettings) -> subprocess.CompletedProcess[bytes]:
    environ = hostprograms.environment(hostprograms.UV, settings.uv_environment(os.environ))
    return hostprograms.run(hostprograms.UV, argv, env=environ, timeout_s=_TIMEOUT_S)


def _said(done: subprocess.CompletedProcess[bytes]) -> str:
    text = redacted(done.stderr.decode("utf-8", "replace"))
    return safe_text(re.sub(r"\x1b\[[0-9;]*m", "", text)).strip()


def resolve_uv(platform: Platform, config: ImageConfig, settings: PipSettings) -> tuple[Artefact, ...]:
    """The wheel of this very uv for the container. It installs and is in no image, so ``exclude_newer``, which is
    for what suites get, does not hold for it."""
    return resolve_wheels([f"uv=={version('uv')}"], platform, replace(config, exclude_newer=""), settings)


class _Wheel(JsonRecord):
    name: str
    url: str
    path: str
    size: int | None
    sha256: str = under_key("hashes/sha256")

    @property
    def filename(self) -> str:
        name = self.name or urlsplit(self.url or self.path).path.rpartition("/")[2]
        return name.replace("%2B", "+")


class _Package(JsonRecord):
    name: str
    version: str
    wheels: tuple[_Wheel, ...]


class _Pylock(JsonRecord):
    packages: tuple[_Package, ...]


def _locked(file: Path) -> tuple[_Package, ...]:
    return _Pylock.of(tomllib.loads(file.read_text(encoding="utf-8"))).packages


def _artefacts(packages: Sequence[_Package], platform: Platform, folder: Path) -> Iterator[Artefact]:
    order = {tag: place for place, tag in enumerate(platform.tags())}
    for package in packages:
        best: tuple[int, _Wheel] | None = None
        for wheel in package.wheels:
            places = [order[tag] for tag in parse_wheel_filename(wheel.filename)[3] if tag in order]
            if places and (best is None or min(places) < best[0]):
                best = (min(places), wheel)
        if best is None:
            raise BuildError(f"{package.name} {package.version} has no wheel for this platform")
        wheel = best[1]
        url = wheel.url or (folder / wheel.path).resolve().as_uri()
        yield Artefact(
            name=package.name,
            version=package.version,
            url=portable(without_credentials(url)),
            size=wheel.size or _file_size(url),
            sha256=wheel.sha256,
        )


def _file_size(url: str) -> int:
    if url.startswith("file:"):
        return Path(unquote(urlsplit(url).path)).stat().st_size
    return 0  # the index does not report a size; the hash decides


_UNREACHABLE = re.compile(
    r"error sending request|Failed to fetch|connection|connect error|dns error|timed out|certificate", re.I
)
_REFUSED = re.compile(r"^hint: An index .*$", re.M)
"""How uv says that an index did not let it read."""
_NO_SPACE = re.compile(r"No space left on device|os error 28|Disk quota exceeded", re.I)


def _about_host(text: str) -> BuildError | None:
    """The error when uv's words are about this host and not about the packages."""
    if _NO_SPACE.search(text):
        return disk_full("the disk of uv's cache or of the temporary folder")
    if _UNREACHABLE.search(text):
        return BuildError(
            f"the Python package index cannot be read:\n{masking.last(text, 1500)}",
            hint="Proxy, certificate and index settings of pip and the environment are used; see `pip config list`.",
        )
    return None


class _Retry:
    """The same request under other conditions, to find out what would help."""

    def __init__(
        self, argv: list[str], settings: PipSettings, folder: str, wanted: Sequence[str], platform: Platform
    ) -> None:
        self._argv, self._settings, self._folder = argv, settings, Path(folder)
        self._wanted, self._platform = wanted, platform

    def python(self) -> str:
        """The first version of Python with which there is an answer; those of Debian's releases first."""
        own = ".".join(map(str, self._platform.python))
        for python in _PYTHONS:
            if python != own and self._lock(self._wanted, python) is not None:
                return python
        return ""

    def refusals(self) -> str:
        """What indexes answered that could not be read. uv says it where the first index that has a name decides,
        and not where the newest of all indexes does."""
        (self._folder / "requirements.in").write_text("\n".join([*self._wanted, ""]))
        try:
            done = _run_uv([*self._argv, "--index-strategy", "first-index"], self._settings)
        except subprocess.TimeoutExpired:
            return ""
        return "\n".join(_REFUSED.findall(_said(done)))

    def newest(self, requirement: str) -> str:
        """The newest version of the distribution that ``requirement`` names; empty when there is none."""
        name = Requirement(requirement).name
        found = self._lock([name], ".".join(map(str, self._platform.python)), "--no-deps") or ()
        return next((each.version for each in found), "")

    def _lock(self, wanted: Sequence[str], python: str, *more: str) -> tuple[_Package, ...] | None:
        (self._folder / "requirements.in").write_text("\n".join([*wanted, ""]))
        argv = [*self._argv, *more]
        argv[argv.index("--python-version") + 1] = python
        out = self._folder / "pylock.toml"
        out.unlink(missing_ok=True)
        try:
            done = _run_uv(argv, self._settings)
        except subprocess.TimeoutExpired:
            return None
        return _locked(out) if done.returncode == 0 else None


def _resolution_error(
    text: str, wanted: Sequence[str], platform: Platform, retry: _Retry
) -> ImageRequestError:
    """What was asked, what there is, and what would help."""
    missing = [
        name
        for name in wanted
        if Requirement(name).specifier and f"no version of {name}" in re.sub(r"\s+", " ", text)
    ]
    if missing:
        return ImageRequestError([_missing(name, retry.newest(name)) for name in missing])
    hint = (
        "Only wheels are installed. Pin another version or distribution, take Debian's own package, "
        "workspace.env.packages: {apt: {MODULE: python3-…}}, or have the wheel built from its sources: "
        "{sdist: {MODULE: DISTRIBUTION}}."
    )
    if python := retry.python():
        hint = f"With Python {python} there is one: workspace.env.versions: {{python: '{python}'}}. {hint}"
    if not _REFUSED.search(text) and (refusals := retry.refusals()):
        text += f"\n\n{refusals}"
    own = ".".join(map(str, platform.python))
    return ImageRequestError(
        [
            Problem(
                message=f"no set of wheels for Python {own} satisfies {', '.join(wanted)}:\n{masking.last(text, 1500)}",
                field="workspace.env.packages.pip",
                hint=hint,
            )
        ]
    )


def _missing(asked: str, newest: str) -> Problem:
    name = Requirement(asked).name
    there = f"the newest wheel is {name} {newest}" if newest else f"there is no wheel of {name} at all"
    return Problem(
        message=f"no wheel satisfies {asked}; {there}",
        field="workspace.env.packages.pip",
        hint=f"Pin a version that exists: {name}=={newest}." if newest else "Is the name right?",
    )
