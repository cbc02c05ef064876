"""What commands may use at most, as far as somebody says so."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class LimitOverrides:
    """What a suite, a target or the command line asks for; ``None`` keeps the role's default."""

    memory_bytes: int | None = None
    cpus: float | None = None
    pids: int | None = None
    timeout_s: float | None = None
    workspace_bytes: int | None = None
    workspace_inodes: int | None = None
    tmp_bytes: int | None = None
    output_bytes: int | None = None
