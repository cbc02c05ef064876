"""How not to do it: the candidate in a process of its own, to which this one's descriptors are open."""

import json
import subprocess
import sys

CASES = [([1, 2], 3)]

code = f"import sys; sys.path.insert(0, '/workspace'); import solution; assert solution.add(1, 2) == {CASES[0][1]}"
done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=False)
print(json.dumps({"score": float(done.returncode == 0)}))
