"""What a step takes from the Dockerfile's folder, as a hash: a step is done again when that changes."""

from __future__ import annotations

import hashlib
import posixpath
import re
import tarfile
from collections.abc import Iterable
from typing import IO

from agentv_sandbox.models.image import content_key

_GLOB = re.compile(r"[*?\[]")


class ContextIndex:
    """The members of a context, which is a tar of ours."""

    def __init__(self, context: IO[bytes]) -> None:
        self._rows: dict[str, list[object]] = {}
        self._has_links = False
        context.seek(0)
        with tarfile.open(fileobj=context, mode="r:") as tar:
            for member in tar:
                file = tar.extractfile(member) if member.isreg() else None
                digest = hashlib.file_digest(file, "sha256").hexdigest() if file is not None else ""  # type: ignore[arg-type]
                self._has_links |= member.issym()
                self._rows[member.name] = [member.type.decode(), member.mode, member.linkname, digest]

    def key(self, patterns: Iterable[str]) -> str:
        """The hash of all that the patterns may mean; of links everything, since they may lead anywhere."""
        prefixes = [_fixed_part(pattern) for pattern in patterns]
        everything = "" in prefixes or self._has_links
        rows = {
            name: row
            for name, row in self._rows.items()
            if everything or any(name == prefix or name.startswith(f"{prefix}/") for prefix in prefixes)
        }
        return content_key(rows)


def _fixed_part(pattern: str) -> str:
    """The folders of a pattern before the first that is not a plain name."""
    parts = posixpath.normpath(f"/{pattern}").strip("/").split("/")
    fixed = []
    for part in parts:
        if _GLOB.search(part):
            break
        fixed.append(part)
    return "/".join(fixed)
