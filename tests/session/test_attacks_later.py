"""Attacks on a session that aim at what comes later: at files that are put and read, at whoever reads output, at a
terminal; and by root of a whole system, at what is asked of its programs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from textwrap import dedent

import pytest

import agentv_sandbox
from agentv_sandbox import LimitOverrides, Session, SystemSpec
from agentv_sandbox.base.errors import InputError, SandboxError
from agentv_sandbox.engines import ContainerEngine
from agentv_sandbox.models.container import MB
from tests.memory import peak_growth

_LIMITS = LimitOverrides(memory_bytes=128 * MB, workspace_bytes=4 * MB, tmp_bytes=4 * MB, pids=64)
_EVERY = (pytest.mark.engine, pytest.mark.every_engine)


@pytest.fixture(scope="module")
def session(engine: ContainerEngine, tool_image: str) -> Iterator[Session]:
    assert tool_image
    with agentv_sandbox.open_session(engine=engine.info().kind, limits=_LIMITS) as opened:
        yield opened


def python(session: Session, text: str, **options: float) -> bytes:
    done = session.exec(["python3", "-I", "-S", "-c", dedent(text)], timeout=options.get("timeout", 20))
    assert done.outcome == "exited", done
    return done.stdout + done.stderr


# Each prints what it got hold of, of which there must be nothing.
TERMINALS = {
    "standard streams": "print([n for n in (0, 1, 2) if os.isatty(n)])",
    "a controlling terminal": "print([f for f in [open('/proc/self/stat').read().split()[6]] if f != '0'])",
    "devices": "print([p for p in glob.glob('/dev/tty*') + glob.glob('/dev/vcs*') + glob.glob('/dev/pts/[0-9]*')"
    " + ['/dev/console', '/dev/hvc0', '/dev/ttyS0', '/proc/1/fd/0', '/proc/1/fd/1'] if can(p)])",
    "input of others": "print([n for n in (0, 1, 2) if tried(lambda: fcntl.ioctl(n, 0x5412, b'x'))])",
    "the console's paste": "print([n for n in (0, 1, 2) if tried(lambda: fcntl.ioctl(n, 0x541C, b'\\x03'))])",
    "to be the session's": "if os.fork(): os.wait(); os._exit(0)\nos.setsid()\n"
    "print([n for n in (0, 1, 2) if tried(lambda: fcntl.ioctl(n, 0x540E, 1))])",
    "to hang up": "print([n for n in (0, 1, 2) if tried(lambda: fcntl.ioctl(n, 0x5437))])",
    "to speak as who asks": "print([n for n in (0, 1, 2) if tried(lambda: fcntl.ioctl(n, 0x5410, b'\\1\\0\\0\\0'))])",
}
_TERMINAL = """
import fcntl, glob, os
def tried(attack):
    try:
        attack()
    except OSError:
        return False
    return True
def can(path):
    return tried(lambda: os.close(os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)))
"""


@pytest.mark.engine
@pytest.mark.every_engine
def test_there_is_no_terminal_to_play_with(session: Session) -> None:
    said = {name: python(session, f"{_TERMINAL}{attack}") for name, attack in TERMINALS.items()}
    assert said == dict.fromkeys(TERMINALS, b"[]\n")


@pytest.mark.engine
@pytest.mark.every_engine
def test_a_terminal_of_ones_own_is_nobody_elses(session: Session) -> None:
    """Made where the image has the device, controlled, typed into and hung up: the next command sees nothing of it."""
    own = """
        import fcntl, os, pty, signal
        try:
            ours, theirs = pty.openpty()
        except OSError:
            print('none'); os._exit(0)
        if os.fork() == 0:
            os.setsid(); fcntl.ioctl(theirs, 0x540E, 0)
            try: fcntl.ioctl(theirs, 0x5412, b'x')
            except OSError: pass
            os.write(theirs, b'\\x1b[2J\\x1bc\\x9b6n'); os.close(ours); os.close(theirs)
            os.kill(0, signal.SIGHUP)
        os.wait(); print('hung up')
    """
    assert python(session, own) in (b"none\n", b"hung up\n")
    assert session.exec("cut -d' ' -f7 /proc/self/stat; tty").stdout == b"0\nnot a tty\n"


@pytest.mark.engine
@pytest.mark.every_engine
def test_names_of_files_print_nothing_on_the_terminal_of_who_asks(session: Session) -> None:
    name = "\x1b]0;owned\x07\x1b[2J\r\n\u202e"
    session.exec(["mkfifo", name])
    for attempt in (
        lambda: session.get(name),
        lambda: session.list(name),
        lambda: session.put({f"{name}/x": b""}),
        lambda: session.exec("true", user=name),
    ):
        with pytest.raises(SandboxError) as caught:
            attempt()
        assert caught.value.message.isprintable(), caught.value.message
    session.exec(["rm", name])


@pytest.mark.engine
@pytest.mark.every_engine
def test_a_folder_that_becomes_a_link_while_files_are_put_leads_nowhere(session: Session) -> None:
    swap = """
        import ctypes, os
        os.makedirs('/tmp/out/deep'); os.mkdir('d'); os.symlink('/tmp/out', 'link'); print('swaps', flush=True)
        exchange = ctypes.CDLL(None).renameat2
        while exchange(-100, b'd', -100, b'link', 2) == 0: pass
        print('stuck')
    """
    swaps = session.start(["python3", "-I", "-S", "-c", dedent(swap)])
    assert swaps.read(20) == (1, b"swaps\n")
    put = 0
    for number in range(40):
        try:
            session.put({f"d/deep/{number}": b"x"})
            put += 1
        except SandboxError:
            pass
    swaps.end()
    assert swaps.wait().outcome == "cancelled"
    assert session.exec("find /tmp/out -type f").stdout == b""
    found = session.exec("find -name '[0-9]*' -type f").stdout.split()
    assert len(found) == put
    session.exec("rm -rf d link /tmp/out")


@pytest.mark.engine
@pytest.mark.every_engine
def test_a_flood_of_what_stays_in_the_background_is_thrown_away(session: Session) -> None:
    begun = session.exec("yes & yes >&2 & echo begun", background=True, timeout=20)
    assert begun.outcome in ("exited", "flood") and b"begun\n" in begun.stdout
    with peak_growth() as grown:
        for _ in range(3):
            assert session.exec("sleep 0.2; echo beside", timeout=30).stdout == b"beside\n"
    assert grown() < 32 * MB
    session.exec("pkill yes; true", timeout=30)


@pytest.mark.engine
@pytest.mark.every_engine
def test_many_floods_at_once_cost_this_process_what_they_may_keep(session: Session) -> None:
    with peak_growth() as grown, ThreadPoolExecutor(8) as pool:
        floods = [pool.submit(session.exec, "yes | head -c 30M", output_bytes=1000) for _ in range(8)]
        done = [flood.result() for flood in floods]
    assert {each.outcome for each in done} <= {"flood", "exited"}
    assert all(len(each.stdout) <= 1000 for each in done) and grown() < 64 * MB


@pytest.mark.engine
@pytest.mark.every_engine
def test_input_that_nobody_reads_waits_for_the_end_of_time_alone(session: Session) -> None:
    begun = time.monotonic()
    done = session.exec("exec sleep 60", stdin=bytes(20 * MB), timeout=1)
    assert done.outcome == "timeout" and time.monotonic() - begun < 30
    slow = session.exec("head -c 10; sleep 1", stdin=bytes(5 * MB), timeout=20)
    assert (slow.outcome, slow.stdout) == ("exited", bytes(10))


@pytest.mark.engine
@pytest.mark.every_engine
@pytest.mark.parametrize("user", [-1, 2**32 - 1, 2**70, "4294967295", "9" * 5000, "\u00b2", "\u0661"])
def test_users_that_nobody_can_be_are_refused_and_cost_nothing(session: Session, user: int | str) -> None:
    with pytest.raises(InputError):
        session.exec("true", user=user)
    assert session.exec("echo works").stdout == b"works\n"


ANSWERS = {
    "more digits than a number has": "head -c 6000 /dev/zero | tr '\\0' 9",
    "nobody's number": "echo 4294967295",
    "beyond the kernel's": "echo 99999999999",
    "negative": "echo -1",
    "nothing": "exit 0",
}


@pytest.mark.engine
@pytest.mark.native
def test_roots_answers_about_its_users_are_bounded(engine: ContainerEngine, tool_image: str) -> None:
    """Root of a whole system may replace the programs that say who a user is."""
    assert tool_image
    with agentv_sandbox.open_session(
        engine="native", system=SystemSpec(size_bytes=32 << 20), limits=_LIMITS
    ) as session:
        for name, answer in ANSWERS.items():
            session.put({"/usr/bin/id": f"#!/bin/sh\n{answer}\n".encode()})
            session.exec("chmod 755 /usr/bin/id")
            with pytest.raises(InputError):
                session.exec("true", user=f"user of {name}")
            assert session.exec("echo works").stdout == b"works\n"
        line = "u:x:{}:{}::{}:/bin/sh"
        homes = {2001: "relative", 2002: "/\x1b[2J", 2003: "/" + "x" * 5000, 2004: "/srv/\x01"}
        lines = [line.format(uid, uid, home) for uid, home in homes.items()]
        program = '#!/bin/sh\nsed -n "/^u:x:$2:/p" /lines\n'
        session.put({"/lines": "\n".join(lines).encode(), "/usr/bin/getent": program.encode()})
        session.exec("chmod 755 /usr/bin/getent; chmod 644 /lines")
        for uid in homes:
            assert session.exec('printf %s "$HOME"', user=uid).stdout == b"/"
