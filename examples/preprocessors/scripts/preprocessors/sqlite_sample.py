"""SQLite database to its schema and the first rows of each table, with Python's standard library alone.

Reads the preprocessor protocol: {"path": ...} on standard input, text on standard output. The database is
opened read-only and immutable; loading of extensions stays off.
"""

import json
import sqlite3
import sys
import time
from pathlib import Path
from urllib.parse import quote

SAMPLE_ROWS = 10
MAX_TABLES = 200
MAX_VALUE_CHARS = 200
MAX_SECONDS = 5  # of all queries: a view may be endless


def main():
    path = Path(json.load(sys.stdin)["path"])
    if not path.stat().st_size:
        sys.exit("the file is empty")
    with path.open("rb") as stream:
        if stream.read(16) != b"SQLite format 3\0":
            sys.exit("not a readable SQLite database (or an encrypted one)")
    deadline = time.monotonic() + MAX_SECONDS
    try:
        database = sqlite3.connect(f"file:{quote(str(path))}?mode=ro&immutable=1", uri=True)
        database.execute("PRAGMA trusted_schema = OFF")
        database.set_progress_handler(lambda: time.monotonic() > deadline, 100_000)
        database.text_factory = lambda data: data.decode("utf-8", "replace")
        sys.stdout.write("\n\n".join(described(database)) + "\n")
    except sqlite3.Error as error:
        sys.exit(f"not a readable SQLite database: {error}")


def described(database):
    query = "SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY type, name"
    objects = database.execute(query).fetchall()
    tables = [o for o in objects if o[0] in ("table", "view")]
    virtual = tuple(f"{name}_" for _kind, name, sql in tables if sql.upper().startswith("CREATE VIRTUAL"))
    tables = [o for o in tables if not o[1].startswith(virtual)]  # without what a search index stores
    yield f"SQLite database: {len(tables)} tables and views"
    for kind, name, sql in tables[:MAX_TABLES]:
        yield f"## {kind} {name}\n\n{sql or ''}\n\n{rows_of(database, name)}"
    others = [sql or name for kind, name, sql in objects if kind not in ("table", "view")]
    if others:
        yield "## indexes and triggers\n\n" + "\n".join(others[:MAX_TABLES])
    if len(tables) > MAX_TABLES:
        yield f"(cut: {len(tables) - MAX_TABLES} more tables)"


def rows_of(database, name):
    quoted = '"' + name.replace('"', '""') + '"'
    try:
        (count,) = database.execute(f"SELECT count(*) FROM {quoted}").fetchone()
        cursor = database.execute(f"SELECT * FROM {quoted} LIMIT {SAMPLE_ROWS}")
        names = [column[0] for column in cursor.description]
        lines = [
            f"{count} rows",
            "",
            "| " + " | ".join(map(shown, names)) + " |",
            "|" + " --- |" * len(names),
        ]
        lines += ["| " + " | ".join(map(shown, row)) + " |" for row in cursor]
    except sqlite3.Error as error:
        return f"(cannot be read: {error})"
    if count > SAMPLE_ROWS:
        lines.append(f"(cut: {count - SAMPLE_ROWS} more rows)")
    return "\n".join(lines)


def shown(value):
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"(blob of {len(value)} bytes)"
    text = " ".join(str(value).split()).replace("|", "\\|")
    return text if len(text) <= MAX_VALUE_CHARS else text[:MAX_VALUE_CHARS] + "…"


if __name__ == "__main__":
    main()
