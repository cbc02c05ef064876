"""Parquet file to its schema and first rows, with pyarrow.

Reads the preprocessor protocol: {"path": ...} on standard input, text on standard output.
"""

import json
import sys
from pathlib import Path

from pyarrow import parquet

SAMPLE_ROWS = 20
MAX_COLUMNS = 200
MAX_VALUE_CHARS = 200


def main():
    path = Path(json.load(sys.stdin)["path"])
    if not path.stat().st_size:
        sys.exit("the file is empty")
    try:
        with parquet.ParquetFile(path) as file:
            sys.stdout.write("\n".join(described(file)) + "\n")
    except Exception as error:  # a broken file can make the library raise anything
        sys.exit(f"not a readable Parquet file: {error}")


def described(file):
    facts = file.metadata
    names = file.schema_arrow.names[:MAX_COLUMNS]
    yield f"Parquet file: {facts.num_rows} rows, {facts.num_columns} columns, {facts.num_row_groups} row groups"
    yield f"written by: {facts.created_by}"
    yield ""
    for field in list(file.schema_arrow)[:MAX_COLUMNS]:
        yield f"- {field.name}: {field.type}{'' if field.nullable else ' not null'}"
    yield f"\nfirst {min(facts.num_rows, SAMPLE_ROWS)} rows:\n"
    yield "| " + " | ".join(map(shown, names)) + " |"
    yield "|" + " --- |" * len(names)
    for batch in file.iter_batches(batch_size=SAMPLE_ROWS, columns=names):
        for row in batch.to_pylist():
            yield "| " + " | ".join(shown(row[name]) for name in names) + " |"
        break
    if facts.num_rows > SAMPLE_ROWS:
        yield f"(cut: {facts.num_rows - SAMPLE_ROWS} more rows)"


def shown(value):
    if value is None:
        return ""
    if isinstance(value, bytes):
        return f"(binary, {len(value)} bytes)"
    text = " ".join(str(value).split()).replace("|", "\\|")
    return text if len(text) <= MAX_VALUE_CHARS else text[:MAX_VALUE_CHARS] + "…"


if __name__ == "__main__":
    main()
