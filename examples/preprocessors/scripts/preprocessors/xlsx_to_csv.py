"""Excel workbook (.xlsx, .xlsm) to CSV, one block a sheet, with openpyxl.

Reads the preprocessor protocol: {"path": ...} on standard input, text on standard output. Shows the stored
results of formulas and names the formulas, merged ranges and hidden sheets; comments are listed too.
"""

import csv
import io
import json
import sys
from datetime import datetime, time, timedelta
from itertools import islice
from pathlib import Path

from openpyxl import load_workbook
from openpyxl.cell.cell import MergedCell

MAX_ROWS = 2000  # of a sheet
MAX_COLUMNS = 200
MAX_LISTED = 200  # formulas, merged ranges and comments of a sheet, each


def main():
    path = Path(json.load(sys.stdin)["path"])
    with path.open("rb") as stream:
        start = stream.read(8)
    if not start:
        sys.exit("the file is empty")
    if start.startswith(b"\xd0\xcf\x11\xe0"):
        sys.exit("the workbook is encrypted, or an old .xls file")
    try:
        with path.open("rb") as stream:  # of a path, openpyxl would ask for a certain suffix
            values = load_workbook(stream, data_only=True)
            formulas = load_workbook(stream)
        text = "\n".join(sheet(ws, formulas[ws.title]) for ws in values.worksheets)
    except Exception as error:  # a broken file can make the library raise anything
        sys.exit(f"not a readable .xlsx file: {error.args[0] if error.args else error}")
    sys.stdout.write(text)


def sheet(values, formulas):
    """One worksheet: heading, CSV, then what CSV cannot say."""
    hidden = "" if values.sheet_state == "visible" else " (hidden)"
    parts = [f"## Sheet: {values.title}{hidden}\n"]
    named, comments = [], []
    rows = []
    for row in islice(formulas.iter_rows(), MAX_ROWS):
        cells = []
        for cell in row[:MAX_COLUMNS]:
            if isinstance(cell, MergedCell) or cell.value is None:
                cells.append("")
                continue
            formula = formula_of(cell)
            if formula:
                named.append(f"{cell.coordinate} {formula}")
            if cell.comment:
                comments.append(f"{cell.coordinate}: {' '.join(cell.comment.text.split())}")
            result = values.cell(cell.row, cell.column).value
            cells.append(shown(result) if result is not None else formula or "")
        rows.append(cells)
    parts.append(table(rows))
    if formulas.max_row > MAX_ROWS or formulas.max_column > MAX_COLUMNS:
        parts.append(f"(cut: only the first {MAX_ROWS} rows and {MAX_COLUMNS} columns are shown)\n")
    merged = [str(area) for area in formulas.merged_cells.ranges]
    if named:
        parts.append("Formulas:\n" + "".join(f"- {item}\n" for item in named[:MAX_LISTED]))
    if merged:
        parts.append("Merged cells: " + ", ".join(merged[:MAX_LISTED]) + "\n")
    if comments:
        parts.append("Comments:\n" + "".join(f"- {item}\n" for item in comments[:MAX_LISTED]))
    return "\n".join(parts)


def formula_of(cell):
    if cell.data_type != "f":
        return None
    text = getattr(cell.value, "text", cell.value)  # array formulas are objects
    return text if str(text).startswith("=") else f"={text}"


def shown(value):
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, datetime):
        return value.isoformat(" ", "seconds").removesuffix(" 00:00:00")
    if isinstance(value, timedelta):
        seconds = round(value.total_seconds())
        return f"{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    if isinstance(value, time):
        return value.isoformat("seconds")
    if isinstance(value, int | float):
        return f"{value:.15g}"
    return str(value)


def table(rows):
    """CSV without empty cells at the right and empty rows at the end."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    kept = [row[: max((n + 1 for n, cell in enumerate(row) if cell), default=0)] for row in rows]
    last = max((n + 1 for n, row in enumerate(kept) if row), default=0)
    writer.writerows(kept[:last])
    return out.getvalue()


if __name__ == "__main__":
    main()
