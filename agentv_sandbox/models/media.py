"""Media types: AgentV's short names and the types that file names stand for."""

from __future__ import annotations

import mimetypes
from pathlib import PurePosixPath

_OFFICE = "application/vnd.openxmlformats-officedocument."

ALIASES = {
    "csv": "text/csv",
    "docx": f"{_OFFICE}wordprocessingml.document",
    "htm": "text/html",
    "html": "text/html",
    "json": "application/json",
    "markdown": "text/markdown",
    "md": "text/markdown",
    "pdf": "application/pdf",
    "sql": "application/sql",
    "txt": "text/plain",
    "xhtml": "application/xhtml+xml",
    "xls": "application/vnd.ms-excel",
    "xlsx": f"{_OFFICE}spreadsheetml.sheet",
    "xml": "application/xml",
    "yaml": "application/yaml",
    "yml": "application/yaml",
}
"""What may stand for a media type in a suite and in a file block."""

_BY_SUFFIX = {
    "db": "application/vnd.sqlite3",
    "gz": "application/gzip",
    "ipynb": "application/x-ipynb+json",
    "parquet": "application/vnd.apache.parquet",
    "pptx": f"{_OFFICE}presentationml.presentation",
    "sqlite": "application/vnd.sqlite3",
    "sqlite3": "application/vnd.sqlite3",
    "tgz": "application/gzip",
    "toml": "application/toml",
    "tsv": "text/tab-separated-values",
    "webp": "image/webp",
}
_TYPES = mimetypes.MimeTypes()  # the table of Python itself: the same on every machine


def normalise(media_type: str) -> str:
    """Trimmed, lower-case, short name resolved: what two media types are compared by."""
    key = media_type.strip().lower()
    return ALIASES.get(key, key)


def of_name(name: str) -> str:
    """The media type of a file name, ``application/octet-stream`` when nothing is known."""
    suffix = PurePosixPath(name).suffix.lower().removeprefix(".")
    return (
        ALIASES.get(suffix)
        or _BY_SUFFIX.get(suffix)
        or _TYPES.guess_type(f"x.{suffix}", strict=True)[0]
        or "application/octet-stream"
    )
