"""Stands in for an agent: writes the file and answers."""

import json
import sys
from pathlib import Path

SLUG = """\
import re
import unicodedata


def slug(text):
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")
"""
ANSWERS = {
    "function": "I wrote slug.py.",
    "explanation": "A slug is the part of a URL that names a page in readable words.",
    "panel": "A slug is the part of a URL that names a page in readable words. Happy to say more!",
}

test_id, output = sys.argv[1:3]
if test_id == "function":
    Path("slug.py").write_text(SLUG)
Path(output).write_text(json.dumps({"text": ANSWERS[test_id]}))
