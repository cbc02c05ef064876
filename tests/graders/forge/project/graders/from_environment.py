"""How not to do it: the expected answer in the environment, beside a process of the agent."""

import json
import os
import time
from pathlib import Path

time.sleep(1)
file = Path("/workspace/answer.txt")
print(json.dumps({"score": float(file.exists() and file.read_text() == os.environ["EXPECTED"])}))
