"""All small suites."""

from __future__ import annotations

from .agents import AGENTS
from .asked import ASKED
from .cases import CASES
from .corners import CORNERS
from .kinds import FIELDS, KINDS

SUITES = (*ASKED, *AGENTS, *CASES, *KINDS, *FIELDS, *CORNERS)
