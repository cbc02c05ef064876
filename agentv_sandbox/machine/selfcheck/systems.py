"""Root of a whole system: what it may do there, and that nothing of it reaches further."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator

from agentv_sandbox.containers.policy import Role, roots_capabilities
from agentv_sandbox.containers.sandbox import Sandbox
from agentv_sandbox.containers.specs import System
from agentv_sandbox.machine.selfcheck.report import Attack, attempt
from agentv_sandbox.machine.selfcheck.resources import FORK_BOMB, HEARTBEAT, TWO_LOOKS, is_still
from agentv_sandbox.machine.selfcheck.surface import ProbeRow, probe_rows, probe_script, probe_settings
from agentv_sandbox.models.container import MB, ExecResult, Limits
from agentv_sandbox.models.paths import WORKSPACE

_SIZE, _FILES = 64 * MB, 3000
_NO_ROOM = (errno.EFBIG, errno.ENOSPC)
_SMALL = Limits(timeout_s=30, memory_bytes=256 * MB, pids=64, file_bytes=1 << 40, open_files=4096)
_OWN = {
    ("E5", "chroot"),
    ("R13", "sparse file of 1 TB"),
    ("R25", "user of its own"),
    ("O16", "inherited files"),
}
"""What is root's own affair on a system: to look at less of it, a file whose bytes are not there, being root, and the
pipe of the script itself, which is the first process there."""
FILL = """
import os
written = 0
try:
    with open('/var/big', 'wb', buffering=0) as f:
        for _ in range(10240):
            written += f.write(bytes(1 << 20))
except OSError as error:
    print(written, error.errno)
os.unlink('/var/big')
"""
MANY_FILES = """
made = 0
try:
    for made in range(1000000):
        open(f'/var/f{made}', 'w').close()
except OSError as error:
    print(made, error.errno)
"""
SET_USER_ID = """
import os, shutil, subprocess
shutil.copy('/usr/bin/id', '/own-id'); os.chmod('/own-id', 0o4755)
print(subprocess.run(['/own-id', '-u'], user=1000, group=1000, extra_groups=[], capture_output=True, text=True).stdout)
"""
DEVICES = """
import os, stat
got = []
CHAR, BLOCK = stat.S_IFCHR, stat.S_IFBLK
for kind, major, minor in ((CHAR, 1, 1), (CHAR, 1, 3), (BLOCK, 7, 0), (BLOCK, 8, 0)):
    for place in ('/own', '/dev/own', '/tmp/own'):
        try:
            os.mknod(place, kind | 0o666, os.makedev(major, minor)); got.append(place)
        except OSError:
            pass
print(got)
"""
KERNEL = """
import os
paths = [f'/proc/sys/{path}' for path in (
    'kernel/core_pattern', 'kernel/modprobe', 'kernel/hostname', 'vm/overcommit_memory', 'net/ipv4/ip_forward',
    'fs/binfmt_misc/register')]
paths += ['/proc/sysrq-trigger', '/sys/kernel/uevent_helper', '/sys/power/state', '/sys/fs/cgroup/release_agent',
    '/sys/fs/cgroup/memory/release_agent', '/sys/fs/cgroup/memory/memory.limit_in_bytes', '/sys/fs/cgroup/memory.max']
opened = []
for path in paths:
    try:
        os.close(os.open(path, os.O_WRONLY)); opened.append(path)
    except OSError:
        pass
print(opened)
"""
CHROOT = """
import os
before = os.stat('/')
os.mkdir('/jail'); top = os.open('/', os.O_RDONLY); os.chroot('/jail'); os.fchdir(top)
for _ in range(200): os.chdir('..')
os.chroot('.')
after = os.stat('/')
print((before.st_dev, before.st_ino) == (after.st_dev, after.st_ino))
"""


def attacks(sandbox: Sandbox, image: str) -> Iterator[Attack]:
    """Each on systems of its own; nothing where the engine has none. ``image`` needs Python."""
    if not sandbox.info.systems:
        return
    with sandbox.system(image, size_bytes=_SIZE, inodes=_FILES) as system:
        yield from _surface(sandbox, system)
        yield from _reaches(sandbox, system)
    with sandbox.system(image, size_bytes=_SIZE, inodes=_FILES) as system:
        yield from _processes(sandbox, system)
    yield from _exhausts(sandbox, image)
    plain = sandbox.run(Role.AGENT, ["ls", "/beat", "/own-id", "/jail"], image=image)
    yield attempt("W9", "the image after them", not plain.stdout, plain.stdout[:80])


def _python(sandbox: Sandbox, system: System, *codes: str) -> list[ExecResult]:
    return [
        sandbox.run(
            Role.AGENT, ["python3", "-I", "-c", code], image=system.image, system=system, limits=_SMALL
        )
        for code in codes
    ]


def _surface(sandbox: Sandbox, system: System) -> Iterator[Attack]:
    settings = probe_settings(writable=[], inodes=_FILES, open_files=_SMALL.open_files)
    result = sandbox.run(
        Role.AGENT,
        ["python3", "-I", "-", json.dumps(settings)],
        image=system.image,
        system=system,
        stdin=probe_script(),
        limits=_SMALL,
    )
    rows = probe_rows(result) if result.ok else []
    if not rows:
        yield Attack(id="W1", name="the script", outcome="broken", detail=result.outcome)
    for row in rows:
        fired = row.fired is not False and not _is_roots_own(sandbox, row)
        yield attempt("W1", f"root of a system: {row.id} {row.name}", not fired, row.detail)


def _is_roots_own(sandbox: Sandbox, row: ProbeRow) -> bool:
    """Whether root may do that to its own copy of the image."""
    if (row.id, row.name) in _OWN:
        return True
    if row.id == "E20":  # files of the image's, of which it has a copy
        return row.name.split(" ", 1)[-1].startswith(("/etc/", "/usr/", "/var/", "/agentv-probe"))
    if row.name == "writable mounts":
        return set(row.detail.split(", ")) <= {"/", "/dev"}
    if row.name == "capabilities":
        mask = hex(roots_capabilities(sandbox.info, Role.SESSION, system=True))
        return row.detail == str(dict.fromkeys(("CapPrm", "CapEff", "CapBnd"), mask))
    return False


def _reaches(sandbox: Sandbox, system: System) -> Iterator[Attack]:
    shell, devices, kernel, chroot = _python(sandbox, system, SET_USER_ID, DEVICES, KERNEL, CHROOT)
    yield attempt("W4", "a set-user-id shell of root's", shell.stdout.strip() == b"1000", shell.stdout[:40])
    yield attempt("W5", "device nodes", devices.stdout.strip() == b"[]", devices.stdout[:80])
    yield attempt("W6", "settings of the kernel", kernel.stdout.strip() == b"[]", kernel.stdout[:80])
    said = chroot.stdout.strip() + chroot.stderr[-80:]
    yield attempt("W7", "out of a chroot", chroot.stdout.strip() == b"True", said)


def _processes(sandbox: Sandbox, system: System) -> Iterator[Attack]:
    of_root = [code.replace(f"{WORKSPACE}/", "/") for code in (HEARTBEAT, TWO_LOOKS)]
    bomb, beat, look = _python(sandbox, system, FORK_BOMB, *of_root)
    made = int(bomb.stdout or b"0")
    yield attempt("W2", "a fork bomb", 0 < made < _SMALL.pids, f"{made} of {_SMALL.pids}")
    yield attempt(
        "W8", "a daemon that is left", beat.ok and is_still(look), look.stdout[:40] + look.stderr[-80:]
    )


def _exhausts(sandbox: Sandbox, image: str) -> Iterator[Attack]:
    """The kernel refuses what is too much; where the engine bounds the size of each file alone, the container is ended
    for more."""
    for name, code, most in (
        ("10 GB written", FILL, 1.2 * _SIZE),
        ("a million files", MANY_FILES, _FILES + 100),
    ):
        with sandbox.system(image, size_bytes=_SIZE, inodes=_FILES) as system:
            (result,) = _python(sandbox, system, code)
        if result.outcome == "full":
            said = result.stderr.strip().rpartition(b"\n")[2]
            yield attempt("W3", name, b"more than" in said, said[:120])
            continue
        count, number = map(int, (result.stdout.split() or [b"0", b"0"])[:2])
        yield attempt("W3", name, 0 < count <= most and number in _NO_ROOM, f"{count}")
