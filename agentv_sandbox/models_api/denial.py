"""A request that is not passed on."""

from __future__ import annotations


class Denial(Exception):
    """Why a request is refused; the text is fit for the agent, the log and the row."""

    def __init__(self, status: int, reason: str, *, retry_after_s: float | None = None) -> None:
        """``status``: 400 malformed, 403 not allowed, 404 no such operation, 413 too large, 422 not recorded, 429 too
        early. ``retry_after_s``: when it may be asked again; None: never."""
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.retry_after_s = retry_after_s


class Miss(Denial):
    """A request that a recording has no answer to."""

    def __init__(self, reason: str) -> None:
        super().__init__(422, reason)
