"""All small suites."""

from __future__ import annotations

from .asked import ASKED
from .cases import CASES
from .kinds import FIELDS, KINDS

SUITES = (*ASKED, *CASES, *KINDS, *FIELDS)
