"""Excel workbook (.xlsx) to JSON: each sheet a list of rows, the first row giving the keys.

Reads the preprocessor protocol: {"path": ...} on standard input, text on standard output. Builds on the CSV
converter beside it, to show that a preprocessor finds its sibling modules.
"""

import csv
import io
import json
import sys
import zipfile

from xlsx_to_csv_plain import workbook


def main():
    path = json.load(sys.stdin)["path"]
    sheets = {}
    with zipfile.ZipFile(path) as archive:
        parts = list(workbook(archive))
    name = None
    for part in parts:
        if part.startswith("## Sheet: "):
            name = part.removeprefix("## Sheet: ").strip()
        elif name not in sheets:
            rows = list(csv.reader(io.StringIO(part)))
            sheets[name] = [dict(zip(rows[0], row, strict=False)) for row in rows[1:]]
    print(json.dumps(sheets, indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main()
