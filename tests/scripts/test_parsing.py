"""Programs in Python as trees."""

from __future__ import annotations

import subprocess
import sys

from agentv_sandbox.scripts.parsing import parsed

DISTURBED = """
import gc, sys, threading, time
from agentv_sandbox.scripts.parsing import parsed

gc.callbacks.append(lambda *_: time.sleep(0.001))  # others get on while a tree is made
gc.set_threshold(50)
text = "x = [" + "(1, [2, {3: 4}]), " * 60 + "]"
wrong = []

def read():
    try:
        for _ in range(4):
            assert parsed(text) is not None
    except BaseException as error:
        wrong.append(error)

threads = [threading.Thread(target=read) for _ in range(4)]
for each in threads:
    each.start()
for each in threads:
    each.join()
sys.exit(repr(wrong) if wrong else 0)
"""


def test_threads_do_not_disturb_each_other() -> None:
    done = subprocess.run(
        [sys.executable, "-c", DISTURBED], check=False, capture_output=True, text=True, timeout=120
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_what_is_not_a_program_is_none() -> None:
    assert [parsed(text) for text in ("def", "x = '\0'", "(" * 10_000, "-" * 200_000 + "1")] == [None] * 4
    assert parsed("import os") is not None
