"""Docker Engine, and Podman through the same API. The one module that imports the client library."""

from __future__ import annotations

import io
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import docker
import requests
from docker.utils import kwargs_from_env

from agentv_sandbox.engines import LABEL_OWNER, LABEL_ROLE, LABEL_RUN, OnOutput
from agentv_sandbox.engines.config import container_config, differences
from agentv_sandbox.engines.failure import HINT, NotFound, classify, mapped
from agentv_sandbox.engines.stream import BoundedCapture, Ended, drain, pump
from agentv_sandbox.errors import BuildError, EngineError, EngineUnavailable, SandboxError
from agentv_sandbox.models.container import (
    ContainerSpec,
    EngineInfo,
    ExecResult,
    ImageInfo,
    Outcome,
    OwnedObject,
)

_API_TIMEOUT_S = 120
_REMOVE_GRACE_S = 10.0
_CANCEL_POLL_S = 2.0
_IMAGE_CHUNK = 1 << 20


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


def find_engine(environ: Mapping[str, str]) -> DockerEngine:
    """The first engine that answers. Raises EngineUnavailable with what was tried."""
    failures = []
    for address in candidate_addresses(environ):
        try:
            engine = DockerEngine(address)
            engine.ping()
        except SandboxError as error:
            failures.append(f"  {address}: {error.message}")
        else:
            return engine
    tried = "\n".join(failures) or "  no socket of Docker or Podman exists and DOCKER_HOST is not set"
    raise EngineUnavailable(f"no container engine answers; tried:\n{tried}", hint=HINT)


class DockerEngine:
    """Implements ``ContainerEngine``. Safe to share between threads: one client a thread."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._local = threading.local()

    @property
    def _api(self) -> Any:
        client = getattr(self._local, "client", None)
        if client is None:
            with mapped("connecting"):
                options: dict[str, Any] = {"base_url": self.address}
                if os.environ.get("DOCKER_HOST"):
                    options = {**kwargs_from_env(), **options}  # TLS settings
                client = docker.APIClient(version="auto", timeout=_API_TIMEOUT_S, **options)
            self._local.client = client
        return client

    def ping(self) -> None:
        with mapped("asking whether it is there"):
            self._api.ping()

    def info(self) -> EngineInfo:
        with mapped("asking for its version"):
            info, version = self._api.info(), self._api.version()
        components = {c.get("Name", ""): c.get("Version", "") for c in version.get("Components") or ()}
        security = info.get("SecurityOptions") or []
        podman = any("podman" in name.lower() for name in components)
        return EngineInfo(
            kind="podman" if podman else "docker",
            version=version.get("Version", ""),
            api_version=self._api._version,
            os=info.get("OSType", "linux"),
            architecture=version.get("Arch", "amd64"),
            kernel=info.get("KernelVersion", ""),
            runc=components.get("runc", ""),
            containerd=components.get("containerd", ""),
            runtimes=tuple(sorted(info.get("Runtimes") or {})),
            default_runtime=info.get("DefaultRuntime", ""),
            storage_driver=info.get("Driver", ""),
            cgroup_version=int(info.get("CgroupVersion") or 1),
            seccomp=any("seccomp" in option for option in security),
            userns=any("userns" in option for option in security),
            rootless=any("rootless" in option for option in security),
            cpus=info.get("NCPU", 1),
            memory_bytes=info.get("MemTotal", 0),
            warnings=tuple(info.get("Warnings") or ()),
            address=self.address,
        )

    # -- containers -----------------------------------------------------------------------------------
    def create(self, spec: ContainerSpec) -> str:
        return self._create(spec, stdin=False)

    def _create(self, spec: ContainerSpec, *, stdin: bool) -> str:
        config = container_config(spec, stdin=stdin)
        name = f"agentv-{spec.role}-{secrets.token_hex(6)}"
        with mapped(f"creating the {spec.role} container"):
            container: str = self._api.create_container_from_config(config, name)["Id"]
        try:
            with mapped(f"reading back the {spec.role} container"):
                actual = self._api.inspect_container(container)
            if wrong := differences(config, actual):
                raise EngineError(
                    f"the engine did not accept the {spec.role} container as asked: " + "; ".join(wrong),
                    hint="A limit that the engine ignores is no limit, so nothing is run. "
                    "`agentv-sandbox doctor` shows what this engine can enforce.",
                )
        except BaseException:
            self.remove(container)
            raise
        return container

    def start(self, spec: ContainerSpec) -> str:
        container = self._create(spec, stdin=False)
        try:
            with mapped(f"starting the {spec.role} container"):
                self._api.start(container)
        except BaseException:
            self.remove(container)
            raise
        return container

    def running(self, container: str) -> bool:
        """Whether a container that was started is still up."""
        try:
            with mapped("looking at a container"):
                return bool(self._api.inspect_container(container)["State"]["Running"])
        except EngineError:
            return False

    def run(
        self,
        spec: ContainerSpec,
        *,
        stdin: bytes = b"",
        on_output: OnOutput | None = None,
        cancelled: Callable[[], bool] = lambda: False,
        keep: bool = False,
    ) -> ExecResult:
        container = self._create(spec, stdin=bool(stdin))
        sock: socket.socket | None = None
        done = False
        try:
            out, err = BoundedCapture(spec.limits.stdout_bytes), BoundedCapture(spec.limits.stdout_bytes)

            def sink(stream: int, data: bytes) -> None:
                (err if stream == 2 else out).write(data)
                if on_output is not None and stream != 2:
                    on_output(data)

            with mapped(f"running the {spec.role} container"):
                holder = self._attach(container, stdin=bool(stdin))
                sock = holder._sock
                self._api.start(container)
                started = time.monotonic()
                deadline = started + spec.limits.timeout_s
                ended = pump(
                    sock, stdin=stdin, deadline=deadline, flood_bytes=spec.limits.flood_bytes,
                    sink=sink, cancelled=cancelled,
                )  # fmt: skip
                outcome, exit_code = self._settle(container, sock, ended, deadline, cancelled)
            done = keep
            return ExecResult(
                outcome=outcome, exit_code=exit_code, stdout=out.value(), stderr=err.value(),
                stdout_total=out.total, stderr_total=err.total,
                duration_s=time.monotonic() - started, container=container,
            )  # fmt: skip
        finally:
            if sock is not None:
                with suppress(OSError):
                    sock.shutdown(socket.SHUT_RDWR)  # close() alone leaves the engine's writer blocked
                sock.close()
            if not done:
                self.remove(container)

    def _attach(self, container: str, *, stdin: bool) -> Any:
        # Attached before the start, so that no output can be lost; nothing can be buffered below us yet.
        streams = {"stdin": int(stdin), "stdout": 1, "stderr": 1, "stream": 1}
        return self._api.attach_socket(container, params=streams)

    def _settle(
        self,
        container: str,
        sock: socket.socket,
        ended: Ended,
        deadline: float,
        cancelled: Callable[[], bool],
    ) -> tuple[Outcome, int]:
        """Wait for the end, or bring it about; read why from the engine's own state."""
        while ended in ("eof", "lost"):  # a program may close its output and go on
            if cancelled():
                ended = "cancelled"
            elif (left := deadline - time.monotonic()) <= 0:
                ended = "timeout"
            elif self._has_ended(container, within_s=min(left, _CANCEL_POLL_S)):
                break
        if ended not in ("eof", "lost"):
            # A writer that is blocked on a full stream makes the engine's kill hang, so somebody must read.
            reader = threading.Thread(target=drain, args=(sock,), kwargs={"seconds": _REMOVE_GRACE_S})
            reader.start()
            with suppress(docker.errors.APIError):
                self._api.kill(container)
            reader.join()
            self._api.wait(container, timeout=_API_TIMEOUT_S)
        state = self._api.inspect_container(container)["State"]
        code = int(state.get("ExitCode", -1))
        if ended == "eof" or ended == "lost":  # noqa: PLR1714 - this form narrows the type
            return ("oom" if state.get("OOMKilled") else "exited"), code
        return ended, code

    def _has_ended(self, container: str, *, within_s: float) -> bool:
        try:
            self._api.wait(container, timeout=within_s)
        except (requests.exceptions.ReadTimeout, requests.exceptions.ConnectionError) as error:
            # urllib3 reports a read timeout inside ConnectionError on some transports.
            if "timed out" not in str(error).lower():
                raise
            return False
        return True

    def put(self, container: str, path: str, tar: Iterable[bytes]) -> None:
        with mapped(f"putting files into {path}"):
            # An iterator in any case: requests takes a list for form fields.
            self._api.put_archive(container, path, iter(tar))

    def remove(self, container: str) -> None:
        try:
            with mapped("removing a container"):
                self._api.remove_container(container, v=True, force=True)
        except EngineError as error:
            if not isinstance(error.__cause__, NotFound) and "already in progress" not in error.message:
                raise

    def commit(self, container: str, *, tag: str, labels: Mapping[str, str]) -> str:
        repository, _, version = tag.partition(":")
        changes = ["ENTRYPOINT []", 'CMD ["/bin/sh"]', "WORKDIR /", "USER 0:0"]
        with mapped(f"committing {tag}"):
            answer = self._api.commit(
                container, repository=repository, tag=version or "latest", changes=changes,
                # Emptied, because containers that people start from the image would inherit whose they are.
                conf={"Labels": {**dict.fromkeys((LABEL_RUN, LABEL_ROLE, LABEL_OWNER), ""), **labels}},
            )  # fmt: skip
        return str(answer["Id"])

    # -- volumes --------------------------------------------------------------------------------------
    def create_volume(self, name: str, *, options: Mapping[str, str], labels: Mapping[str, str]) -> None:
        with mapped(f"creating the volume {name}"):
            self._api.create_volume(name, driver="local", driver_opts=dict(options), labels=dict(labels))

    def remove_volume(self, name: str) -> None:
        try:
            with mapped(f"removing the volume {name}"):
                self._api.remove_volume(name, force=True)
        except EngineError as error:
            if not isinstance(error.__cause__, NotFound):
                raise

    # -- images ---------------------------------------------------------------------------------------
    def image(self, ref: str) -> ImageInfo | None:
        try:
            with mapped(f"looking for the image {ref}"):
                return _image_info(self._api.inspect_image(ref))
        except EngineError as error:
            if isinstance(error.__cause__, NotFound):
                return None
            raise

    def images(self, label: str) -> list[ImageInfo]:
        with mapped("listing images"):
            ids = [row["Id"] for row in self._api.images(filters={"label": label})]
        return [info for info in map(self.image, ids) if info is not None]

    def pull(self, ref: str, *, timeout_s: float) -> ImageInfo:
        deadline = time.monotonic() + timeout_s
        with mapped(f"pulling {ref}"):
            client = docker.APIClient(base_url=self.address, version="auto", timeout=int(timeout_s) + 1)
            try:
                for step in client.pull(ref, stream=True, decode=True):
                    if "error" in step:
                        raise EngineError(f"cannot pull {ref}: {step['error']}")
                    if time.monotonic() > deadline:
                        raise EngineError(f"cannot pull {ref}: not done after {timeout_s:.0f} s")
            finally:
                client.close()
        info = self.image(ref)
        if info is None:
            raise EngineError(f"the engine pulled {ref} and does not have it")
        return info

    def load_image(self, archive: IO[bytes]) -> None:
        with mapped("loading an image"):
            for step in self._api.load_image(archive):
                if "error" in step:
                    raise EngineError(f"cannot load an image: {step['error']}")

    def save_image(self, ref: str) -> Iterator[bytes]:
        with mapped(f"saving {ref}"):
            yield from self._api.get_image(ref, chunk_size=_IMAGE_CHUNK)

    def tag(self, image: str, tag: str) -> None:
        repository, _, version = tag.partition(":")
        with mapped(f"tagging {tag}"):
            self._api.tag(image, repository, version or "latest")

    def build(self, context: bytes, *, tag: str, labels: Mapping[str, str], on_output: OnOutput) -> str:
        log = []
        with mapped(f"building {tag}"):
            steps = self._api.build(
                fileobj=io.BytesIO(context), custom_context=True, tag=tag, labels=dict(labels),
                rm=True, forcerm=True, decode=True, use_config_proxy=False,
            )  # fmt: skip
            for step in steps:
                text = step.get("stream") or step.get("status") or ""
                log.append(text)
                on_output(text.encode())
                if "error" in step:
                    raise BuildError(
                        f"the Dockerfile does not build: {step['error']}", log="".join(log)[-4000:]
                    )
        info = self.image(tag)
        if info is None:
            raise BuildError(f"the engine built {tag} and does not have it", log="".join(log)[-4000:])
        return info.id

    def remove_image(self, ref: str) -> None:
        try:
            with mapped(f"removing the image {ref}"):
                self._api.remove_image(ref)
        except EngineError as error:
            if not isinstance(error.__cause__, NotFound):
                raise

    # -- upkeep ---------------------------------------------------------------------------------------
    def owned(self, labels: Mapping[str, str | None]) -> list[OwnedObject]:
        wanted = [key if value is None else f"{key}={value}" for key, value in labels.items()]
        found: list[OwnedObject] = []
        with mapped("listing what runs left"):
            for row in self._api.containers(all=True, filters={"label": wanted}):
                name = (row.get("Names") or [row["Id"]])[0].lstrip("/")
                if not name.startswith(f"agentv-{(row.get('Labels') or {}).get(LABEL_ROLE)}-"):
                    continue  # somebody else's, with labels that its image has
                found.append(
                    OwnedObject(kind="container", id=row["Id"], name=name, labels=row.get("Labels") or {})
                )
            for row in self._api.volumes(filters={"label": wanted})["Volumes"] or ():
                name = row["Name"]
                found.append(OwnedObject(kind="volume", id=name, name=name, labels=row.get("Labels") or {}))
            for row in self._api.networks(filters={"label": wanted}):
                found.append(
                    OwnedObject(
                        kind="network", id=row["Id"], name=row["Name"], labels=row.get("Labels") or {}
                    )
                )
        return found

    def destroy(self, obj: OwnedObject) -> None:
        if obj.kind == "container":
            self.remove(obj.id)
        elif obj.kind == "volume":
            self.remove_volume(obj.id)
        else:
            with mapped(f"removing the network {obj.name}"):
                self._api.remove_network(obj.id)


def _image_info(raw: Mapping[str, Any]) -> ImageInfo:
    config = raw.get("Config") or {}
    return ImageInfo(
        id=raw["Id"],
        tags=tuple(raw.get("RepoTags") or ()),
        digests=tuple(raw.get("RepoDigests") or ()),
        size_bytes=raw.get("Size", 0),
        created=raw.get("Created", ""),
        os=raw.get("Os", "linux"),
        architecture=raw.get("Architecture", "amd64"),
        labels=config.get("Labels") or {},
        env=tuple(config.get("Env") or ()),
        volumes=tuple(config.get("Volumes") or ()),
        entrypoint=tuple(config.get("Entrypoint") or ()),
        healthcheck=(config.get("Healthcheck") or {}).get("Test", ["NONE"]) != ["NONE"],
        onbuild=tuple(config.get("OnBuild") or ()),
        workdir=config.get("WorkingDir", ""),
        user=config.get("User", ""),
    )


__all__ = ["DockerEngine", "candidate_addresses", "classify", "find_engine"]
