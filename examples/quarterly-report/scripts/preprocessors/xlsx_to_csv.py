"""Turns a workbook into text for graders: every sheet as CSV under its name.

Reads `{"path": …, "original_path": …, "media_type": …}` on stdin, writes the text to stdout.
"""

from __future__ import annotations

import csv
import json
import sys

from openpyxl import load_workbook


def main() -> None:
    request = json.load(sys.stdin)
    book = load_workbook(request["path"], read_only=True, data_only=True)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    for sheet in book:
        print(f"# sheet: {sheet.title}")
        for row in sheet.iter_rows(values_only=True):
            writer.writerow(["" if value is None else value for value in row])


if __name__ == "__main__":
    main()
