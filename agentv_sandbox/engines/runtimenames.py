"""What may be named as an OCI runtime: a program that starts every container, often as root."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from agentv_sandbox.base.ownership import describe, others_can_write

KNOWN = ("crun", "runc", "youki")
"""Names that are looked for natively; what a daemon's names mean, its own configuration says."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)
_EXTRA_PATH = ("/usr/local/sbin", "/usr/sbin", "/sbin")


def runtime_doubt(name: str, projects: Iterable[Path] = ()) -> str:
    """Why ``name`` is not taken as a runtime; empty for one that is. A path of ``projects`` is not: whoever wrote a
    project would decide what runs on this machine."""
    if "/" not in name:
        return (
            ""
            if _NAME.fullmatch(name)
            else f"must be a name such as runc or an absolute path, found {name!r}"
        )
    if not name.startswith("/"):
        return f"must be a name such as runc or an absolute path, found {name!r}"
    real = Path(os.path.realpath(name))
    for project in projects:
        if any(
            path.is_relative_to(os.path.realpath(project)) for path in (Path(os.path.normpath(name)), real)
        ):
            return f"{name} lies in the project {project}, which does not decide what runs on this machine"
    return _open_place(Path(name))


def find_program(name: str) -> str | None:
    """Where the runtime of a known name or an absolute path is, also one that only root has on its PATH. Folders of
    PATH to which others can write are passed over, and so are relative ones, which mean the working directory."""
    if name.startswith("/"):
        return name if os.access(name, os.X_OK) and Path(name).is_file() else None
    folders = [*os.environ.get("PATH", "").split(os.pathsep), *_EXTRA_PATH]
    found = (shutil.which(name, path=folder) for folder in dict.fromkeys(folders) if folder.startswith("/"))
    return next((path for path in found if path is not None and not _open_place(Path(path))), None)


def _open_place(path: Path) -> str:
    place = others_can_write(path, sticky_protects=True)
    if place is None:
        return ""
    return f"others than root and this user can write to {place}, {describe(place)}"
