"""How not to do it: the expected answer in the environment, beside a process of the agent."""

import json
import os
import time
from pathlib import Path

file = Path("/workspace/answer.txt")
for _ in range(200):  # until the process that stayed has seen this one
    if file.exists() and file.stat().st_size:
        break
    time.sleep(0.05)
print(json.dumps({"score": float(file.exists() and file.read_text() == os.environ["EXPECTED"])}))
