"""Shipped preprocessors: what ``command: [builtin:NAME]`` stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from agentv_sandbox.models import media

PREFIX = "builtin:"


@dataclass(frozen=True, kw_only=True)
class Builtin:
    """One converter script and what it needs."""

    script: str
    """File in ``data/converters``; Python, reads the preprocessor protocol."""
    modules: tuple[str, ...] = ()
    """Python modules that the image must have, by import name."""
    media_types: tuple[str, ...] = ()
    """Media types or short names that it is made for."""


BUILTINS: Mapping[str, Builtin] = MappingProxyType(
    {
        "archive": Builtin(
            script="archive_listing.py",
            media_types=("application/zip", "application/x-tar", "application/gzip"),
        ),
        "csv": Builtin(script="csv_sample.py", media_types=("csv", "text/tab-separated-values")),
        "docx": Builtin(script="docx_to_md.py", modules=("docx",), media_types=("docx",)),
        "html": Builtin(
            script="html_to_md.py", modules=("markdownify", "bs4", "lxml"), media_types=("html", "xhtml")
        ),
        "html-plain": Builtin(script="html_to_md_plain.py", media_types=("html", "xhtml")),
        "image": Builtin(
            script="image_description.py",
            modules=("PIL",),
            media_types=("image/png", "image/jpeg", "image/gif", "image/webp", "image/tiff", "image/bmp"),
        ),
        "ipynb": Builtin(script="ipynb_to_md.py", media_types=(media.of_name("x.ipynb"),)),
        "parquet": Builtin(
            script="parquet_sample.py", modules=("pyarrow",), media_types=(media.of_name("x.parquet"),)
        ),
        "pdf": Builtin(script="pdf_to_text.py", modules=("pypdf", "cryptography"), media_types=("pdf",)),
        "pptx": Builtin(script="pptx_to_text.py", modules=("pptx",), media_types=(media.of_name("x.pptx"),)),
        "sqlite": Builtin(script="sqlite_sample.py", media_types=(media.of_name("x.sqlite"),)),
        "xlsx": Builtin(script="xlsx_to_csv.py", modules=("openpyxl",), media_types=("xlsx",)),
        "xlsx-plain": Builtin(script="xlsx_to_csv_plain.py", media_types=("xlsx",)),
    }
)


def builtin_of(command: Sequence[str]) -> str | None:
    """NAME when ``command`` is ``[builtin:NAME]``; NAME need not exist."""
    if len(command) == 1 and command[0].startswith(PREFIX):
        return command[0].removeprefix(PREFIX)
    return None
