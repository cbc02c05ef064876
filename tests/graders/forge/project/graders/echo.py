"""Quotes what it looked at in its one JSON verdict."""

import json
from pathlib import Path

given = Path("/workspace/answer.txt").read_text()
right = given == "4711"
print(json.dumps({"assertions": [{"text": "right number", "passed": right, "evidence": given}]}))
