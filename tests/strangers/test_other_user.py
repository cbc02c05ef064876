"""Attacks of another user with a shell on the same machine: names that they made first, settings that they left in
folders above, and what they see, reach and stop of a run. Each is done by a process with their user id."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agentv_sandbox.base import hostprograms
from agentv_sandbox.base.errors import EngineError, SandboxError
from agentv_sandbox.base.ownership import private_folder, temporary_folder
from agentv_sandbox.base.scratch import scratch_folder, sweep_scratch
from agentv_sandbox.building.packages import npm
from agentv_sandbox.building.packages.wheels import Platform, resolve_wheels
from agentv_sandbox.egress.proxy import EgressProxy, sweep
from agentv_sandbox.engines.docker.buildkit import find_buildkit
from agentv_sandbox.engines.runtimenames import find_program
from agentv_sandbox.engines.watchdog import Watchdog
from agentv_sandbox.fetching.pipconf import PipSettings, read_pip_settings
from agentv_sandbox.kernel import layout as native_places
from agentv_sandbox.models.image import ImageConfig
from agentv_sandbox.models.suite import NetworkPolicy
from agentv_sandbox.report.live import LivePage
from agentv_sandbox.rows.redact import Redactor
from agentv_sandbox.workspace.git import Git, RepositoryLogin
from tests.building.mirrors import serving
from tests.strangers import stranger
from tests.strangers.stranger import as_stranger
from tests.unix import bind_to

KEYS = {
    "OPENAI_API_KEY": "sk-of-the-operator",
    "ANTHROPIC_API_KEY": "sk-ant",
    "AZURE_OPENAI_API_KEY": "azure",
    "GEMINI_API_KEY": "gemini",
    "AWS_SECRET_ACCESS_KEY": "aws",
    "GOOGLE_APPLICATION_CREDENTIALS": "/google.json",
    "GITHUB_TOKEN": "ghp_x",
    "ACTIONS_RUNTIME_TOKEN": "actions",
    "SOME_SUITES_SECRET": "s",
}
DENIED = {"PermissionError", "Operation not permitted", "Permission denied"}


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary folder for everybody, as /tmp is, and that of this process."""
    folder = Path(tempfile.mkdtemp(prefix="agentv-shared-", dir="/tmp"))
    folder.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def victim(shared: Path) -> Path:
    """A folder of ours that nobody else may enter, with a file."""
    folder = shared / "victim"
    folder.mkdir(mode=0o700)
    (folder / "precious").write_text("as it was")
    return folder


# -- names that they made first -----------------------------------------------------------------------
def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        bind_to(listener, path)


def _folder(path: Path, mode: int) -> None:
    path.mkdir()
    path.chmod(mode)


PLANTED: dict[str, Callable[[Path, Path], object]] = {
    "a folder open to all": lambda path, _: _folder(path, 0o777),
    "a closed folder": lambda path, _: _folder(path, 0o700),
    "a link to a folder of ours": lambda path, victim: path.symlink_to(victim),
    "a link that leads nowhere": lambda path, _: path.symlink_to(path.parent / "nowhere"),
    "a named pipe": lambda path, _: os.mkfifo(path),
    "a socket": lambda path, _: _socket(path),
}


def _plant(what: str, path: Path, victim: Path) -> None:
    as_stranger(lambda: str(PLANTED[what](path, victim)))
    assert path.lstat().st_uid == stranger.UID


@pytest.mark.parametrize("what", PLANTED)
def test_the_engines_folder_in_memory_is_theirs(
    what: str, shared: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AGENTV_SANDBOX_OWN_NAMESPACE", raising=False)
    monkeypatch.setattr(native_places, "memory_folder", lambda _: shared)
    _plant(what, shared / "agentv-sandbox", victim)
    before = victim.stat()
    with pytest.raises(EngineError, match=r"somebody else made it|cannot be made"):
        native_places.StateFolders(shared / "state", group=0).make()
    assert victim.stat() == before
    assert not (shared / "state").exists()


@pytest.mark.parametrize("what", ["a folder open to all", "a closed folder", "a link to a folder of ours"])
def test_the_folder_of_images_is_theirs(
    what: str, shared: Path, victim: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AGENTV_SANDBOX_OWN_NAMESPACE", raising=False)
    (shared / "memory").mkdir()
    monkeypatch.setattr(native_places, "memory_folder", lambda _: shared / "memory")
    _plant(what, shared / "state", victim)
    with pytest.raises(EngineError, match="somebody else made it"):
        native_places.StateFolders(shared / "state", group=0).make()
    assert stat.S_IMODE(victim.stat().st_mode) == 0o700


@pytest.mark.parametrize("what", PLANTED)
@pytest.mark.parametrize(
    ("name", "sweeps"),
    [("agentv-repos-x", sweep_scratch), ("agentv-egress-1-x", sweep)],
    ids=["repos", "egress"],
)
def test_what_looks_like_a_left_over_is_neither_followed_nor_removed(
    what: str, name: str, sweeps: Callable[[], int], shared: Path, victim: Path
) -> None:
    _plant(what, shared / name, victim)
    assert sweeps() == 0
    assert os.path.lexists(shared / name)
    assert (victim / "precious").read_text() == "as it was"


@pytest.mark.parametrize("what", PLANTED)
def test_a_private_folder_of_a_known_name_is_theirs(what: str, shared: Path, victim: Path) -> None:
    _plant(what, shared / "private", victim)
    with pytest.raises(SandboxError, match="user 54321"):
        private_folder(shared / "private")


@pytest.mark.parametrize("mode", [0o777, 0o755])
def test_the_temporary_folder_is_one_in_which_they_can_replace_names(
    mode: int, shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    as_stranger(lambda: str(_folder(shared / "theirs", mode)))
    monkeypatch.setattr(tempfile, "tempdir", str(shared / "theirs"))
    with pytest.raises(SandboxError, match="user 54321"), scratch_folder():
        pass
    with pytest.raises(SandboxError, match="replace what is made there"):
        temporary_folder()


# -- settings that they left in folders above, and programs beside -----------------------------------------
@pytest.fixture
def operator(shared: Path, victim: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Whoever runs the command has keys, stands in the shared folder, and has a home of their own."""
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", str(victim))
    monkeypatch.chdir(shared)
    return victim


def _leave(folder: Path, files: dict[str, str]) -> None:
    def leave() -> None:
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
            (folder / name).chmod(0o777)

    as_stranger(leave)


@pytest.mark.slow
@pytest.mark.parametrize("project", ["{}", '{"workspaces": ["*"]}'])
def test_an_npmrc_beside_our_folder_names_their_registry(project: str, shared: Path, operator: Path) -> None:
    with serving() as theirs, serving() as ours:
        host = theirs.url.removeprefix("http:")
        lines = f"registry={theirs.url}/\n{host}/:_authToken=${{OPENAI_API_KEY}}\n"
        _leave(shared, {".npmrc": lines, "package.json": project, "node_modules/x/package.json": "{}"})
        host = ours.url.removeprefix("http:")
        (operator / ".npmrc").write_text(
            f"registry={ours.url}/\n{host}/:_authToken=${{SOME_SUITES_SECRET}}\n"
        )
        ours.files["/left-pad"] = b'{"name": "left-pad", "dist-tags": {"latest": "1.3.0"}, "versions": {}}'
        with pytest.raises(SandboxError):
            npm.resolve_npm(["left-pad"], architecture="amd64", cache=None, settings=PipSettings())  # type: ignore[arg-type]
    assert theirs.asked == []
    assert {sent for _, sent in ours.asked} == {"Bearer s"}, (
        "the operator's own npmrc counts, with its variables"
    )


@pytest.mark.parametrize("name", ["uv.toml", "pyproject.toml", ".python-version", "pip.conf"])
def test_settings_of_uv_and_pip_beside_our_folder_name_their_index(
    name: str, shared: Path, operator: Path
) -> None:
    with serving() as theirs, serving() as ours:
        texts = {
            "uv.toml": f'index-url = "{theirs.url}/simple"\n',
            "pyproject.toml": f'[tool.uv]\nindex-url = "{theirs.url}/simple"\n',
            ".python-version": "2.7\n",
            "pip.conf": f"[global]\nindex-url = {theirs.url}/simple\n",
        }
        _leave(shared, {name: texts[name], f".config/pip/{name}": texts[name], f".pip/{name}": texts[name]})
        settings = read_pip_settings({"HOME": str(operator), "PIP_INDEX_URL": f"{ours.url}/simple"})
        platform = Platform(architecture="amd64", python=(3, 13), glibc=(2, 36))
        with pytest.raises(SandboxError):
            resolve_wheels(["nothing-of-that-name"], platform, ImageConfig(), settings)
    assert theirs.asked == []
    assert ours.asked


@pytest.mark.parametrize("where", ["config", "HEAD of a repository above", "attributes"])
def test_a_repository_of_theirs_above_ours_runs_their_program(
    where: str, shared: Path, operator: Path
) -> None:
    run = f"sh -c 'touch {shared}/executed'"
    config = f"[core]\nfsmonitor = {run}\nsshCommand = {run}\n[alias]\ninit = !{run}\n[init]\ntemplateDir = {shared}\n"
    files = {
        "config": {".gitconfig": config, "git/config": config},
        "HEAD of a repository above": {
            ".git/HEAD": "ref: refs/heads/main\n",
            ".git/config": f"[core]\nrepositoryformatversion = 0\n{config[7:]}",
            ".git/objects/x": "",
            ".git/refs/x": "",
        },
        "attributes": {".gitattributes": "* filter=x\n", "hooks/post-checkout": f"#!/bin/sh\n{run}\n"},
    }[where]
    _leave(shared, files)
    with scratch_folder() as scratch:
        git = Git(folder=scratch / "mirror.git", home=scratch)
        git.text("init", "--quiet", "--bare", "--template=", str(scratch / "mirror.git"))
        assert git.knows("for-each-ref")
    assert not (shared / "executed").exists()


PROGRAMS: dict[str, Callable[[], object]] = {
    "npm": npm._npm,
    "runc": lambda: find_program("runc"),
    "crun": lambda: find_program("crun"),
    "docker": lambda: find_buildkit("unix:///nowhere.sock", os.environ),
    "systemd-run": lambda: hostprograms.find_program("systemd-run"),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("path", [".", "", "bin/../."])
def test_a_program_in_the_folder_where_the_operator_stands_is_started(
    name: str, path: str, shared: Path, operator: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _leave(shared, {name: f"#!/bin/sh\ntouch {shared}/executed\n", "bin/x": ""})
    monkeypatch.setenv("PATH", f"{path}:{os.environ['PATH']}")
    found = PROGRAMS[name]()
    assert str(shared) not in str(found)
    assert not str(found).startswith((".", name))
    assert not (shared / "executed").exists()


MODULES = ("json", "socket", "structlog", "sitecustomize", "usercustomize", "agentv_sandbox", "encodings")


@pytest.mark.slow
def test_modules_in_the_folder_where_the_operator_stands_are_imported(shared: Path, operator: Path) -> None:
    _leave(shared, {f"{name}.py": f"open('{shared}/executed', 'w')" for name in MODULES})
    for argv in (
        [*hostprograms.PYTHON, "-c", "import json, socket"],
        [*hostprograms.PYTHON_WITH_PACKAGES, "-c", "import json, structlog, agentv_sandbox.runs.sweeper"],
    ):
        done = hostprograms.run(hostprograms.WATCHDOG, argv)
        assert done.returncode == 0, done.stderr
        done = subprocess.run(
            argv, check=True, cwd=shared, env=hostprograms.environment(hostprograms.WATCHDOG)
        )
    with Watchdog("unix:///nowhere.sock", "run"):
        pass
    assert not (shared / "executed").exists()


DASK = """
import asyncio, sys, threading
from agentv_sandbox.cluster import hosting, local
from agentv_sandbox.request.clusteraddress import ClusterAddress
from agentv_sandbox.cluster.session import WorkerSettings
from types import SimpleNamespace

async def main():
    stop = threading.Event()
    async with local.local_cluster(0, SimpleNamespace(engine=None, runtime=None)) as (address, security):
        ClusterAddress.security = lambda self, role: security
        said = lambda line: stop.set()
        where = ClusterAddress(scheduler=address)
        await hosting.serve(where, WorkerSettings(name="w", slots=1), {}, stop, said)

asyncio.run(main())
print([entry for entry in sys.path if "scratch" in entry or "repos" in entry])
import structlog
print(structlog.__file__)
"""


@pytest.mark.slow
def test_dasks_folder_is_theirs(shared: Path, victim: Path) -> None:
    """It was first on the path of modules, and what is named as a lock there was opened for writing."""

    def plant() -> None:
        folder = shared / "dask-scratch-space"
        _folder(folder, 0o777)
        for name in ("global.lock", "purge.lock"):
            (folder / name).symlink_to(victim / "precious")
        (folder / "structlog.py").write_text(f"open('{shared}/executed', 'w')")

    as_stranger(plant)
    listed = set((shared / "dask-scratch-space").iterdir())
    done = subprocess.run([sys.executable, "-P", "-c", DASK], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "[]"
    assert "site-packages" in lines[1]
    assert (victim / "precious").read_text() == "as it was"
    assert not (shared / "executed").exists()
    assert set((shared / "dask-scratch-space").iterdir()) == listed, "nothing of ours is there"
    assert {path.name for path in shared.iterdir()} == {"dask-scratch-space", "victim"}, "ours is gone"


# -- what they see, reach and stop ------------------------------------------------------------------------
GIVEN_LITTLE = [
    each
    for each in vars(hostprograms).values()
    if isinstance(each, hostprograms.HostProgram) and not each.whole_environment
]
"""All but our own command."""


@pytest.mark.parametrize("program", GIVEN_LITTLE, ids=lambda each: each.purpose[:25])
def test_a_program_that_they_see_through_holds_keys(program: hostprograms.HostProgram) -> None:
    """Whatever they can make a program of the host send, no key of a model or cloud is among it."""
    given = hostprograms.environment(program, {**KEYS, "PATH": "/bin", "HOME": "/root"})
    assert given.keys().isdisjoint(KEYS)
    assert given["PATH"] == "/bin"


PROBES: dict[str, Callable[[int], Any]] = {
    "environ": lambda pid: str(stranger.read_file(f"/proc/{pid}/environ")),
    "memory": lambda pid: str(stranger.read_file(f"/proc/{pid}/mem")),
    "maps": lambda pid: str(stranger.read_file(f"/proc/{pid}/maps")),
    "open files": lambda pid: os.listdir(f"/proc/{pid}/fd"),
    "folder": lambda pid: os.readlink(f"/proc/{pid}/cwd"),
    "root": lambda pid: os.listdir(f"/proc/{pid}/root/"),
    "trace": stranger.trace,
    "descriptors": stranger.take_descriptor,
    "end": stranger.end,
}


@pytest.mark.parametrize("probe", PROBES)
def test_a_program_of_the_host_is_looked_into_or_ended(probe: str) -> None:
    login = RepositoryLogin(origin="https://example.org", name="x", password="t0ken")
    git = Git(folder=Path("/nowhere"), home=Path("/"), login=login)
    environ = git._environment()
    assert environ["LOGIN_PASSWORD"] == "t0ken"
    process = hostprograms.start(hostprograms.GIT, ["sleep", "60"], env=environ)
    try:
        assert as_stranger(lambda: PROBES[probe](process.pid)) in DENIED
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


FOLDER_PROBES: dict[str, Callable[[str], Any]] = {
    "list it": os.listdir,
    "read a file": lambda folder: Path(folder, "secret").read_text(),
    "make a file": lambda folder: Path(folder, "new").write_text("x"),
    "lock it": lambda folder: os.open(folder, os.O_RDONLY),
    "watch it": stranger.watch,
    "rename it": lambda folder: os.rename(folder, f"{folder}-theirs"),
    "put a link in its place": os.rmdir,
    "make it ours to all": lambda folder: os.chmod(folder, 0o777),
}


@pytest.mark.parametrize("probe", FOLDER_PROBES)
def test_a_folder_of_ours_in_the_temporary_folder_is_used(probe: str, shared: Path) -> None:
    with scratch_folder() as folder:
        (folder / "secret").write_text("x")
        assert as_stranger(lambda: FOLDER_PROBES[probe](str(folder))) in DENIED
        assert (folder / "secret").read_text() == "x"


@pytest.mark.parametrize("name", ["shared/egress.sock", "shared/forwarder.py", "shared"])
def test_the_socket_of_an_agents_way_out_is_used(name: str, shared: Path) -> None:
    def connect(path: str) -> str:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
        return "connected"

    with EgressProxy({}).grant(NetworkPolicy(allow=("example.org:443",)), {}) as grant:
        folder = Path(grant.mounts[0].source)
        assert folder.is_relative_to(shared)
        [path] = [each for each in folder.iterdir() if stat.S_ISSOCK(each.stat().st_mode)]
        tried = path if name.endswith(".sock") else folder.parent / name
        assert as_stranger(lambda: connect(str(tried))) in DENIED
        assert as_stranger(lambda: os.listdir(folder)) in DENIED


REQUESTS = {
    "no secret": "GET / HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n",
    "a guess": "GET /AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA/ HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n",
    "the name of another page": "GET {path} HTTP/1.0\r\nHost: evil.example\r\n\r\n",
    "a path upwards": "GET /../../etc/passwd HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n",
}


@pytest.mark.parametrize("request_", REQUESTS)
def test_the_page_of_a_run_is_read(request_: str) -> None:
    with suppress(InterruptedError), LivePage(Redactor()) as live:
        port, path = int(live.url.split(":")[2].split("/")[0]), f"/{live.url.split('/', 3)[3]}"

        def ask() -> str:
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.sendall(REQUESTS[request_].format(port=port, path=path).encode())
                return client.recv(4096).decode("latin-1")

        assert as_stranger(ask).split()[1] == "404"
        raise InterruptedError


def test_the_page_of_a_run_is_kept_from_its_reader_by_idle_connections() -> None:
    with suppress(InterruptedError), LivePage(Redactor()) as live:
        port = int(live.url.split(":")[2].split("/")[0])
        path = live.url.split("/", 3)[3]

        def hold() -> str:
            held = [socket.create_connection(("127.0.0.1", port)) for _ in range(60)]
            with socket.create_connection(("127.0.0.1", port)) as reader:
                reader.sendall(f"GET /{path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
                answer = reader.recv(100).decode("latin-1")
            return f"{len(held)} {answer.split()[1]}"

        assert as_stranger(hold) == "60 200"
        raise InterruptedError


def test_left_overs_are_gone_however_often_they_are_renamed(shared: Path, victim: Path) -> None:
    """Names are planted and taken away all the time while folders are made and swept."""

    def churn() -> int:
        end, rounds = time.monotonic() + 1, 0
        while time.monotonic() < end:
            rounds += 1
            for number, kind in enumerate(PLANTED.values()):
                path = shared / f"agentv-repos-{number}"
                with suppress(OSError):
                    kind(path, victim)
                with suppress(OSError):
                    path.rename(shared / f"agentv-repos-{number}-x")
                for name in (path, shared / f"agentv-repos-{number}-x"):
                    with suppress(OSError):
                        name.rmdir() if name.is_dir() and not name.is_symlink() else name.unlink()
        return rounds

    child = os.fork()
    if child == 0:
        as_stranger(churn)
        os._exit(0)
    rounds = 0
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        rounds += 1
        sweep_scratch()
        with scratch_folder() as folder:
            assert folder.is_dir()
    assert rounds > 1
    assert (victim / "precious").read_text() == "as it was"
