"""What the right answer is, computed from the export. The agent never sees this file."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

SALES = Path(__file__).parent.parent / "data/sales-2025-q3.csv"


def revenue_by_region() -> dict[str, float]:
    with SALES.open(newline="") as stream:
        orders = {row["order_id"]: row for row in csv.DictReader(stream)}
    totals: dict[str, float] = defaultdict(float)
    for row in orders.values():
        totals[row["region"].strip().title()] += int(row["units"]) * float(row["unit_price_eur"])
    return {region: round(total, 2) for region, total in totals.items()}
