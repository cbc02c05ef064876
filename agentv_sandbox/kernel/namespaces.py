"""User namespaces, each with an owner of its own.

What the kernel counts per user (inotify instances, queued messages, pending signals, locked memory) it charges to the
user in the namespace and to the namespace's owner outside. With one owner for all, a container could take what the
others, and the machine's root, have left.

A helper process makes them, since only a process with one thread can enter one: asked for an owner's id by a socket, it
answers with a descriptor. One is asked for ahead, so that containers need not wait for it.

The helper is a second watchdog as well: where the socket ends before it was said that all is done, this process was
killed, and perhaps the first watchdog with it, and the helper becomes the program that removes what is left. It
does so only once it has another parent: of a process that lives nothing is removed.
"""

from __future__ import annotations

import atexit
import os
import secrets
import socket
import struct
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress

from agentv_sandbox.base import hostprograms
from agentv_sandbox.base.errors import EngineError
from agentv_sandbox.kernel.ids import Ids

_REQUEST = struct.Struct("=I")
_ANSWER_S = 30.0
_HELPER = """
import _socket, ctypes, os, sys, time  # socket, with all that it imports, is half of the time that a start takes
libc = ctypes.CDLL(None, use_errno=True)
SECUREBITS, KEEP_CAPABILITIES, NEW_USER = 28, 4, 0x10000000

def made(owner, extents):
    told, tells = os.pipe()
    waits, ends = os.pipe()
    pid = os.fork()
    if pid == 0:
        libc.prctl(SECUREBITS, KEEP_CAPABILITIES, 0, 0, 0)
        os.setresgid(owner, owner, owner)
        os.setresuid(owner, owner, owner)
        failed = libc.unshare(NEW_USER) and ctypes.get_errno()
        os.write(tells, bytes([failed]))
        os.close(ends)
        os.read(waits, 1)
        os._exit(0)
    os.close(tells)
    os.close(waits)
    try:
        failed = (os.read(told, 1) or b'\\x01')[0]
        if failed:
            raise OSError(failed, os.strerror(failed))
        for kind in ('uid_map', 'gid_map'):
            with open(f'/proc/{pid}/{kind}', 'w') as file:
                file.write(extents)
        return os.open(f'/proc/{pid}/ns/user', os.O_RDONLY)
    finally:
        os.close(told)
        os.close(ends)
        os.waitpid(pid, 0)

parent = os.getppid()
link = _socket.socket(fileno=int(sys.argv[1]))
extents = sys.argv[2]
try:
    while asked := link.recv(4):
        if asked == b'end':
            sys.exit()
        try:
            fd = made(int.from_bytes(asked, sys.byteorder), extents)
        except OSError as error:
            link.send(str(error).encode())
        else:
            rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, fd.to_bytes(4, sys.byteorder))
            link.sendmsg([b'ok'], [rights])
            os.close(fd)
except ConnectionError:  # it ended before it took the last answer
    pass
time.sleep(1)  # the watchdog's turn; and a process that ends gives its children away last
if sys.argv[3:] and os.getppid() != parent:
    os.execv(sys.argv[3], sys.argv[3:])
"""


class UserNamespaces:
    """Makes namespaces that know the ids of ``Ids``, each with one of its owners. Safe to share between threads."""

    def __init__(self, ids: Ids, sweeper: Sequence[str]) -> None:
        """``sweeper``: the command that removes what this process leaves when it is killed. Empty for the sweeper
        itself, or each that is killed, as where memory is short, would be followed by another without end."""
        self._sweeper = sweeper
        self._extents = "\n".join(f"{inside} {here} {count}" for inside, here, count in ids.extents)
        self._owners = ids.owners
        self._next = secrets.randbelow(len(ids.owners))
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._link: socket.socket | None = None
        self._helper: subprocess.Popen[bytes] | None = None

    def new(self) -> int:
        """A descriptor of a new namespace, for the caller to close. Raises EngineError."""
        with self._lock:
            try:
                if self._link is None:
                    self._link = self._started()
                    self._ask(self._link)
                said, descriptors = self._next_answer(self._link)
                if said and not descriptors:  # of some time ago: it may work now
                    said, descriptors = self._next_answer(self._link)
            except OSError as error:
                self._end()
                raise EngineError(f"no user namespace can be made: {error}") from error
        if not descriptors:
            raise EngineError(
                f"no user namespace can be made: {said.decode('utf-8', 'replace') or 'no answer'}"
            )
        os.set_inheritable(descriptors[0], False)
        return descriptors[0]

    def _next_answer(self, link: socket.socket) -> tuple[bytes, list[int]]:
        said, descriptors, _, _ = socket.recv_fds(link, 200, 1)
        try:
            self._ask(link)
        except OSError:
            for descriptor in descriptors:
                os.close(descriptor)
            raise
        return said, descriptors

    def _ask(self, link: socket.socket) -> None:
        self._next = (self._next + 1) % len(self._owners)
        link.send(_REQUEST.pack(self._owners[self._next]))

    def _started(self) -> socket.socket:
        self._pid = os.getpid()
        atexit.register(self.close)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(_ANSWER_S)
        with theirs:
            self._helper = hostprograms.start(
                hostprograms.NAMESPACES,
                [*hostprograms.PYTHON, "-c", _HELPER, str(theirs.fileno()), self._extents, *self._sweeper],
                pass_fds=(theirs.fileno(),),
            )
        return ours

    def close(self) -> None:
        """End the helper; the next namespace begins another one. It belongs to the process that started it: a fork of
        that, which comes here when it exits, leaves it alone."""
        if self._pid != os.getpid():
            return
        with self._lock:
            self._end()

    def _end(self) -> None:
        atexit.unregister(self.close)
        if self._link is not None:
            with suppress(OSError):
                self._link.send(b"end")
        if self._helper is not None:
            try:
                self._helper.wait(_ANSWER_S)
            except subprocess.TimeoutExpired:
                self._helper.kill()
                self._helper.wait()
        if self._link is not None:
            self._link.close()  # only now: an answer that nobody took would break the connection before it read the end
        self._link = self._helper = None
