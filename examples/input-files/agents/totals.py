"""Stands in for an agent: adds up the revenue of each region of the CSV files that it is given."""

import csv
import json
import sys
from collections import Counter
from pathlib import Path

output_file, *names = sys.argv[1:]
totals: Counter[str] = Counter()
for name in names:
    with Path(name).open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            totals[row["region"]] += int(row["revenue"])
lines = [f"{region}: {total}" for region, total in sorted(totals.items())]
text = "\n".join([f"Read {len(names)} file(s).", *lines])
Path(output_file).write_text(json.dumps({"text": text}), encoding="utf-8")
