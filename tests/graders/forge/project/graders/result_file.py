"""Keeps its result in a file, and crashes on answers that are no numbers."""

import json
import os
import tempfile
from pathlib import Path

folder = Path(os.environ.get("RESULT_DIR") or tempfile.mkdtemp())
given = int(Path("/workspace/answer.txt").read_text())
(folder / "result.json").write_text(json.dumps({"score": float(given == 4711)}))
print((folder / "result.json").read_text())
