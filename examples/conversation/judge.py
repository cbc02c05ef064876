"""A grader that is a command: reads the prompt of an LLM grader, writes the reply that a model would give."""

import json
import sys
from pathlib import Path

prompt = Path(sys.argv[1]).read_text()
polite = "I do not understand" not in prompt
reply = {
    "score": 1.0 if polite else 0.0,
    "assertions": [{"text": "Every request was understood", "passed": polite}],
}
Path(sys.argv[2]).write_text(json.dumps(reply))
