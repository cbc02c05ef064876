"""Runs inside two containers at once: ``act`` does what others must not see, ``watch`` looks for it.

Each line of standard input is an order; each is answered by one line of JSON.
"""

import contextlib
import ctypes
import fcntl
import json
import os
import re
import socket
import struct
import sys

MARK = "agentvneighbour"
PTYS, EVENTS, SOCKETS = 150, 330, 170
LIBC = ctypes.CDLL(None, use_errno=True)
LARGEST = 64 << 10
LOCKED_AT = 41_573_157_341
OFD_LOCK = 37
SKIPPED = re.compile(r"/proc/(?:\d+|self|thread-self)/|/proc/(?:kmsg|kcore|config\.gz|kallsyms|mounts|net)$")


class Actor:
    """Everything at once, and nothing of it any more."""

    def __init__(self):
        self.held = []

    def on(self):
        self.held = [os.eventfd(0) for _ in range(EVENTS)]
        self.held += [os.open("/dev/ptmx", os.O_RDWR | os.O_NOCTTY) for _ in range(PTYS)]
        for _ in range(SOCKETS):
            sock = socket.socket()
            self.held.append(sock.detach())
        server = socket.socket(socket.AF_UNIX)
        server.bind(f"\0{MARK}")
        self.held.append(server.detach())
        for folder in ("/tmp", "/dev/shm"):
            self.held.append(os.open(f"{folder}/{MARK}", os.O_CREAT | os.O_RDWR))
        LIBC.prctl(15, MARK.encode()[:15], 0, 0, 0)
        for path in shared_files():
            try:
                fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            except OSError:
                continue
            self.held.append(fd)
            with contextlib.suppress(OSError):
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(OSError):
                fcntl.lockf(fd, fcntl.LOCK_SH | fcntl.LOCK_NB, 1, LOCKED_AT)
            with contextlib.suppress(OSError):
                # The kernel shows locks of open files in every namespace, of processes in their own.
                fcntl.fcntl(fd, OFD_LOCK, struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, LOCKED_AT, 1, 0))
            with contextlib.suppress(OSError):
                os.read(fd, 1)
        return len(self.held)

    def off(self):
        for fd in self.held:
            os.close(fd)
        self.held = []
        LIBC.prctl(15, b"python3", 0, 0, 0)
        for folder in ("/tmp", "/dev/shm"):
            os.unlink(f"{folder}/{MARK}")
        return 0


def shared_files():
    """One of each kind of file that another container may have, too."""
    yield from (
        "/proc/locks",
        "/proc/version",
        "/proc/sys/kernel/hostname",
        "/sys/kernel/notes",
        "/sys",
        "/proc",
        "/sys/fs/cgroup",
        "/sys/devices",
        "/dev",
        "/dev/null",
        "/dev/zero",
        "/dev/urandom",
        "/dev/tty",
        "/dev/shm",
        "/dev/mqueue",
        "/dev/pts",
        "/tmp",
        "/usr/bin/env",
        "/etc/passwd",
        "/usr/lib",
        "/",
    )
    for place, folders, names in os.walk("/suite"):
        yield from (os.path.join(place, name) for name in [".", *folders, *names])
    yield from (f"/proc/self/ns/{name}" for name in ("net", "mnt", "ipc", "pid", "uts"))


class Watcher:
    def __init__(self):
        self.watch = LIBC.inotify_init1(os.O_NONBLOCK)
        for path in shared_files():
            LIBC.inotify_add_watch(self.watch, path.encode(), 0xFFF)
        self.seen = []

    def look(self):
        """What there is now: texts by their file, times of shared files, events."""
        texts = {}
        for path in files():
            try:
                fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
            except OSError:
                continue
            try:
                texts[path] = os.read(fd, LARGEST).decode("utf-8", "replace")
            except OSError:
                pass
            finally:
                os.close(fd)
        times = {}
        for path in shared_files():
            try:
                info = os.stat(path)
            except OSError:
                continue
            if path.startswith("/suite"):
                times[path] = (info.st_atime_ns, info.st_mtime_ns, info.st_ctime_ns, info.st_nlink)
        self.seen.append((texts, times))
        marked = sorted(path for path, text in texts.items() if MARK in text or str(LOCKED_AT) in text)
        return {"files": len(texts), "marked": marked}

    def conclude(self):
        """Files in which a number goes up and down with what the actor holds; times that changed; events; locks."""
        told = sorted(
            path for path in self.seen[0][0] if follows([seen[0].get(path, "") for seen in self.seen])
        )
        times = sorted(
            {
                path
                for one, other in zip(self.seen, self.seen[1:])
                for path in one[1]
                if one[1][path] != other[1].get(path)
            }
        )
        return {"told": told, "times": times}

    def events(self):
        """Bytes of events on shared files since the last time."""
        total = 0
        while True:
            try:
                total += len(os.read(self.watch, 1 << 20))
            except OSError:
                return total

    def locked(self):
        """Shared files that somebody else has locked."""
        found = []
        for path in shared_files():
            try:
                fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            except OSError:
                continue
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                found.append(path)
            finally:
                os.close(fd)
        return found


def files():
    for top in ("/proc", "/sys"):
        for place, folders, names in os.walk(top):
            folders[:] = [
                name
                for name in folders
                if not (top == "/proc" and place == top and (name.isdigit() or name == "tty"))
            ]
            for name in names:
                path = os.path.join(place, name)
                if not SKIPPED.match(path):
                    yield path
    for place, _, names in os.walk("/proc/self/net"):
        yield from (os.path.join(place, name) for name in names)
    yield from ("/proc/self/mountinfo", "/proc/self/cgroup", "/proc/self/status")


def follows(texts):
    """Whether some number of the texts, taken while the other acted and while it did not by turns, follows that."""
    rows = [[int(number) for number in re.findall(r"\d{1,15}", text)] for text in texts]
    if len({len(row) for row in rows}) != 1:
        return False
    for column in zip(*rows):
        rises = [on - off for off, on in zip(column[::2], column[1::2])]
        falls = [on - off for on, off in zip(column[1::2], column[2::2])]
        if min(rises + falls) >= min(PTYS, SOCKETS) * 0.7 and max(rises + falls) <= 3 * (
            PTYS + EVENTS + SOCKETS
        ):
            return True
    return False


def main():
    role = Actor() if sys.argv[1] == "act" else Watcher()
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        try:
            answer = getattr(role, line.strip())()
        except OSError as error:
            answer = repr(error)
        print(json.dumps(answer), flush=True)


main()
