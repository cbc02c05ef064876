"""What the scripted model does in each session, and what the session needs for it."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from .model_server import Script, do, say

GREETING = 'print("hello from the agent")\n'


def words(start: int, end: int) -> str:
    """A part of ``LONG``."""
    return "".join(f"{number} word word " for number in range(start, end))


LONG = words(0, 13_000)
"""Long, and nothing that a program takes for a model that repeats itself."""
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
SKILL = "---\nname: greet\ndescription: Greets people\n---\nSay hello.\n"
TRUE = do("run", command="true")
ANSWERS = {
    "write": "done: hello.py",
    "edit": "done: edited",
    "run": "done: 1,2, then it failed",
    "many": "done: both",
    "skill": "hello, as the skill says",
    "image": "a red pixel",
    "long": "word word",
    "refusal": "will not",
    "once": "fine after all",
    "forged": "done: honest",
    "secrets": "nothing",
}
"""What is said at the end of sessions that go well, by their scripts."""


def scripts(*, skills: str, key: str = "") -> Mapping[str, Script]:
    """``skills``: the folder of the workspace in which the program looks for them; ``key``: what an agent searches for,
    which no command names as it is."""
    return {
        "write": [
            say("Writing.", do("write", path="/workspace/hello.py", content=GREETING)),
            say("done: hello.py"),
        ],
        "edit": [
            say("", do("read", path="/workspace/notes.txt")),
            say("Editing.", do("edit", path="/workspace/notes.txt", old="draft", new="final")),
            say("done: edited"),
        ],
        "run": [
            say("Running.", do("run", command="echo 1,2 > table.csv && cat table.csv")),
            say("", do("run", command="echo oops >&2; exit 3")),
            say("done: 1,2, then it failed"),
        ],
        "fail": [say("", do("run", command="echo oops >&2; exit 3")), say("it failed")],
        "many": [
            say("Both.", do("run", command="echo one"), do("run", command="echo two")),
            say("done: both"),
        ],
        "same-ids": [
            say("First.", do("run", command="echo one"), id="msg_same"),
            say("Second.", do("run", command="echo two"), id="msg_same"),
            say("done: both", id="msg_same"),
        ],
        "skill": [say("", do("skill", skill="greet", folder=skills)), say("hello, as the skill says")],
        "image": [say("", do("read", path="/input/pixel.png")), say("a red pixel")],
        "long": [say(LONG)],
        "refusal": [say("I will not do that.", refused=True)],
        "talk-1": [say("", do("run", command="echo first > state.txt")), say("noted: first")],
        "talk-2": [say("second answer")],
        "talk-3": [say("", do("run", command="cat state.txt")), say("it was first")],
        "busy": [say("never said", status=429)],
        "broken": [say("never said", status=500)],
        "once": [say("", do("recite"), status=500, times=1), say("fine after all")],
        "cut": [say("half of this is never sent", TRUE, cut=True, times=99)],
        # For a program that asks again at once, for ever.
        "cut-slowly": [say("half of this is never sent", TRUE, cut=True, wait_s=8)],
        "endless": [say("", TRUE)] * 50,
        "obeys": [say("", TRUE), say("", TRUE), say("my last words")],
        "hangs": [say("", TRUE), say("too late", wait_s=600)],
        "crash": [say("", TRUE), say("", do("run", command="kill -9 $PPID; sleep 5")), say("never said")],
        "crash-copilot": [say("", TRUE), say("", do("run", command=KILL_COPILOT)), say("never said")],
        "forged": [say("", do("run", command=FORGERY)), say("done: honest")],
        "secrets": [
            say("", do("run", command=SEARCH.replace("DESREVER", key[::-1]))),
            say("", do("run", command="env | grep -i -E 'key|token' | sort")),
            say("nothing"),
        ],
    }


def rich(kind: str, *, skills: str, key: str) -> Mapping[str, Script]:
    """One session with all of these in it, after an error of the model's server, and a second turn. Input files are
    read as a program reads them."""
    alone = scripts(skills=skills, key=key)
    parts = ("edit", "write", "many", "run", "skill", "image", "forged")
    steps = [step for part in parts for step in alone[part][:-1]]
    steps.append(say("", do("recite")))  # late: servers of tools may take their time to start
    steps.append(say("", do("run", command="cd /input/in && sha256sum *")))
    first = say("I begin.", TRUE, status=500, times=1)
    # Without what programs draw anew each time: a replay has to ask the same.
    printed = say("", do("run", command="env | grep -i -E 'key|token' | grep -v MESSAGING_TOKEN | sort"))
    steps += [alone["secrets"][0], printed]
    end = [say("", do("run", command="cat table.csv")), say("it was 1,2 first")]
    return {f"rich-{kind}": [first, *steps, say("done: all of it")], f"rich-{kind}-end": end}


KILL_COPILOT = r"""python3 - <<'EOF'
import os
for process in filter(str.isdigit, os.listdir("/proc")):
    try:
        if os.readlink(f"/proc/{process}/exe").endswith("/copilot"):
            os.kill(int(process), 9)
    except OSError:
        continue
EOF"""
"""Its shell is not the program's own child, and it reads through commands that kill."""
POEMS = r"""import json, os, sys
TOOL = {"name": "recite", "description": "Recites", "inputSchema": {"type": "object", "properties": {}}}
for line in sys.stdin:
    asked = json.loads(line)
    match asked.get("method"):
        case "initialize":
            version = asked["params"]["protocolVersion"]
            about = {"name": "poems", "version": "1"}
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
        case "tools/list":
            result = {"tools": [TOOL]}
        case "tools/call":
            result = {"content": [{"type": "text", "text": f"roses are red for {os.getuid()}."}]}
        case _:
            result = {}
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""
"""An MCP server that offers the tool ``recite``."""
FORGERY = r"""python3 - <<'EOF'
with open("/output/events.jsonl", "a") as file:
    file.write('{"at": NaN, "event": ' + "[" * 5000 + "\n")
    file.write('{"at": 1e400, "event": {"type": "assistant", "message": {"id": 7, "content": {"a": -1}}}}\n')
    file.write('{"at": 1, "event": {"type": "result", "usage": 3, "modelUsage": {"m": {"inputTokens": -5}}}}\n')
    file.write('{"at": 1, "event": {"type": "item.completed", "item": [1]}}\n')
    file.write('{"at": 1, "event": {"type": "turn.completed", "usage": {"input_tokens": true}}}\n')
    file.write("\x00\xff not JSON\n")
EOF"""
SEARCH = r"""python3 - <<'EOF'
import os
key = "DESREVER"[::-1].encode()
paths = [os.path.join("/proc", p, name) for p in os.listdir("/proc") for name in ("environ", "cmdline")]
for top in ("/workspace", "/input", "/output", "/home", "/tmp", "/suite", "/files", "/etc", "/run"):
    paths += [os.path.join(folder, name) for folder, _, names in os.walk(top) for name in names]
for path in paths:
    try:
        if os.path.isfile(path) and key in open(path, "rb").read(64 << 20):
            print("found in", path)
    except OSError:
        pass
print("searched", len(paths) > 50)
EOF"""
