"""Pages of package indexes. The library that reads them is imported with the first page: it takes a quarter of the
time in which the whole program starts, and most runs read none."""

from __future__ import annotations

import json
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pypi_simple import ProjectPage


def index_page(name: str, data: str | bytes, *, url: str) -> ProjectPage:
    """``data``, HTML or JSON, as the page of the distribution ``name``. Raises ValueError when it is neither."""
    library = import_module("pypi_simple")
    reader: type[ProjectPage] = library.ProjectPage
    try:
        if isinstance(data, bytes) and data.lstrip().startswith(b"{"):
            return reader.from_json_data(json.loads(data), base_url=url)
        return reader.from_html(name, data, base_url=url)
    except (TypeError, KeyError, library.UnsupportedRepoVersionError) as error:
        raise ValueError(f"not a page of a package index: {error}") from error
