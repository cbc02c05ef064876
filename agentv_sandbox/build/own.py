"""Images that the user brings: a Dockerfile is built, what an image declares of its own is taken off.

VOLUME, ENTRYPOINT, HEALTHCHECK, ONBUILD and variables of an image act on every container made from it. Builds
and runs state all of that themselves, so the base is given a clean configuration; its files stay as they are.
"""

from __future__ import annotations

import fnmatch
import hashlib
import io
import os
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from agentv_sandbox.build.archive import reconfigured
from agentv_sandbox.build.events import OnEvent
from agentv_sandbox.engines import LABEL_ENV_KEY, ContainerEngine
from agentv_sandbox.errors import BuildError, InputError, Problem
from agentv_sandbox.logs import safe_text
from agentv_sandbox.models.container import ImageInfo

MAX_CONTEXT_BYTES = 512 << 20
_HOSTILE_ENV = ("LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP",
                "NODE_OPTIONS", "PERL5OPT", "PERL5LIB", "RUBYOPT", "BASH_ENV", "ENV", "PROMPT_COMMAND")  # fmt: skip


def build_dockerfile(engine: ContainerEngine, dockerfile: Path, *, on_event: OnEvent) -> ImageInfo:
    """The image of a user's Dockerfile; rebuilt when a file of its folder changes."""
    if not dockerfile.is_file():
        raise InputError(
            [Problem(message="there is no such Dockerfile", path=dockerfile, field="workspace.docker")]
        )
    context = _context(dockerfile)
    key = hashlib.sha256(context).hexdigest()
    tag = f"agentv-own:{key[:16]}"
    info = engine.image(tag)
    if info is None or info.labels.get(LABEL_ENV_KEY) != key:
        on_event("own.build", {"path": str(dockerfile), "bytes": len(context)})

        def show(chunk: bytes) -> None:
            for line in chunk.decode("utf-8", "replace").splitlines():
                if line.strip():
                    on_event("own.log", {"line": safe_text(line, limit=300)})

        engine.build(context, tag=tag, labels={LABEL_ENV_KEY: key}, on_output=show)
        info = engine.image(tag)
    if info is None:
        raise BuildError(f"the engine built {dockerfile.name} and does not have its image")
    return info


def findings(info: ImageInfo) -> list[str]:
    """What the image's configuration would do to containers, for people; each is neutralised."""
    found = [f"VOLUME {path}: would be a fresh volume in every container" for path in info.volumes]
    if info.entrypoint:
        found.append(f"ENTRYPOINT {list(info.entrypoint)}: would run before every command")
    if info.healthcheck:
        found.append("HEALTHCHECK: would run beside every command")
    found += [f"ONBUILD {step}: would run in images built on it" for step in info.onbuild]
    if info.workdir not in ("", "/"):
        found.append(f"WORKDIR {info.workdir}: commands run in /workspace")
    if info.user not in ("", "0", "root", "0:0"):
        found.append(f"USER {info.user}: every role has a user of its own")
    for name, _, value in (entry.partition("=") for entry in info.env):
        if name in _HOSTILE_ENV and value:
            found.append(f"ENV {name}: would change what programs load")
    return found


def neutralised(engine: ContainerEngine, info: ImageInfo, *, on_event: OnEvent) -> ImageInfo:
    """``info``, or a twin with the same layers and a clean configuration when its own would act."""
    found = findings(info)
    for finding in found:
        on_event("own.finding", {"finding": safe_text(finding, limit=300)})
    if not (info.volumes or info.onbuild or any(finding.startswith("ENV ") for finding in found)):
        return info  # what is left is stated anew for every container
    tag = f"agentv-own:clean-{info.id.removeprefix('sha256:')[:16]}"
    clean = engine.image(tag)
    if clean is None:
        with tempfile.TemporaryFile() as saved, tempfile.TemporaryFile() as changed:
            for chunk in engine.save_image(info.id):
                saved.write(chunk)
            saved.seek(0)
            reconfigured(saved, changed, tag=tag, drop_env=frozenset(_HOSTILE_ENV))
            changed.seek(0)
            engine.load_image(changed)
        clean = engine.image(tag)
    if clean is None:
        raise BuildError("the engine did not take the cleaned base image")
    return clean


def _context(dockerfile: Path) -> bytes:
    """The Dockerfile's folder as a tar, .dockerignore applied, without times and owners."""
    root = dockerfile.parent
    ignore = _ignore_rules(root)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path, name in _files(root, ignore):
            info = tarfile.TarInfo(name)
            if path.is_symlink():
                info.type, info.linkname = tarfile.SYMTYPE, str(path.readlink())
                tar.addfile(info)
                continue
            data = path.read_bytes()
            info.size, info.mode = len(data), 0o755 if os.access(path, os.X_OK) else 0o644
            tar.addfile(info, io.BytesIO(data))
            if out.tell() > MAX_CONTEXT_BYTES:
                raise InputError(
                    [Problem(message=f"its folder holds more than {MAX_CONTEXT_BYTES >> 20} MB", path=dockerfile,
                             hint="Exclude files in .dockerignore, or give the Dockerfile a folder of its own.")]
                )  # fmt: skip
        if dockerfile.name != "Dockerfile":
            data = dockerfile.read_bytes()
            info = tarfile.TarInfo("Dockerfile")
            info.size, info.mode = len(data), 0o644
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def _files(root: Path, rules: list[tuple[bool, str]]) -> Iterator[tuple[Path, str]]:
    for folder, names, files in os.walk(root):
        names.sort()
        names[:] = [name for name in names if name != ".git"]
        for name in sorted([*files, *(n for n in names if (Path(folder) / n).is_symlink())]):
            path = Path(folder) / name
            relative = path.relative_to(root).as_posix()
            if name == "Dockerfile" or not _ignored(relative, rules):
                yield path, relative


def _ignore_rules(root: Path) -> list[tuple[bool, str]]:
    """(keep, pattern) of each line of .dockerignore."""
    path = root / ".dockerignore"
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    rules = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    return [(rule.startswith("!"), rule.lstrip("!").strip("/")) for rule in rules]


def _ignored(relative: str, rules: list[tuple[bool, str]]) -> bool:
    """The last rule that matches the path or a folder above it decides."""
    parts = relative.split("/")
    prefixes = ["/".join(parts[: n + 1]) for n in range(len(parts))]
    ignored = False
    for keep, pattern in rules:
        names = [pattern, pattern.removeprefix("**/")]
        if any(fnmatch.fnmatchcase(prefix, name) for prefix in prefixes for name in names):
            ignored = not keep
    return ignored


__all__ = ["build_dockerfile", "findings", "neutralised"]
