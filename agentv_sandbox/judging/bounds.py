"""Bounds on what a run used, as assertions. Missing data is a failed check, never a pass."""

from __future__ import annotations

from collections.abc import Callable

from agentv_sandbox.models.case import Assertion
from agentv_sandbox.models.json.javascript import number


def bound_check(
    name: str,
    actual: float | None,
    bound: float,
    suffix: str = " max",
    *,
    missing: str = "",
    form: Callable[[float], str] = number,
) -> Assertion:
    """Whether ``actual`` is at most ``bound``. ``missing`` names the data where there is none."""
    if actual is None:
        return Assertion(text=f"{missing or name} data not available", passed=False)
    sign = "<=" if actual <= bound else ">"
    return Assertion(text=f"{name} {form(actual)} {sign} {form(bound)}{suffix}", passed=actual <= bound)


def dollars(value: float) -> str:
    return f"${value:.4f}"


def milliseconds(value: float) -> str:
    return f"{number(value)}ms"
