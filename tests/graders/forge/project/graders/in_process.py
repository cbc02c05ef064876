"""How not to do it: imports the candidate into the grader's own process."""

import json
import sys

CASES = [((1, 2), 3), ((5, 5), 10)]

sys.path.insert(0, "/workspace")
import solution  # noqa: E402

right = all(solution.add(*args) == wanted for args, wanted in CASES)
print(json.dumps({"score": float(right)}))
