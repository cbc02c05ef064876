"""What the container of a verifier left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from agentv_sandbox.models.container import Outcome


@dataclass(frozen=True, kw_only=True)
class Verified:
    """How a task's verifier ended."""

    outcome: Outcome
    exit_code: int = 0
    """It decides nothing."""
    output: bytes = b""
    """What it printed, the end of it where it printed much."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Files of ``/logs/verifier`` by their path in it, as far as they are small."""
    notes: tuple[str, ...] = ()
