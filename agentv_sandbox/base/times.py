"""Times as AgentV writes them."""

from __future__ import annotations

from datetime import UTC, datetime


def utc_text(moment: datetime) -> str:
    """``2026-01-02T03:04:05.678Z``. ``moment`` has a time zone."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def now_text() -> str:
    return utc_text(datetime.now(UTC))
