"""Checks answer.txt; prints one JSON verdict."""

import json
from pathlib import Path

SECRET_NUMBER = 4711


def main() -> None:
    try:
        given = Path("/workspace/answer.txt").read_text().strip()
    except OSError:
        given = ""
    right = given == str(SECRET_NUMBER)
    print(
        json.dumps({"score": float(right), "assertions": [{"text": "the number is right", "passed": right}]})
    )


main()
