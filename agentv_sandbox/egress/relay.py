"""The way out over a relay: where the engine does not show containers the host's sockets.

A small container of ours offers the UNIX socket in a volume that it shares with the agent's, and carries what comes
there over its own standard input and output to this process, where the same rules decide as for a shared socket.
"""

from __future__ import annotations

import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import field
from importlib.resources import files
from pathlib import Path

from agentv_sandbox.base.dataclass import dataclass
from agentv_sandbox.base.errors import EngineError, SandboxError
from agentv_sandbox.base.logs import get_logger
from agentv_sandbox.base.ownership import temporary_folder
from agentv_sandbox.containers.policy import Role
from agentv_sandbox.containers.sandbox import Sandbox
from agentv_sandbox.containers.volumes import StagedFile
from agentv_sandbox.egress.endpoint import Way
from agentv_sandbox.egress.mux import Broken, Mux
from agentv_sandbox.engines.bindcheck import SHARED, SHARED_PREFIX, short_name
from agentv_sandbox.engines.stream import StdioConversation
from agentv_sandbox.models.container import MB, Mount, VolumeSpec

log = get_logger()
MOUNT = "/run/agentv-egress"
SOCKET = "proxy.sock"
_RELAY = "/relay"
_STEP_S = 0.2
_READY_S = 60.0
_ASK = f"""
import socket
with socket.socket(socket.AF_UNIX) as sock:
    sock.settimeout(5)
    sock.connect("{MOUNT}/{SOCKET}")
    print(sock.recv(5).decode())
"""


class WayOut:
    """How containers of one run reach this process; found out once. Thread-safe."""

    def __init__(self, sandbox: Sandbox, way: Way = "auto") -> None:
        self.sandbox = sandbox
        self._way = way
        self._lock = threading.Lock()
        self._shares: bool | None = None

    @property
    def needs_relay(self) -> bool:
        """Whether a socket of this machine is none in a container, or the operator wants it so."""
        if self._way != "auto":
            return self._way == "relay"
        with self._lock:
            if self._shares is None:
                self._shares = self._is_shared()
                if not self._shares:
                    log.info("egress.relay", reason="containers do not see sockets of this machine")
            return not self._shares

    def _is_shared(self) -> bool:
        """Ask a container of ours to connect to a socket in a mount of ours."""
        with (
            tempfile.TemporaryDirectory(prefix=SHARED_PREFIX, dir=temporary_folder()) as private,
            socket.socket(socket.AF_UNIX) as listener,
        ):
            shared = Path(private) / SHARED
            shared.mkdir()
            shared.chmod(0o755)  # whatever the umask is
            with short_name(shared) as folder:
                listener.bind(str(folder / "new"))
            listener.listen(16)
            (shared / "new").chmod(0o666)
            (shared / "new").rename(shared / SOCKET)  # who finds one that does not listen takes us for dead
            answering = threading.Thread(target=_greet, args=(listener,), daemon=True)
            answering.start()
            try:
                result = self.sandbox.run(
                    Role.PROBE,
                    ["python3", "-I", "-S", "-c", _ASK],
                    image=self.sandbox.tool_image,
                    mounts=[Mount(source=str(shared), target=MOUNT, kind="bind")],
                )
            except EngineError:
                return False  # another machine's engine has no such folder
            finally:
                with suppress(OSError):
                    listener.shutdown(socket.SHUT_RDWR)
                answering.join(5)
        return result.ok and result.stdout.strip() == b"hello"


def _greet(listener: socket.socket) -> None:
    """Whoever connects, until it is shut down: another run may look first whether somebody listens here."""
    while True:
        try:
            sock, _ = listener.accept()
        except OSError:
            return
        with sock, suppress(OSError):
            sock.sendall(b"hello")


@dataclass
class Relay:
    """The host's end of one relay container."""

    talk: StdioConversation
    serve: Callable[[socket.socket], bool]
    """Begins to serve a connection in a thread of its own; False where there are too many."""
    fault: str = ""
    """Why it ended before its time."""
    _accepts: bool = True
    _stopped: threading.Event = field(default_factory=threading.Event)
    _ready: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        """Carry until ``stop``."""
        mux = Mux(self.talk.descriptors, self.talk.receive, self.talk.send, on_open=self._open)
        try:
            while not self._stopped.is_set():
                if not mux.step(_STEP_S):
                    self.fault = "the relay container of the way out ended early"
                    return
                if mux.is_ready:
                    self._ready.set()
        except (Broken, OSError, ValueError) as error:
            self.fault = f"the relay container of the way out failed: {error}"
        finally:
            if self._stopped.is_set():
                self.fault = ""
            self._ready.set()
            mux.close()

    def wait_until_ready(self) -> None:
        """Raises SandboxError when it cannot begin."""
        if not self._ready.wait(_READY_S) or self.fault:
            raise SandboxError(
                f"the way out cannot be opened: {self.fault or 'its relay container does not answer'}"
            )

    def refuse_new(self) -> None:
        self._accepts = False

    def stop(self) -> None:
        self._stopped.set()

    def _open(self) -> socket.socket | None:
        if not self._accepts:
            return None
        ours, theirs = socket.socketpair()
        if self.serve(theirs):
            return ours
        ours.close()
        theirs.close()
        return None


@contextmanager
def relayed(
    sandbox: Sandbox, forwarder: StagedFile, serve: Callable[[socket.socket], bool]
) -> Iterator[tuple[Relay, Mount]]:
    """A relay for as long as the block lasts, and the mount in which it offers its socket and ``forwarder``."""
    uid = sandbox.specs.new_uid()
    with sandbox.volumes(egress=VolumeSpec(size_bytes=MB, inodes=64, uid=uid)) as volumes:
        volumes.put("egress", [forwarder], uid=uid)
        script = (files("agentv_sandbox.egress") / "mux.py").read_text("utf-8")
        argv = ["python3", "-I", "-S", "-c", script, f"{_RELAY}/{SOCKET}"]
        mounts = [volumes.mount("egress", _RELAY, read_only=False)]
        with sandbox.conversation(Role.RELAY, argv, image=sandbox.tool_image, mounts=mounts, uid=uid) as talk:
            relay = Relay(talk, serve)
            carrying = threading.Thread(target=relay.run, name="relay", daemon=True)
            carrying.start()
            try:
                relay.wait_until_ready()
                yield relay, volumes.mount("egress", MOUNT)
            finally:
                relay.stop()
                carrying.join(5)


def wait_for(condition: Callable[[], bool], seconds: float) -> None:
    """Until ``condition`` or the time is over."""
    patience = time.monotonic() + seconds
    while not condition() and time.monotonic() < patience:
        time.sleep(0.02)
