"""Samples of Inspect AI a second: ours natively, ours on Docker, and Inspect's own docker sandbox, by turns in one run.

    inspect_boxes.py [SAMPLES] [ROUNDS]

Inspect's own needs a newer Docker Compose than Debian 12 has: all of it runs in the root of ``make test-harbor``
(``tools/harbor.sh``), with Inspect in an environment of its own there (``foreign/inspect_samples.py``)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).parents[1]
ROOT = "/var/tmp/agentv-harbor"
_SET_UP = f"""
set -e
[ -x /opt/inspect/bin/python ] || /opt/harbor/bin/uv venv -q --python /usr/bin/python3 /opt/inspect
cd {CHECKOUT}
sum="$(sha256sum pyproject.toml) $PWD"
[ "$(cat /opt/inspect/ready 2>/dev/null)" = "$sum" ] || {{
  DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends runc e2fsprogs >/dev/null
  /opt/harbor/bin/uv pip install -q --python /opt/inspect/bin/python --override /overrides -e . inspect-ai==0.3.285
  echo "$sum" > /opt/inspect/ready
}}
cd /tmp
exec /opt/inspect/bin/python -P {CHECKOUT}/bench/foreign/inspect_samples.py "$@"
"""


def main() -> None:
    environ = {**os.environ, "HARBOR_BINDS": str(CHECKOUT), "PYTHONDONTWRITEBYTECODE": "1"}
    root = [str(CHECKOUT / "tools/harbor.sh"), ROOT]
    subprocess.run([*root, "sh", "-c", _SET_UP, "sh", *sys.argv[1:]], env=environ, check=True)


if __name__ == "__main__":
    main()
