"""The last step before any text leaves the process, in a process of its own."""

from __future__ import annotations

from subprocess import CompletedProcess

import pytest

from tests.forkserver import python

SECRET = "sk-stream-55e0a1c9"
PRELUDE = f"""
import gc, logging, sys, threading, warnings
from agentv_sandbox.base import logs; from agentv_sandbox import masking
SECRET = {SECRET!r}
logs.configure()
masking.know([SECRET])
def fail():
    secret = SECRET
    huge = 10 ** 5000
    raise ValueError(f"key {{secret}} {{'x' * 100_000}}")
class Dying:
    def __del__(self):
        fail()
"""


def ending(body: str) -> CompletedProcess[str]:
    script = PRELUDE + "with logs.guarded():\n" + "".join(f"    {line}\n" for line in body.splitlines())
    return python("-c", script)


@pytest.mark.parametrize(
    "body",
    [
        "sys.excepthook(*(lambda e: (type(e), e, e.__traceback__))(ValueError(SECRET)))",
        "thread = threading.Thread(target=fail)\nthread.start()\nthread.join()",
        "dying = Dying()\ndel dying\ngc.collect()",
        "try:\n    fail()\nexcept ValueError:\n    logs.get_logger().exception('crashed', case='c')",
        "try:\n    fail()\nexcept ValueError:\n    logs.get_logger().warning('crashed', exc_info=True)",
        "logs.get_logger().error('crashed', exc_info=ValueError(10 ** 5000), number=10 ** 5000, numbers=[10 ** 5000])",
    ],
)
def test_uncaught_exception_is_one_redacted_line(body: str) -> None:
    done = ending(body)
    shown = done.stdout + done.stderr
    assert SECRET not in shown
    assert "Traceback" not in shown and "locals" not in shown
    assert "ValueError" in done.stderr
    assert 1 <= len(done.stderr.splitlines()) <= 2 and len(done.stderr) < 2000, done.stderr


@pytest.mark.parametrize(
    "body",
    [
        "logging.getLogger('urllib3').warning('retrying %s', SECRET)",
        "logging.getLogger('docker').warning('one argument %s %s', SECRET)",
        "warnings.warn(SECRET)",
        "print(SECRET)",
        "print(SECRET, file=sys.stderr)",
        "sys.stdout.writelines([SECRET, 'end'])",
    ],
)
def test_warnings_of_libraries_are_redacted(body: str) -> None:
    done = ending(body)
    assert done.returncode == 0
    assert SECRET not in done.stdout + done.stderr
    assert done.stdout + done.stderr
    assert "Traceback" not in done.stderr
