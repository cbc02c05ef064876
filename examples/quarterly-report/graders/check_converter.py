"""Runs the repaired converter on values that the agent has not seen.

The candidate's code runs in a process of its own, so that nothing it prints or patches reaches the verdict.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

CASES = [(110.0, 1.1, 100.0), (0.0, 1.2, 0.0), (99.99, 1.25, 79.99)]
CALL = "import sys; sys.path.insert(0, sys.argv[1]); import convert; print(convert.to_eur(*map(float, sys.argv[2:])))"


def main() -> None:
    payload = json.load(sys.stdin)
    tools = Path(payload["workspace_path"], "tools")
    checks = []
    for amount, rate, expected in CASES:
        argv = [sys.executable, "-I", "-B", "-c", CALL, str(tools), str(amount), str(rate)]
        ran = subprocess.run(argv, capture_output=True, text=True, timeout=20, check=False)
        said = ran.stdout.strip() or ran.stderr.strip()[-200:]
        checks.append(
            {
                "text": f"to_eur({amount}, {rate}) is {expected}",
                "passed": said == str(expected),
                "evidence": f"it gave {said}",
            }
        )
    print(json.dumps({"assertions": checks}))


if __name__ == "__main__":
    main()
