"""Forms of an audit's report, one file each: a name and what is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from agentv_sandbox.audit.findings import AuditReport
from agentv_sandbox.audit.views.json import as_json
from agentv_sandbox.audit.views.junit import as_junit
from agentv_sandbox.audit.views.page import as_page
from agentv_sandbox.audit.views.sarif import as_sarif

Write = Callable[[AuditReport, Path], bytes]
"""A report as a document; paths in it are relative to the folder."""
VIEWS: Mapping[str, Write] = {"json": as_json, "sarif": as_sarif, "junit": as_junit, "page": as_page}
"""By the name of its option."""
