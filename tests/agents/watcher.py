"""What can be seen from outside of containers while they run, and in their images."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import docker
import docker.errors


@dataclass
class Watcher:
    arguments: set[str] = field(default_factory=set)
    """Of every process of the machine."""
    environments: set[str] = field(default_factory=set)
    """Of every process of a container."""
    inspected: set[str] = field(default_factory=set)
    """What the engine says of every container, in each of its states, and of every volume."""

    @contextmanager
    def watching(self) -> Iterator[None]:
        stop = threading.Event()
        client = docker.APIClient(version="auto")
        thread = threading.Thread(target=self._watch, args=(stop, client))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
            client.close()

    def _watch(self, stop: threading.Event, client: docker.APIClient) -> None:
        known: set[tuple[str, str]] = set()
        while not stop.wait(1.5):
            for line in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    self.arguments.add(line.read_bytes().decode("utf-8", "replace"))
                    if line.stat().st_uid >= 200_000:
                        environ = (line.parent / "environ").read_bytes()
                        self.environments.add(environ.decode("utf-8", "replace"))
                except OSError:
                    continue
            self._inspect(client, known)

    def _inspect(self, client: docker.APIClient, known: set[tuple[str, str]]) -> None:
        for row in client.containers(all=True):
            if (state := (row["Id"], row["State"])) not in known:
                known.add(state)
                with suppress(docker.errors.APIError):  # it may have been removed
                    self.inspected.add(json.dumps(client.inspect_container(row["Id"])))
        for row in client.volumes()["Volumes"] or ():
            self.inspected.add(json.dumps(row))


def stdout_of(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout


@cache
def in_layers(image: str, *texts: str) -> set[str]:
    """Which of ``texts`` are in the layers of ``image``, also in files that a later layer removed."""
    found: set[str] = set()
    with subprocess.Popen(["docker", "save", image], stdout=subprocess.PIPE) as saved:
        rest = b""
        assert saved.stdout is not None
        while chunk := saved.stdout.read(4 << 20):
            window = rest + chunk
            found |= {text for text in texts if text.encode() in window}
            rest = window[-100:]
    assert saved.returncode == 0
    return found
