"""Connections to an engine: where one may listen, and how the client library is made to talk to it."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import docker
from docker.utils import kwargs_from_env

API_TIMEOUT_S = 120


def candidate_addresses(environ: Mapping[str, str]) -> list[str]:
    """Where an engine may listen, in the order in which they are tried."""
    if host := environ.get("DOCKER_HOST"):
        return [host]
    runtime_dir = environ.get("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")
    home = environ.get("HOME", "/root")
    sockets = [
        "/var/run/docker.sock",
        f"{runtime_dir}/docker.sock",
        f"{home}/.docker/run/docker.sock",
        "/run/podman/podman.sock",
        f"{runtime_dir}/podman/podman.sock",
    ]
    return [f"unix://{path}" for path in sockets if Path(path).is_socket()]


def connected(kind: Any, address: str, timeout_s: float | None) -> Any:
    """A client of ``kind``; ``timeout_s`` bounds how long an answer may let itself be waited for."""
    options: dict[str, Any] = {"base_url": address}
    if os.environ.get("DOCKER_HOST"):
        options = {**kwargs_from_env(), **options}  # TLS settings
    return kind(version="auto", timeout=timeout_s, **options)


class Answer(docker.APIClient):
    """A client for one long answer: it waits as long as it was told to, and another thread may give it up."""

    _response: Any = None
    _given_up = False

    def _set_request_timeout(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        return {**kwargs, "timeout": self.timeout}  # the library's pulls wait for ever

    def _stream_helper(self, response: Any, decode: bool = False) -> Any:
        self._response = response
        if self._given_up:
            self.abort()
        return super()._stream_helper(response, decode)  # type: ignore[misc]

    def abort(self) -> None:
        """Drop the connection: closing it would not wake a thread that reads."""
        self._given_up = True
        if self._response is not None:
            with suppress(Exception):
                raw = self._get_raw_response_socket(self._response)  # type: ignore[attr-defined]
                getattr(raw, "_sock", raw).shutdown(socket.SHUT_RDWR)
