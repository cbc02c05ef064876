"""An agent in the place of yours: it counts the open tasks of the notes that it is given."""

import json
import sys
from pathlib import Path

prompt_file, output_file, *files = sys.argv[1:]

lines = [line.strip() for name in files for line in Path(name).read_text().splitlines()]
tasks = [line for line in lines if line.startswith("TODO")]

# Its working directory is kept, too, and graders see it.
Path("tasks.json").write_text(json.dumps(tasks))
Path(output_file).write_text(json.dumps({"text": f"There are {len(tasks)} open tasks."}))
