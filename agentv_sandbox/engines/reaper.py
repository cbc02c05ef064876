"""``python -I -S reaper.py COMMAND...``: the watchdog's child process, which waits for the end of its
parent. It imports nothing of ours before that: every run starts one, and hardly any run needs more of it than this.
"""

import _signal as signal  # type: ignore[import-not-found]  # `signal` itself, with `enum`, is a third of a start
import os
import sys


def main(*command: str) -> None:
    """Wait for the parent; unless it said that it is done, become the process that removes what it left."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the next program ignores them, too
    if not sys.stdin.buffer.read():
        os.execv(command[0], command)  # noqa: S606 - a list, no shell


if __name__ == "__main__":
    main(*sys.argv[1:])
