"""CSV or TSV to its shape, column types and first rows, with Python's standard library alone.

Reads the preprocessor protocol: {"path": ...} on standard input, text on standard output. For tables that are
too long to put into a prompt as they are.
"""

import csv
import json
import sys
from pathlib import Path

SAMPLE_ROWS = 20
MAX_ROWS = 1_000_000
MAX_COLUMNS = 500
MAX_VALUES = 1000  # distinct values counted for each column
DIALECT_BYTES = 16_384


def main():
    path = Path(json.load(sys.stdin)["path"])
    if not path.stat().st_size:
        sys.exit("the file is empty")
    csv.field_size_limit(1 << 20)
    try:
        with path.open(encoding=encoding_of(path), newline="") as stream:
            delimiter = delimiter_of(stream.read(DIALECT_BYTES))
            stream.seek(0)
            sys.stdout.write("\n".join(described(csv.reader(stream, delimiter=delimiter), delimiter)) + "\n")
    except (csv.Error, UnicodeDecodeError) as error:
        sys.exit(f"not a readable CSV file: {error}")


def encoding_of(path):
    with path.open("rb") as stream:
        start = stream.read(4096)
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if b"\0" in start:
        sys.exit("not a readable CSV file: it holds NUL bytes")
    try:
        start[: start.rfind(b"\n") + 1].decode("utf-8")
    except UnicodeDecodeError:
        return "cp1252"
    return "utf-8-sig"


def delimiter_of(text):
    """The candidate that splits the first lines into most equal parts."""
    lines = [line for line in text.splitlines()[:20] if line.strip()]
    if not lines:
        sys.exit("the file is empty")

    def score(delimiter):
        widths = [len(row) for row in csv.reader(lines, delimiter=delimiter)]
        return (min(widths) > 1, max(widths) > 1, -len(set(widths)), min(widths))

    return max(",;\t|", key=score)


def described(rows, delimiter):
    header = next(rows)[:MAX_COLUMNS]
    columns = [Column(name) for name in header]
    sample, count, ragged = [header], 0, 0
    for row in rows:
        if not row:
            continue
        count += 1
        ragged += len(row) != len(header)
        if count <= SAMPLE_ROWS:
            sample.append(row[:MAX_COLUMNS])
        for column, value in zip(columns, row, strict=False):
            column.add(value.strip())
        if count == MAX_ROWS:
            break
    name = {"\t": "tab", ";": "semicolon", ",": "comma", "|": "bar"}[delimiter]
    yield f"table: {count}{' or more' if count == MAX_ROWS else ''} rows, {len(header)} columns, {name} separated"
    if ragged:
        yield f"rows with another number of cells than the header: {ragged}"
    yield ""
    yield from (f"- {column}" for column in columns)
    yield f"\nfirst {min(count, SAMPLE_ROWS)} rows:"
    for row in sample:
        yield ",".join(quoted(cell) for cell in row)


class Column:
    def __init__(self, name):
        self.name = name
        self.kinds = set()
        self.empty = 0
        self.values = set()
        self.low = self.high = None

    def add(self, value):
        if not value:
            self.empty += 1
            return
        if len(self.values) < MAX_VALUES:
            self.values.add(value)
        try:
            number = float(value)
        except ValueError:
            self.kinds.add("text")
            return
        self.kinds.add("integer" if value.lstrip("+-").isdigit() else "number")
        self.low = number if self.low is None else min(self.low, number)
        self.high = number if self.high is None else max(self.high, number)

    def __str__(self):
        kind = "text" if "text" in self.kinds else "number" if "number" in self.kinds else "integer"
        if not self.kinds:
            return f"{self.name}: empty"
        more = "+" if len(self.values) == MAX_VALUES else ""
        text = f"{self.name}: {kind}, {len(self.values)}{more} distinct"
        if kind != "text":
            text += f", {self.low:.15g} to {self.high:.15g}"
        return text + (f", {self.empty} empty" if self.empty else "")


def quoted(cell):
    return '"' + cell.replace('"', '""') + '"' if any(c in cell for c in ',"\n\r') else cell


if __name__ == "__main__":
    main()
