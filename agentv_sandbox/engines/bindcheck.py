"""The one kind of host folder that a container may see: a private one of ours, made for one grant of egress.

Everything else travels in volumes. A list of forbidden places would always lack one; so this is what is
allowed, and where it must lie.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from agentv_sandbox.base.errors import SandboxError
from agentv_sandbox.base.ownership import is_ours, is_private
from agentv_sandbox.models.container import Mount

SHARED_PREFIX = "agentv-egress-"
"""Of a folder in the system's temporary folder; its subfolder ``shared`` may be mounted. The number of the process
that made it follows."""
SHARED = "shared"


def check_bind(mount: Mount) -> None:
    """Raise SandboxError unless ``mount`` is read-only and shows ``<tmp>/agentv-egress-*/shared``, both folders
    ours, neither a link."""
    source = Path(mount.source)
    parent = source.parent
    ours = (
        mount.read_only
        and source.name == SHARED
        and parent.name.startswith(SHARED_PREFIX)
        and str(source) == mount.source
        and parent.parent == Path(tempfile.gettempdir())
        and is_ours(source)
        and is_private(parent)
    )
    if not ours:
        raise SandboxError(f"policy: no container may see the host path {mount.source}")


@contextmanager
def short_name(folder: Path) -> Iterator[Path]:
    """Another name of ``folder``, with which a socket's address fits into its 107 bytes however long TMPDIR is."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        short = Path(f"/proc/self/fd/{fd}")
        yield short if short.is_dir() else folder
    finally:
        os.close(fd)
