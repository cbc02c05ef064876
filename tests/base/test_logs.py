"""Log events in programs that have us as a library: one line an event, never a traceback, never on standard output."""

from __future__ import annotations

import subprocess
import sys

import pytest

THREADS = """
import threading
from agentv_sandbox.base import logs
HOST
ready = threading.Barrier(12)

def fail():
    key = "sk-" + "value-of-a-local"
    ready.wait()
    try:
        raise ValueError("no luck")
    except ValueError as error:
        logs.get_logger().CALL

threads = [threading.Thread(target=fail) for _ in range(12)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""
CALLS = ('error("failed", exc_info=True)', 'warning("failed", exc_info=error)', 'exception("failed")')
HOSTS = {
    "our configuration": "logs.configure_unless_done()",
    "no configuration": "",
    "the program's own": "import structlog; structlog.configure(processors=[structlog.dev.ConsoleRenderer()])",
}


@pytest.mark.parametrize("host", HOSTS)
def test_whatever_fails_in_whichever_thread_is_one_line_without_local_variables(host: str) -> None:
    """The library is imported by the first event: the first ones come from twelve threads at once."""
    call = CALLS[list(HOSTS).index(host)]
    script = THREADS.replace("HOST", HOSTS[host]).replace("CALL", call)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    lines = (done.stdout + done.stderr).splitlines()
    assert [("ValueError: no luck" in line, "value-of-a-local" in line) for line in lines] == [
        (True, False)
    ] * 12
    assert done.stdout == "" or host == "the program's own"
