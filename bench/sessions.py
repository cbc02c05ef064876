"""What sessions cost: ``sessions.py [--engine native] cost | open N | churn N | fork N``.

``cost``: processor time from open to the first output, of which the runtime's own, and of one more command.
``open N``: N sessions at once, the memory of each. ``churn N``: N opened and closed: what is left, memory over time.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from agentv_sandbox import LimitOverrides, open_session
from agentv_sandbox.engines import LABEL_RUN
from agentv_sandbox.engines.table import find_engine
from agentv_sandbox.kernel.layout import StateFolders
from agentv_sandbox.models.container import OwnedObject, VolumeSpec

_ROUNDS = 30
_COMMANDS = 300


def processor_ms(work: Callable[[], object]) -> float:
    """Of this process and of all that it started and that has ended."""
    before = _used()
    work()
    return (_used() - before) * 1000


def _used(*of: int) -> float:
    usages = [resource.getrusage(each) for each in of or (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def open_and_print(engine: str) -> float:
    """What closing takes of this process, in milliseconds of a processor."""
    with open_session(engine=engine, files={"x": b"y"}) as session:
        assert session.exec(["/usr/bin/cat", "x"]).stdout == b"y"
        printed = _used(resource.RUSAGE_SELF)
    return (_used(resource.RUSAGE_SELF) - printed) * 1000


def open_until_printed(engine: str) -> tuple[float, float]:
    """Processor time to the first output, and in all. What a session starts is counted when it has ended, so of
    closing only what this process takes is left out of the first."""
    before = _used()
    closing = open_and_print(engine)
    whole = (_used() - before) * 1000
    return whole - closing, whole


def runtime_alone(folder: str) -> Callable[[], None]:
    """The runtime with the bundle of the open session, running ``true``: what no program around it can save."""
    state = Path(find_engine(os.environ, "native").address.removeprefix("native://"))
    containers = StateFolders(state, group=0).containers
    names = {each.id for each in _mine("native")}
    (bundle,) = (file for file in containers.glob("*/config.json") if file.parent.name in names)
    copy = Path(folder)
    config = json.loads(bundle.read_text())
    config["process"]["args"] = ["/usr/bin/true"]
    config["linux"]["cgroupsPath"] += "-bench"
    (copy / "config.json").write_text(json.dumps(config))

    def run() -> None:
        name = f"bench-{time.monotonic_ns()}"
        subprocess.run(
            ["runc", "--root", str(copy / "state"), "run", "--bundle", str(copy), name], check=True
        )

    return run


def yardstick() -> object:
    """What the machine takes for a million squares: figures of a busy or slow one are held against it."""
    return sum(number * number for number in range(1_000_000))


def cost(engine: str) -> None:
    for _ in range(3):
        open_and_print(engine)  # the engine is found, the image proved
    taken = [open_until_printed(engine) for _ in range(_ROUNDS)]
    printed, whole = (statistics.median(each) for each in zip(*taken, strict=True))
    loop = statistics.median(processor_ms(yardstick) for _ in range(_ROUNDS))
    print(f"a loop of a million squares, against which the figures are held: {loop:.1f} ms of processor time")
    _say("open, a file in, one command, its output", printed, loop)
    _say("  and its end", whole, loop)
    session = open_session(engine=engine)
    if engine == "native":
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            run = runtime_alone(folder)
            own = statistics.median(processor_ms(run) for _ in range(_ROUNDS))
        _say("  the runtime alone", own, loop)
        _say("  the output beyond it", printed - own, loop)
        _say("  and its end beyond it", whole - own, loop)

    def commands() -> None:
        for _ in range(_COMMANDS):
            session.exec(["/usr/bin/true"])
        session.close()

    begun = time.monotonic()
    each = processor_ms(commands) / _COMMANDS
    wall = (time.monotonic() - begun) / _COMMANDS * 1000
    _say("one command", each, loop)
    print(f"  on the clock {wall:.1f} ms")


def _say(what: str, taken_ms: float, loop_ms: float) -> None:
    print(f"{what}: {taken_ms:.1f} ms, {taken_ms / loop_ms:.2f} loops")


def open_many(engine: str, count: int) -> None:
    before = _available()
    begun = time.monotonic()
    sessions = [open_session(engine=engine) for _ in range(count)]
    print(f"{count} open after {time.monotonic() - begun:.1f} s")
    for session in sessions:
        assert session.exec("echo here").stdout == b"here\n"
    print(f"{(before - _available()) / count / 1024:.1f} MiB of the machine's memory each")
    begun = time.monotonic()
    for session in sessions:
        session.close()
    print(f"closed after {time.monotonic() - begun:.1f} s")
    _say_what_is_left(engine)


def churn(engine: str, count: int) -> None:
    begun = time.monotonic()
    for number in range(1, count + 1):
        open_and_print(engine)
        if number in (count // 10, count // 2, count):
            own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            descriptors = sum(1 for _ in Path("/proc/self/fd").iterdir())
            print(
                f"{number}: {own:.0f} MiB at most in this process, {descriptors} descriptors, "
                f"{(time.monotonic() - begun) / number * 1000:.0f} ms each"
            )
    _say_what_is_left(engine)


def fork(engine: str, count: int) -> None:
    """Workspaces over a snapshot of 10,000 files: what each takes before a container mounts it; then in sessions."""
    files = {f"d{n % 100}/f{n}": b"%d" % n for n in range(10_000)}
    with open_session(engine=engine, files=files, limits=LimitOverrides(workspace_inodes=30_000)) as session:
        begun = time.monotonic()
        snapshot = session.snapshot()
        print(f"a snapshot of {snapshot.files} files after {time.monotonic() - begun:.1f} s")
        there = {(each.path, each.mode, each.link) for each in session.list(deep=True)}
    found, times = find_engine(dict(os.environ), engine), []
    spec = VolumeSpec(uid=snapshot.uid, over=snapshot.volume)
    for number in range(count):
        begun = time.monotonic()
        found.create_volume(f"agentv-bench-{number}", spec, labels={})
        times.append((time.monotonic() - begun) * 1000)
    for number in range(count):
        found.remove_volume(f"agentv-bench-{number}")
    print(f"{count} forks: {statistics.median(times):.2f} ms each, {max(times):.2f} at most")
    begun = time.monotonic()
    for _ in range(10):
        with open_session(engine=engine, snapshot=snapshot) as session:
            assert {(each.path, each.mode, each.link) for each in session.list(deep=True)} == there
    print(f"10 sessions with it, their trees equal: {(time.monotonic() - begun) * 100:.0f} ms each")
    found.remove_volume(snapshot.volume)
    found.remove_volume(f"{snapshot.volume}-complete")


def _say_what_is_left(engine: str) -> None:
    print(f"left: {len(_mine(engine))} objects of this process")


def _mine(engine: str) -> list[OwnedObject]:
    found = find_engine(dict(os.environ), engine).owned({LABEL_RUN: None})
    return [each for each in found if f":{os.getpid()}:" in str(each.labels)]


def _available() -> int:
    """KiB."""
    lines = Path("/proc/meminfo").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engine", default="native")
    parser.add_argument("what", nargs="?", default="cost", choices=["cost", "open", "churn", "fork"])
    parser.add_argument("count", type=int, nargs="?", default=200)
    asked = parser.parse_args()
    if asked.what == "cost":
        cost(asked.engine)
    elif asked.what == "open":
        open_many(asked.engine, asked.count)
    elif asked.what == "fork":
        fork(asked.engine, asked.count)
    else:
        churn(asked.engine, asked.count)


if __name__ == "__main__":
    main()
