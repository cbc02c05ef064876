"""A tiny agent: reads the talk so far, keeps its list in the workspace, answers the last user turn."""

import re
import sys
from pathlib import Path

LIST = Path("list.txt")


def answer(talk):
    last = talk.rpartition("@[User]:\n")[2].strip()
    items = LIST.read_text().split() if LIST.exists() else []
    if match := re.fullmatch(r"Add (\w+)\.", last):
        LIST.write_text("\n".join([*items, match[1]]) + "\n")
        return f"Added {match[1]}."
    if last == "What is on the list?":
        return "On the list: " + ", ".join(items)
    if last == "What did I add first?":
        # Not from the file: from what was said.
        return "You first added " + re.findall(r"^Add (\w+)\.", talk, re.MULTILINE)[0] + "."
    return "I do not understand."


if sys.argv[1] == "--check":
    sys.exit(0)
Path(sys.argv[2]).write_text(answer(Path(sys.argv[1]).read_text()))
