"""Why a pull failed, for people, whichever engine it is."""

from __future__ import annotations

from agentv_sandbox.base.errors import EngineError
from agentv_sandbox.base.logs import safe_text

_NOT_LET_IN = (
    "unauthorized",
    "authentication required",
    "no basic auth",
    "docker login",
    "denied",
    "forbidden",
)


def not_pulled(ref: str, reason: str) -> EngineError:
    """The error for a pull that failed, with what to do about it."""
    reason = safe_text(reason, limit=1000)
    text = reason.lower()
    hint = ""
    if any(word in text for word in _NOT_LET_IN):
        first = ref.partition("/")[0]
        registry = (
            f" {first}" if "/" in ref and ("." in first or ":" in first or first == "localhost") else ""
        )
        hint = (
            f"Log in with `docker login{registry}`: the credentials of your docker configuration are used. "
            "Registries say the same of images that do not exist."
        )
    elif "toomanyrequests" in text:
        hint = "The registry limits how often it is asked: wait, or log in with `docker login`."
    return EngineError(f"cannot pull {ref}: {reason}", hint=hint)
