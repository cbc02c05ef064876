"""Exhaustion, forged endings and left-overs: each attack in a container with limits small enough to reach."""

from __future__ import annotations

import resource
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace

from agentv_sandbox.base.dataclass import dataclass
from agentv_sandbox.containers.policy import POLICIES, Role
from agentv_sandbox.containers.sandbox import Sandbox
from agentv_sandbox.machine.selfcheck.report import Attack, attempt
from agentv_sandbox.models.container import MB, ExecResult, Limits, VolumeSpec
from agentv_sandbox.models.paths import WORKSPACE

SMALL = Limits(timeout_s=20, memory_bytes=64 * MB, pids=64, tmp_bytes=16 * MB, tmp_inodes=1000)


@dataclass
class Resources:
    """Worst overshoot seen, for the figures."""

    pids: int = 0
    wall_s: float = 0.0
    disk_bytes: int = 0
    rss_bytes: int = 0


@dataclass(frozen=True, kw_only=True)
class Bench:
    """Where the attacks of this module run."""

    sandbox: Sandbox
    image: str
    measured: Resources = field(default_factory=Resources)

    def python(
        self, code: str, *, limits: Limits = SMALL, stdin: bytes = b"", uid: int | None = None
    ) -> ExecResult:
        return self.sandbox.run(
            Role.AGENT, ["python3", "-I", "-c", code], image=self.image, limits=limits, stdin=stdin, uid=uid
        )

    def on_volume(self, spec: VolumeSpec, *codes: str) -> list[ExecResult]:
        """Run each code in a container of its own, one after the other, on one workspace."""
        with self.sandbox.volumes(workspace=spec) as volumes:
            return [
                self.sandbox.run(
                    Role.AGENT,
                    ["python3", "-I", "-c", code],
                    image=self.image,
                    limits=SMALL,
                    uid=spec.uid,
                    mounts=[volumes.mount("workspace", WORKSPACE, read_only=False)],
                    workdir=WORKSPACE,
                )
                for code in codes
            ]


FORK_BOMB = """
import os, time
made = 0
try:
    while made < 1000:
        if os.fork() == 0:
            time.sleep(30); os._exit(0)
        made += 1
except OSError:
    pass
print(made, flush=True)
"""

FILL = """
import os
written = 0
try:
    with open({path!r}, 'wb', buffering=0) as f:
        for _ in range(256):
            written += f.write(bytes(1 << 20))
except OSError as error:
    print(written, error.errno, flush=True)
else:
    print(written, 0, flush=True)
"""

MANY_FILES = """
import os
made = 0
try:
    for made in range(20000):
        open(f'{path}/{{made}}', 'w').close()
except OSError as error:
    print(made, error.errno, flush=True)
else:
    print(made, 0, flush=True)
"""

# Each beat is whole: one that is ended between opening and writing would leave nothing to look at.
HEARTBEAT = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in range(600):
            with open('/workspace/next', 'w') as f: f.write(str(number))
            os.replace('/workspace/next', '/workspace/beat')
            time.sleep(0.05)
    os._exit(0)
time.sleep(0.5)
"""

TWO_LOOKS = """
import time
first = open('/workspace/beat').read(); time.sleep(1); second = open('/workspace/beat').read()
print(first, second)
"""

OOM_CHILD = """
import os
child = os.fork()
if child == 0:
    held = [bytearray(1 << 20) for _ in range(200)]
os.waitpid(child, 0)
"""

INOTIFY = """
import ctypes, sys, time
libc = ctypes.CDLL(None)
made = 0
while made < 100 and libc.inotify_init1(0) >= 0:
    made += 1
print(made, flush=True)
time.sleep({hold})
"""


ZOMBIES = """
import os, time
made = 0
try:
    while made < 500:
        child = os.fork()
        if child == 0:
            try: os.fork()
            finally: os._exit(0)
        made += 1
except OSError:
    pass
print(made, flush=True)
"""


def fork_bomb(bench: Bench) -> Iterator[Attack]:
    result = bench.python(FORK_BOMB)
    children = int(result.stdout or b"-1")
    bench.measured.pids = max(bench.measured.pids, children - SMALL.pids)
    yield attempt("R1", "fork bomb", 0 <= children <= SMALL.pids, f"{children} of {SMALL.pids}")
    result = bench.python(ZOMBIES)
    children = int(result.stdout or b"-1")
    yield attempt(
        "R20", "dead processes that nobody buries", 0 <= children <= SMALL.pids, f"{children} of {SMALL.pids}"
    )


def memory(bench: Bench) -> Iterator[Attack]:
    result = bench.python("held = [bytearray(1 << 20) for _ in range(200)]; print('held')")
    yield attempt("R2", "200 MB under 64 MB", result.outcome == "oom", result.outcome)
    result = bench.python(OOM_CHILD)
    blamed = result.outcome == "oom" and result.exit_code == 0
    yield attempt("R3", "a child runs out of memory, the parent exits with 0", blamed, result.outcome)
    for code in (124, 137, 143):
        result = bench.python(f"import os; os._exit({code})")
        honest = (result.outcome, result.exit_code) == ("exited", code)
        yield attempt("R4", f"forged exit code {code}", honest, f"{result.outcome}, {result.exit_code}")


def disk(bench: Bench) -> Iterator[Attack]:
    spec = VolumeSpec(size_bytes=8 * MB, inodes=500, uid=bench.sandbox.specs.new_uid())
    fill, many = bench.on_volume(
        spec,
        FILL.format(path=f"{WORKSPACE}/fill"),
        "import os; os.unlink('fill')" + MANY_FILES.format(path=WORKSPACE),
    )
    for case, what, result, cap in (
        ("R9", "fill the workspace", fill, spec.size_bytes),
        ("R14", "files without end in the workspace", many, spec.inodes),
    ):
        reached, error = map(int, result.stdout.split() or (b"-1", b"0"))
        if case == "R9":
            bench.measured.disk_bytes = max(bench.measured.disk_bytes, reached - cap)
        yield attempt(case, what, 0 <= reached <= cap and error == 28, f"{reached} of {cap}, errno {error}")
    filled = bench.python(FILL.format(path="/tmp/fill"), limits=replace(SMALL, memory_bytes=256 * MB))  # noqa: S108
    reached, error = map(int, filled.stdout.split() or (b"-1", b"0"))
    yield attempt("R6", "fill /tmp", 0 <= reached <= SMALL.tmp_bytes, f"{reached}, errno {error}")
    many = bench.python(MANY_FILES.format(path="/tmp"))  # noqa: S108
    reached, error = map(int, many.stdout.split() or (b"-1", b"0"))
    yield attempt(
        "R7", "files without end in /tmp", 0 <= reached <= SMALL.tmp_inodes, f"{reached}, errno {error}"
    )
    full = bench.python(FILL.format(path="/usr/fill"))
    yield attempt("R8", "fill the system", full.stdout.startswith(b"0 "), full.stdout.decode())


def output(bench: Bench) -> Iterator[Attack]:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    limits = replace(SMALL, stdout_bytes=MB, flood_bytes=256 * MB)
    flood = "import os\nfor _ in range(1600): os.write(1, b'x' * 65536)"
    result = bench.python(flood, limits=limits)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) << 10
    bench.measured.rss_bytes = max(bench.measured.rss_bytes, grown)
    kept, total = len(result.stdout), result.stdout_total
    yield attempt(
        "R17",
        "100 MB of output",
        kept <= MB and total == 1600 << 16 and grown < 24 * MB,
        f"kept {kept} of {total}, memory +{grown >> 20} MB",
    )
    started = time.monotonic()
    result = bench.python(flood.replace("1600", "1 << 40"), limits=replace(limits, flood_bytes=16 * MB))
    took = time.monotonic() - started
    yield attempt(
        "R18",
        "output without end",
        result.outcome == "flood" and took < 15,
        f"{result.outcome}, {took:.1f} s",
    )
    lost = 0
    for _ in range(_COMPLETENESS_RUNS):
        result = bench.python("import os; os.write(1, b'{\"score\": 1}')")
        lost += result.stdout != b'{"score": 1}'
    yield attempt("I22", "output without a final newline", lost == 0, f"{lost} of {_COMPLETENESS_RUNS} lost")


_COMPLETENESS_RUNS = 20
_OVERTIME_S = 5.0


def timers(bench: Bench) -> Iterator[Attack]:
    attacks: Mapping[str, tuple[str, str]] = {
        "R21": (
            "ignores signals",
            "import signal, time\n"
            "for n in set(signal.Signals) - {9, 19}: signal.signal(n, signal.SIG_IGN)\ntime.sleep(60)",
        ),
        "R23": (
            "stops the timer",
            "import os, signal, time\nos.kill(1, signal.SIGSTOP)\nos.kill(1, signal.SIGKILL)\ntime.sleep(60)",
        ),
        "R22": (
            "hides from its session",
            "import os, time\nif os.fork() == 0:\n os.setsid()\n"
            " if os.fork() == 0: time.sleep(60)\n os._exit(0)\ntime.sleep(60)",
        ),
        "O7": ("closes its output and stays", "import os, time\nos.close(1); os.close(2); time.sleep(60)"),
    }
    for case, (what, code) in attacks.items():
        started = time.monotonic()
        result = bench.python(code, limits=replace(SMALL, timeout_s=1.5))
        over = time.monotonic() - started - 1.5
        bench.measured.wall_s = max(bench.measured.wall_s, over)
        ended = result.outcome == "timeout" and over < _OVERTIME_S
        yield attempt(case, what, ended, f"{result.outcome}, {over:.1f} s over")


def is_still(looks: ExecResult) -> bool:
    """Whether ``TWO_LOOKS`` saw the same twice."""
    seen = looks.stdout.split()
    return len(seen) == 2 and seen[0] == seen[1]


def left_behind(bench: Bench) -> Iterator[Attack]:
    _, looks = bench.on_volume(VolumeSpec(uid=bench.sandbox.specs.new_uid()), HEARTBEAT, TWO_LOOKS)
    yield attempt("R22", "a daemon outlives its command", is_still(looks), looks.stdout[:40])


SPIN = """
import time
def throttled():
    for path in ('/sys/fs/cgroup/cpu/cpu.stat', '/sys/fs/cgroup/cpu.stat'):
        try:
            return dict(line.split() for line in open(path))['nr_throttled']
        except (OSError, KeyError):
            pass
    return '0'
start = time.monotonic()
while (spent := time.monotonic() - start) < 1 or (spent < 20 and time.process_time() < 2 and throttled() == '0'):
    until = time.monotonic() + 0.1
    while time.monotonic() < until: pass
print(time.process_time(), throttled(), spent)
"""


def processor(bench: Bench) -> Iterator[Attack]:
    """A busy machine gives a spinning program little anyway, so the kernel's own word is asked too, and waited for."""
    result = bench.python(SPIN, limits=replace(SMALL, cpus=0.1))
    used, throttled, spent = map(float, result.stdout.split() or (b"9", b"0", b"1"))
    yield attempt(
        "R24",
        "spins on a tenth of a processor",
        used < 0.5 * spent and throttled > 0,
        f"{used:.2f} s in {spent:.0f} s, held back {throttled:.0f} times",
    )


def shared_limits(bench: Bench) -> Iterator[Attack]:
    """Two containers at once; the kernel counts inotify instances per user, 128 of them by default. What one may take
    the other must get as well, whether that is all that it tries or a share."""
    first: list[ExecResult] = []
    holder = threading.Thread(target=lambda: first.append(bench.python(INOTIFY.format(hold=3))))
    holder.start()
    time.sleep(1.0)
    second = bench.python(INOTIFY.format(hold=0))
    holder.join()
    taken, left = (int(result.stdout or b"0") for result in (*first, second))
    yield attempt(
        "R25",
        "takes what the kernel counts per user",
        left >= taken > 0,
        f"{taken} taken, {left} left to the next",
    )


def large_input(bench: Bench) -> Iterator[Attack]:
    size = 1 << 20
    result = bench.python("import sys; print(len(sys.stdin.buffer.read()))", stdin=b"\0\xff" * (size // 2))
    yield attempt("R30", "1 MB on standard input", result.stdout.strip() == b"%d" % size, result.stdout[:40])


GROUPS: tuple[Callable[[Bench], Iterator[Attack]], ...] = (
    fork_bomb,
    memory,
    disk,
    output,
    timers,
    left_behind,
    processor,
    shared_limits,
    large_input,
)


def ceilings() -> Iterator[Attack]:
    """What the policy itself promises: no limit that means "none", memory-backed storage below the memory."""
    for role, policy in POLICIES.items():
        limits = policy.limits
        values = {name: getattr(limits, name) for name in limits.__dataclass_fields__}
        low = [name for name, value in values.items() if value <= 0]
        yield attempt("R27", f"{role}: a limit of 0", not low, ", ".join(low) or "all positive")
        backed = limits.tmp_bytes + limits.shm_bytes
        yield attempt(
            "R6",
            f"{role}: memory-backed storage",
            backed <= limits.memory_bytes / 2,
            f"{backed >> 20} of {limits.memory_bytes >> 20} MB",
        )
