"""Tests in tables: CSV files and, where ``pyarrow`` is installed, Parquet files. A row is a test, a column one of its
keys."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agentv_sandbox import masking
from agentv_sandbox.authoring.tree import Map, Problems
from agentv_sandbox.authoring.yaml12 import parse_json_line, read_text
from agentv_sandbox.base.errors import Problem

SUFFIXES = (".csv", ".parquet")
MAX_BYTES = 256 << 20
"""Of a Parquet file, and of its columns together once they are read."""
_MAX_COLUMNS = 200
_TEXTS = frozenset({"id", "input", "criteria", "expected_outcome", "expected_output", "conversation_id"})
"""Columns whose cells are text as they stand; a cell of another one may be JSON."""


def table_rows(path: Path, problems: Problems) -> Iterator[Map]:
    """The tests of a table, each with the number of its line (CSV) or row (Parquet); what is wrong is reported."""
    rows = _csv_rows(path, problems) if path.suffix == ".csv" else _parquet_rows(path, problems)
    for line, entry in rows:
        entry.setdefault("id", f"{path.stem}-{line}")
        placed = parse_json_line(json.dumps(entry, default=str), path, line, problems)
        if isinstance(placed, Map):
            yield placed


def _csv_rows(path: Path, problems: Problems) -> Iterator[tuple[int, dict[str, Any]]]:
    text = read_text(path, problems)
    if text is None:
        return
    csv.field_size_limit(64 << 20)
    reader = csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=True)
    try:
        names = [name.strip() for name in next(reader, [])]
        if not _usable(names, path, problems):
            return
        line = reader.line_num + 1
        for cells in reader:
            if len(cells) > len(names):
                message = f"has {len(cells)} cells, and the first line names {len(names)} columns"
                hint = "a text with a comma stands in double quotes"
                problems.add(Problem(message=message, path=path, line=line, column=1, hint=hint))
            elif any(cells):
                yield line, _entry(zip(names, cells, strict=False))
            line = reader.line_num + 1
    except csv.Error as error:
        hint = "a text with a comma, a quote or a line break stands in double quotes, a quote in it is written twice"
        message = f"is not valid CSV: {error}"
        problems.add(Problem(message=message, path=path, line=reader.line_num, column=1, hint=hint))


def _usable(names: Sequence[str], path: Path, problems: Problems) -> bool:
    """Whether the first line names columns."""
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice or not all(names) or not names or len(names) > _MAX_COLUMNS:
        what = f"{twice[0]!r} stands twice" if twice else f"there are {len(names)}, some without a name"
        message = f"the first line must name the columns, each once: {what}"
        hint = "such as: id,input,criteria"
        problems.add(Problem(message=message, path=path, line=1, column=1, hint=hint))
        return False
    return True


def _parquet_rows(path: Path, problems: Problems) -> Iterator[tuple[int, dict[str, Any]]]:
    if find_spec("pyarrow") is None:
        hint = "pip install pyarrow beside agentv-sandbox, or write the table as .csv or .jsonl"
        problems.add(Problem(message="is a Parquet file, which pyarrow reads", path=path, hint=hint))
        return
    if path.stat().st_size > MAX_BYTES:
        problems.add(Problem(message=f"is larger than {MAX_BYTES >> 20} MiB", path=path, hint="split it"))
        return
    try:
        file = import_module("pyarrow.parquet").ParquetFile(path)
        size = sum(file.metadata.row_group(i).total_byte_size for i in range(file.metadata.num_row_groups))
        if size > MAX_BYTES:
            raise ValueError(f"its columns hold more than {MAX_BYTES >> 20} MiB")
        number = held = 0
        for batch in file.iter_batches(batch_size=1000):
            held += batch.nbytes
            if held > MAX_BYTES:
                raise ValueError(f"its columns hold more than {MAX_BYTES >> 20} MiB")
            for row in batch.to_pylist():
                number += 1
                yield number, _entry((name, value) for name, value in row.items())
    except Exception as error:  # whatever the library raises for a file that somebody made
        message = f"cannot be read as Parquet: {masking.first(str(error), 200)}"
        problems.add(Problem(message=message, path=path, hint="write the table as .csv or .jsonl"))


def _entry(cells: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """A test of its cells: those that are empty are left out, ``metadata.a`` is the key ``a`` of ``metadata``."""
    entry: dict[str, Any] = {}
    for name, value in cells:
        if value is None or value == "":
            continue
        outer, _, inner = name.partition(".")
        held = entry.setdefault(outer, {}) if inner else entry
        if isinstance(held, dict):
            held[inner or name] = value if name in _TEXTS or not isinstance(value, str) else _value(value)
    if "id" in entry:
        entry["id"] = str(entry["id"])
    return entry


def _value(text: str) -> Any:
    """A cell as JSON where it is a list or a mapping, else its text."""
    if text.lstrip()[:1] in ("[", "{"):
        try:
            value = json.loads(text)
        except ValueError:
            return text
        return value if isinstance(value, list | Mapping) else text
    return text
