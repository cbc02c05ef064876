"""What a check of a judge came to, as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from agentv_sandbox.audit.judges.checking import Checked
from agentv_sandbox.audit.judges.figures import Figure
from agentv_sandbox.base.logs import safe_text

_MOST = 500


def document(checked: Checked) -> dict[str, Any]:
    """Shares from 0 to 1, kappa and differences from -1 to 1, each with `low` and `high` of its 95 % interval and the
    number of samples; null where no sample says anything."""
    found, plan = checked.measured, checked.plan
    return {
        "judge": plan.judge.target.name,
        "samples": found.samples,
        "questions": {
            "planned": len(plan.asks),
            "asked": checked.asked,
            "left": checked.left,
            "cost_usd": checked.cost_usd,
            "over_budget": checked.over_budget,
        },
        "agreement": _figure(found.agreement),
        "kappa": _figure(found.kappa),
        "too_kind": found.too_kind,
        "too_strict": found.too_strict,
        "repeatability": _figure(found.repeatability),
        "bias": {
            name: {**_figure(each.difference), "to_pass": each.to_pass, "to_fail": each.to_fail}
            for name, each in found.biases.items()
        },
        "invalid": _figure(found.invalid),
        "errors": [safe_text(each, limit=_MOST) for each in checked.errors],
        "repeats": plan.repeats,
        "seed": plan.seed,
    }


def _figure(figure: Figure | None) -> Any:
    if figure is None:
        return None
    return {name: round(value, 6) for name, value in asdict(figure).items()}
