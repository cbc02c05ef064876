"""An image of a registry as an archive: every part checked by its digest and written where it can do nothing."""

from __future__ import annotations

import io
import json
import os
import re
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from agentv_sandbox.archives.untrusted_tar import MAX_BYTES
from agentv_sandbox.models.json.untrusted import read_json
from agentv_sandbox.registry.client import (
    MOST_DOCUMENT_BYTES,
    RegistryClient,
    RegistryError,
)
from agentv_sandbox.registry.references import HUB, ImageReference

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_MOST_LAYERS = 200
_SPARE = 1 << 30
"""Of the disk, which nothing that is pulled may take."""
_MIRRORS = Path("/etc/docker/daemon.json")


def pulled_archive(
    reference: ImageReference,
    out: IO[bytes],
    *,
    architecture: str,
    timeout_s: float,
    cancelled: Callable[[], bool],
) -> str:
    """Write the image to ``out`` in the OCI layout, without a name; its digest in the registry. Mirrors are asked
    first. Raises RegistryError, Cancelled."""
    deadline = time.monotonic() + timeout_s
    for host in _mirrors(reference):
        try:
            with RegistryClient(
                reference=reference, deadline=deadline, cancelled=cancelled, host=host
            ) as client:
                return _Pull(client, out, architecture).run(reference.wanted)
        except RegistryError:
            out.seek(0)
            out.truncate()
    with RegistryClient(reference=reference, deadline=deadline, cancelled=cancelled) as client:
        return _Pull(client, out, architecture).run(reference.wanted)


def _mirrors(reference: ImageReference) -> Iterator[str]:
    """Of Docker Hub, as the daemon's own configuration of this machine names them."""
    if reference.registry != HUB:
        return
    try:
        names = json.loads(_MIRRORS.read_text(encoding="utf-8"))["registry-mirrors"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    for name in names if isinstance(names, list) else []:
        if isinstance(name, str) and name.startswith("https://"):
            yield name.removeprefix("https://").strip("/")


class _Pull:
    def __init__(self, client: RegistryClient, out: IO[bytes], architecture: str) -> None:
        self._client, self._out, self._architecture = client, out, architecture

    def run(self, wanted: str) -> str:
        raw, digest = self._client.manifest(wanted)
        manifest, own = self._document(raw), digest
        if isinstance(manifest.get("manifests"), list):
            own = self._of_this_machine(manifest["manifests"])
            raw, _ = self._client.manifest(own)
            manifest = self._document(raw)
        config, layers = self._parts(manifest)
        self._refuse_large([config, *layers])
        with tarfile.open(fileobj=self._out, mode="w", format=tarfile.GNU_FORMAT) as tar:
            descriptor = {
                "digest": own,
                "size": len(raw),
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
            }
            _add(tar, "index.json", json.dumps({"schemaVersion": 2, "manifests": [descriptor]}).encode())
            _add(tar, _path(own), raw)
            for part in {str(part["digest"]): part for part in [config, *layers]}.values():
                self._fetch(tar, part)
        return digest

    def _fetch(self, tar: tarfile.TarFile, part: Mapping[str, Any]) -> None:
        info = tarfile.TarInfo(_path(part["digest"]))
        info.size = part["size"]
        self._out.write(info.tobuf(tarfile.GNU_FORMAT))
        self._client.blob(part["digest"], part["size"], self._out)
        self._out.write(b"\0" * (-info.size % tarfile.BLOCKSIZE))
        tar.offset = self._out.tell()

    def _document(self, raw: bytes) -> Mapping[str, Any]:
        try:
            document = read_json(raw)
        except ValueError as error:
            raise RegistryError("the manifest cannot be read") from error
        if not isinstance(document, dict) or document.get("schemaVersion") != 2:
            raise RegistryError("the manifest is of a form that is not read here")
        return document

    def _of_this_machine(self, rows: list[Any]) -> str:
        for row in rows[:_MOST_LAYERS]:
            platform = row.get("platform") if isinstance(row, dict) else None
            if isinstance(platform, dict) and (platform.get("os"), platform.get("architecture")) == (
                "linux",
                self._architecture,
            ):
                return _digest(row)
        raise RegistryError(f"there is no image for linux/{self._architecture}")

    def _parts(self, manifest: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[Mapping[str, Any]]]:
        """Configuration and layers: digest and size of each."""
        layers = manifest.get("layers")
        if not isinstance(layers, list) or len(layers) > _MOST_LAYERS:
            raise RegistryError("the manifest names no layers, or too many")
        config, *rest = (_part(row) for row in [manifest.get("config"), *layers])
        if config["size"] > MOST_DOCUMENT_BYTES:
            raise RegistryError("the configuration is too large")
        return config, rest

    def _refuse_large(self, parts: list[Mapping[str, Any]]) -> None:
        total = sum(part["size"] for part in parts)
        known = os.fstatvfs(self._out.fileno())
        if total > MAX_BYTES or 2 * total + _SPARE > known.f_bavail * known.f_frsize:
            raise RegistryError(f"its layers take {total >> 20} MB, for which the disk has no room")


def _part(row: object) -> Mapping[str, Any]:
    size = row.get("size") if isinstance(row, dict) else None
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= MAX_BYTES:
        raise RegistryError("the manifest names a part without a size")
    return {"digest": _digest(row), "size": size}


def _digest(row: object) -> str:
    digest = row.get("digest") if isinstance(row, dict) else None
    if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
        raise RegistryError("the manifest names a part in an unknown way")
    return digest


def _path(digest: str) -> str:
    return f"blobs/sha256/{digest.removeprefix('sha256:')}"


def _add(tar: tarfile.TarFile, name: str, data: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))
