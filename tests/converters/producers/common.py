"""What the sample makers share."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
import textwrap
from pathlib import Path

import pandas as pd

ROOT = Path(sys.argv[1]).resolve()
DAY = dt.date(2025, 9, 30)
FRAME = pd.DataFrame(
    {
        "region": ["North", "Süd", "East, far"],
        "revenue": [1200.5, 830.25, None],
        "orders": [12, 8, 0],
        "closed": pd.to_datetime(["2025-09-30", "2025-10-01", None]),
    }
)
MARKDOWN = textwrap.dedent("""\
    # Quarterly report

    Revenue **rose** by _12 %_; see [the data](https://example.org/data).

    - North leads
        - Oslo first
    - South follows

    1. collect
    2. check

    | region | revenue |
    |--------|--------:|
    | North  |  1200.5 |
    | Süd    |  830.25 |

    ```python
    print("x | y")
    ```

    > Quoted remark.

    A note.[^1]

    [^1]: Figures are preliminary.
    """)


def folder(name: str) -> Path:
    path = ROOT / name
    path.mkdir(parents=True, exist_ok=True)
    return path


def run(*argv: str | Path, cwd: Path | None = None, stdin: bytes | None = None) -> bytes:
    return subprocess.run(list(map(str, argv)), check=True, cwd=cwd, input=stdin, capture_output=True).stdout


def office(source: Path, kind: str, target: Path) -> None:
    """Convert with LibreOffice."""
    run("soffice", "--headless", "--convert-to", kind, "--outdir", target.parent / "lo", source)
    (made,) = (target.parent / "lo").iterdir()
    made.replace(target)
    (target.parent / "lo").rmdir()
