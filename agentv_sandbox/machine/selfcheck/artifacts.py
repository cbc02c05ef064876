"""What an agent leaves: links, pipes, floods and repositories, collected and compared as in a run."""

from __future__ import annotations

import base64
import json
import math
import os
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from agentv_sandbox.containers.blobs import BlobStore
from agentv_sandbox.containers.policy import Role
from agentv_sandbox.containers.sandbox import Sandbox
from agentv_sandbox.containers.volumes import StagedFile
from agentv_sandbox.machine.selfcheck.gittraps import (
    BASE,
    FILE,
    TRAPS,
    Bait,
    LinkTrap,
    Node,
)
from agentv_sandbox.machine.selfcheck.report import Attack, attempt
from agentv_sandbox.models.case import AgentResponse, CaseOutput
from agentv_sandbox.models.container import MB, Limits, Mount, VolumeSpec
from agentv_sandbox.models.paths import WORKSPACE
from agentv_sandbox.workspace.collect import Baseline, Collected, assemble, gather
from agentv_sandbox.workspace.collect.request import CollectLimits

FILES = 5_000
LEVELS = 3_000
ODD_NAMES = (
    b"new\nline",
    b"esc\x1b[31m",
    "bidi\u202ename".encode(),
    b"not-utf8-\xff\xfe",
    b"-rf",
    b"a" * 255,
    b'quo"te',
    b"back\\slash",
    b" blank ",
    b"tab\tname",
)

# Run in the agent's container; argv[1] is JSON: {"secret": host path, "names": [...], "files": n, "levels": n}.
PLANT = """
import json, os, socket, sys
asked = json.loads(sys.argv[1])
os.chdir('/workspace')
os.symlink(asked['secret'], 'link')
os.symlink('/', 'root')
os.symlink('/proc/self/fd', 'fds')
os.mkfifo('pipe.csv')
socket.socket(socket.AF_UNIX).bind('socket')
with open('sparse', 'wb') as f: f.truncate(200 << 20)
with open('setuid', 'wb') as f: f.write(b'x')
os.chmod('setuid', 0o6755)
os.mkdir('closed'); open('closed/inner', 'w').write('closed'); os.chmod('closed/inner', 0); os.chmod('closed', 0)
os.mkdir('names')
for name in asked['names']:
    open(b'names/' + bytes.fromhex(name), 'w').write('odd')
os.mkdir('many')
for number in range(asked['files']): open(f'many/{number}', 'w').close()
os.makedirs('.git/hooks'); open('.git/config', 'w').write('evil')
for source in ('/etc/passwd', '/suite/hidden', '/tmp'):
    try:
        os.link(source, 'hardlink')
        print('linked', source)
    except OSError:
        pass
top = os.open('.', os.O_RDONLY)
for _ in range(asked['levels']):
    os.mkdir('d', dir_fd=top)
    down = os.open('d', os.O_RDONLY, dir_fd=top)
    os.close(top)
    top = down
"""

# argv[1] is JSON: {"folder": {"path": {"file": base64} | {"link": target} | {}}}; {} is a pipe.
PLANT_TREES = """
import base64, json, os, sys
for folder, tree in json.load(sys.stdin).items():
    for path, node in tree.items():
        place = os.path.join('/workspace', folder, path)
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if os.path.lexists(place): os.unlink(place)
        if 'file' in node:
            with open(place, 'wb') as f: f.write(base64.b64decode(node['file']))
        elif 'link' in node: os.symlink(node['link'], place)
        else: os.mkfifo(place)
        if 'hooks' in path: os.chmod(place, 0o755)
"""


def hostile_tree(sandbox: Sandbox, image: str, figures: dict[str, str]) -> Iterator[Attack]:
    """Everything odd at once in one workspace, then a collection of it."""
    with tempfile.TemporaryDirectory() as name:
        secret = Path(name, "secret")
        secret.write_bytes(os.urandom(8).hex().encode())
        request = {
            "secret": str(secret),
            "names": [n.hex() for n in ODD_NAMES],
            "files": FILES,
            "levels": LEVELS,
        }
        spec = VolumeSpec(size_bytes=64 * MB, inodes=20_000, uid=sandbox.specs.new_uid())
        store = BlobStore(Path(name, "store"))
        with sandbox.volumes(workspace=spec) as volumes:
            planted = sandbox.run(
                Role.AGENT,
                ["python3", "-I", "-c", PLANT, json.dumps(request)],
                image=image,
                uid=spec.uid,
                mounts=[volumes.mount("workspace", WORKSPACE, read_only=False)],
            )
            if not planted.ok:
                tail = planted.stderr.decode("utf-8", "replace")[-300:]
                yield Attack(id="A1", name="hostile tree", outcome="broken", detail=tail)
                return
            mounts = [volumes.mount("workspace", WORKSPACE)]
            before = slowness(sandbox)
            started = time.monotonic()
            collected = gather(sandbox, mounts=mounts, known={}, store=store)
            took = time.monotonic() - started
            deadline_s = _DEADLINE_S * max(before, slowness(sandbox))
            again = gather(sandbox, mounts=mounts, known={}, store=store)
            yield attempt("A13", "a second look", again.roots == collected.roots, "the same")
            yield attempt(
                "A7", "hard links out of the workspace", not planted.stdout, planted.stdout or "refused"
            )
        stored = [path for path in Path(name, "store").rglob("*") if path.is_file()]
        leaked = [path for path in stored if secret.read_bytes() in path.read_bytes()[:MB]]
        figures["collector"] = (
            f"{FILES:,} files, 200 MB sparse, {LEVELS:,} levels, {len(ODD_NAMES)} odd names: {took:.1f} s"
        )
        yield from collection_verdicts(collected, leaked, stored, took, deadline_s)


def collection_verdicts(
    collected: Collected, leaked: list[Path], stored: list[Path], took: float, deadline_s: float
) -> Iterator[Attack]:
    entries = collected.roots.get(WORKSPACE, {})
    skipped = {row.path: row.reason for row in collected.skipped}
    names = {path.removeprefix(b"names/") for path in entries if path.startswith(b"names/")}
    files = sum(path.startswith(b"many/") for path in entries)
    # Verdicts come from what arrived, not from what the collector says of itself.
    wide = [e for e in entries.values() if e.kind == "file" and e.mode & 0o7000]
    modes = {path.stat().st_mode & 0o7111 for path in stored}
    yield attempt(
        "A1", "link to a host file", not leaked and entries[b"link"].kind == "symlink", leaked or "a link"
    )
    yield attempt(
        "A2", "link to a folder", not any(p.startswith((b"root/", b"fds/")) for p in entries), "not entered"
    )
    yield attempt("A5", "pipe and socket", {"pipe.csv", "socket"} <= skipped.keys(), skipped.get("pipe.csv"))
    yield attempt("A6", "set-user-id file", not wide and modes <= {0}, f"modes {sorted(map(oct, modes))}")
    yield attempt(
        "A8", "odd names", names == set(ODD_NAMES), f"{len(names & set(ODD_NAMES))} of {len(ODD_NAMES)}"
    )
    yield attempt("A9", "sparse file", took < deadline_s, f"{took:.1f} s of {deadline_s:.0f}")
    yield attempt("A10", "many files", files == FILES, f"{files} of {FILES}")
    deep = any("deeper" in reason for reason in skipped.values())
    yield attempt("A11", "deep folders", deep and took < deadline_s, "left out, said so" if deep else skipped)
    yield attempt("A12", "unreadable files", entries.get(b"closed/inner") is not None, "collected")
    yield attempt("A21", "a repository among the files", not any(b".git/" in p for p in entries), "left out")


_DEADLINE_S = 20.0
"""Of a collection on a machine that does nothing else."""
_MOST_SLOW = CollectLimits.timeout_s / _DEADLINE_S
"""A collection is ended then, whatever the machine does."""
_SPIN = """
import time
begun, until = time.monotonic(), time.process_time() + 0.2
while time.process_time() < until:
    pass
print((time.monotonic() - begun) / 0.2)
"""


def slowness(sandbox: Sandbox) -> float:
    """How many times as long as alone a collector's container takes now, since others have the processors: time on the
    clock for each second of a processor. Nothing of an agent is in it."""
    spun = sandbox.run(
        Role.COLLECTOR, ["/usr/bin/python3", "-I", "-S", "-c", _SPIN], image=sandbox.tool_image, mounts=()
    )
    try:
        measured = float(spun.stdout)
    except ValueError:
        return 1.0
    return min(max(measured, 1.0), _MOST_SLOW) if math.isfinite(measured) else 1.0


SWAP = """
import os, time
os.chdir('/workspace')
os.mkdir('real')
open('real/passwd', 'w').write('mine')
os.symlink('/etc', 'evil')
end = time.monotonic() + 4
print('ready', flush=True)
while time.monotonic() < end:
    for first, second in (('real', 'x'), ('evil', 'real'), ('real', 'evil'), ('x', 'real')):
        os.rename(first, second)
"""


def live_swap(sandbox: Sandbox, image: str) -> Iterator[Attack]:
    """A folder that turns into a link while it is collected. In a run the agent is gone by then; the walk holds
    without that."""
    spec = VolumeSpec(size_bytes=8 * MB, uid=sandbox.specs.new_uid())
    with tempfile.TemporaryDirectory() as name, sandbox.volumes(workspace=spec) as volumes:
        ready = threading.Event()
        swapper = threading.Thread(
            target=sandbox.run,
            args=(Role.AGENT, ["python3", "-I", "-c", SWAP]),
            kwargs={
                "image": image,
                "uid": spec.uid,
                "on_output": lambda _: ready.set(),
                "mounts": [volumes.mount("workspace", WORKSPACE, read_only=False)],
            },
        )
        swapper.start()
        ready.wait(20)
        store = BlobStore(Path(name))
        looks = 0
        leaked: list[bytes] = []
        while swapper.is_alive():
            collected = gather(sandbox, mounts=[volumes.mount("workspace", WORKSPACE)], known={}, store=store)
            leaked += [path for path in collected.roots[WORKSPACE] if path not in _OWN_PATHS]
            looks += 1
        swapper.join()
        contents = {path.read_bytes() for path in Path(name).rglob("*") if path.is_file()}
    clean = not leaked and contents <= {b"mine"} and looks > 0
    yield attempt("A3", "a folder swapped for a link meanwhile", clean, leaked or f"{looks} looks")


_OWN_PATHS = {b"real", b"evil", b"x", b"real/passwd", b"x/passwd", b"evil/passwd"}


def git_traps(sandbox: Sandbox, image: str, figures: dict[str, str]) -> Iterator[Attack]:
    """All traps in one workspace; none may run, leak, hide the edit or hang the comparison."""
    with tempfile.TemporaryDirectory() as name:
        host = Path(name, "host")
        host.mkdir()
        bait = Bait(str(Path(name, "marker")), str(host), os.urandom(8).hex().encode() + b"\n")
        (host / "secret").write_bytes(bait.secret)
        folders = {f"trap{number:02}": make(bait) for number, make in enumerate(TRAPS.values())}
        baseline = Baseline.staged([StagedFile(path=f"{folder}/{FILE}", data=BASE) for folder in folders])
        started = time.monotonic()
        output = _comparison_verdicts(sandbox, image, Path(name, "store"), folders, baseline)
        took = time.monotonic() - started
        ran = Path(bait.marker).exists()
        diff = output.changes.diff if output.changes else ""
        figures["git traps"] = f"{len(TRAPS)} planted, host code executions {int(ran)}, {took:.1f} s"
        for folder, trap in zip(folders, TRAPS, strict=True):
            body = diff.partition(f"b/{folder}/{FILE}")[2].partition("diff --git")[0]
            clean = not ran and "+AGENT-EDIT" in body and bait.secret.decode().strip() not in diff
            yield attempt(
                "G1-G16", trap, clean, "edit seen, nothing ran" if clean else f"ran: {ran}, {body[:100]!r}"
            )


def _comparison_verdicts(
    sandbox: Sandbox, image: str, store: Path, folders: Mapping[str, Mapping[str, Node]], baseline: Baseline
) -> CaseOutput:
    document = {
        folder: {path: _portable(node) for path, node in tree.items()} for folder, tree in folders.items()
    }
    spec = VolumeSpec(size_bytes=32 * MB, uid=sandbox.specs.new_uid())
    blobs = BlobStore(store)
    with sandbox.volumes(workspace=spec) as volumes:
        planted = sandbox.run(
            Role.AGENT,
            ["python3", "-I", "-c", PLANT_TREES],
            image=image,
            uid=spec.uid,
            mounts=[volumes.mount("workspace", WORKSPACE, read_only=False)],
            stdin=json.dumps(document).encode(),
            limits=Limits(timeout_s=30),
        )
        assert planted.ok, planted.stderr
        mounts: list[Mount] = [volumes.mount("workspace", WORKSPACE)]
        collected = gather(sandbox, mounts=mounts, known=baseline.entries, store=blobs)
    return assemble(collected, baseline=baseline, store=blobs, response=AgentResponse())


def _portable(node: Node) -> dict[str, str]:
    if isinstance(node, bytes):
        return {"file": base64.b64encode(node).decode()}
    return {"link": node.target} if isinstance(node, LinkTrap) else {}
