"""Files that ``ADD`` takes from an address: each is named by its content, and kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from agentv_sandbox.base.errors import BuildError, Problem
from agentv_sandbox.base.logs import safe_name
from agentv_sandbox.building.dockerfiles.surroundings import Surroundings
from agentv_sandbox.dockerfile.evaluating import Copy, Step

_FETCH_BYTES = 4 << 30
_NAME_CONTENT = "Write ADD --checksum=sha256:… ADDRESS, so that every build gets the same file."
_TAKE_FILES = (
    "Put a checkout beside the Dockerfile and COPY it, or ADD an archive of one revision with its --checksum."
)


def addresses_without_content(steps: Iterable[Step], path: Path) -> Iterator[Problem]:
    """Those of the Dockerfile at ``path`` that may give something else tomorrow."""
    for step in steps:
        if not isinstance(step, Copy):
            continue
        for source in step.sources:
            name = safe_name(source, limit=200)
            if _is_repository(source):
                message, hint = f"ADD of {name}, a repository of git, is not supported", _TAKE_FILES
            elif _is_address(source) and not (step.unpacks and step.checksum):
                message, hint = f"ADD of {name} names no content", _NAME_CONTENT
            else:
                continue
            yield Problem(message=message, path=path, line=step.line, hint=hint)


def with_fetched(step: Copy, around: Surroundings, path: Path) -> Copy:
    """Its addresses as files of the cache. Raises BuildError."""
    addresses = [source for source in step.sources if _is_address(source)]
    if not addresses:
        return step
    sha256 = step.checksum.removeprefix("sha256:")
    cache = around.cache()
    if not cache.holds(sha256, 0):
        if around.config.offline:
            raise BuildError(f"{path}:{step.line}: {addresses[0]} was not fetched before, and --offline")
        got, _ = cache.fetch(addresses[0], limit=_FETCH_BYTES)
        if got != sha256:
            raise BuildError(
                f"{path}:{step.line}: {addresses[0]} has the SHA-256 {got}, not the one that is named"
            )
    name = addresses[0].rpartition("/")[2] or "index"
    rest = tuple(source for source in step.sources if source not in addresses)
    return replace(step, sources=rest, fetched=(name,), fetched_sha256=sha256)


def _is_address(source: str) -> bool:
    return source.startswith(("http://", "https://"))


def _is_repository(source: str) -> bool:
    """As Docker tells them apart."""
    whole = source.partition("#")[0].partition("?")[0]
    return source.startswith(("git@", "git://", "ssh://")) or (_is_address(source) and whole.endswith(".git"))
