"""Image archives (the ``docker save`` layout): write one with a fixed id, flatten one that an engine saved.

The id of an image is the hash of its config; with a fixed config and a normalised layer the same content has
the same id everywhere and always.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_CHUNK = 1 << 20


def write_archive(
    out: IO[bytes], layer: Path, *, tag: str, labels: Mapping[str, str], architecture: str
) -> str:
    """An archive of one layer with a clean config; returns the image id."""
    with layer.open("rb") as file:
        diff_id = hashlib.file_digest(file, "sha256").hexdigest()
    config = {
        "architecture": architecture,
        "os": "linux",
        "created": "1970-01-01T00:00:00Z",
        "config": {"Env": [f"PATH={PATH}"], "Cmd": ["/bin/sh"], "WorkingDir": "/", "Labels": dict(labels)},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{diff_id}"]},
        "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "agentv-sandbox"}],
    }
    raw = json.dumps(config, sort_keys=True, separators=(",", ":")).encode()
    image_id = hashlib.sha256(raw).hexdigest()
    manifest = [{"Config": f"{image_id}.json", "RepoTags": [tag], "Layers": [f"{diff_id}/layer.tar"]}]
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        add_bytes(tar, f"{image_id}.json", raw)
        info = tarfile.TarInfo(f"{diff_id}/layer.tar")
        info.size = layer.stat().st_size
        with layer.open("rb") as file:
            tar.addfile(info, file)
        add_bytes(tar, "manifest.json", json.dumps(manifest).encode())
    return f"sha256:{image_id}"


def add_bytes(tar: tarfile.TarFile, name: str, data: bytes, *, mode: int = 0o644, mtime: int = 0) -> None:
    """One regular file, owned by root."""
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = len(data), mode, mtime
    tar.addfile(info, io.BytesIO(data))


@dataclass(frozen=True)
class _Entry:
    layer: tarfile.TarFile
    member: tarfile.TarInfo


def flatten(saved: IO[bytes], out: Path, *, mtime: int, leave_out: Callable[[str], bool]) -> dict[str, Any]:
    """Merge all layers of a saved image into one normalised layer tar; returns the image's config.

    Entries are sorted, times clamped to ``mtime`` (seconds), and paths for which ``leave_out`` is true dropped.
    """
    with tarfile.open(fileobj=saved) as archive:
        manifest = json.loads(_read(archive, "manifest.json"))[0]
        config: dict[str, Any] = json.loads(_read(archive, manifest["Config"]))
        entries: dict[str, _Entry] = {}
        layers = []
        for name in manifest["Layers"]:
            layer = tarfile.open(fileobj=archive.extractfile(name))  # noqa: SIM115 - closed below
            layers.append(layer)
            _apply(layer, entries)
        try:
            with tarfile.open(out, "w", format=tarfile.GNU_FORMAT) as tar:
                _write_sorted(tar, entries, mtime=mtime, leave_out=leave_out)
        finally:
            for layer in layers:
                layer.close()
    return config


def reconfigured(
    saved: IO[bytes], out: IO[bytes], *, tag: str, drop_env: frozenset[str], labels: Mapping[str, str]
) -> None:
    """The same layers under a configuration without volumes, entry point, health check and triggers."""
    with tarfile.open(fileobj=saved) as archive, tarfile.open(fileobj=out, mode="w") as tar:
        manifest = json.loads(_read(archive, "manifest.json"))[0]
        config: dict[str, Any] = json.loads(_read(archive, manifest["Config"]))
        env = [e for e in config.get("config", {}).get("Env") or () if e.partition("=")[0] not in drop_env]
        config["config"] = {"Env": env, "Cmd": ["/bin/sh"], "WorkingDir": "/", "Labels": dict(labels)}
        config.pop("container_config", None)
        raw = json.dumps(config, sort_keys=True).encode()
        name = f"{hashlib.sha256(raw).hexdigest()}.json"
        add_bytes(tar, name, raw)
        for layer in dict.fromkeys(manifest["Layers"]):
            member = archive.getmember(layer)
            while member.issym() or member.islnk():  # equal layers may be links to the first
                folder = layer.rpartition("/")[0]
                target = (
                    member.linkname if member.islnk() else os.path.normpath(f"{folder}/{member.linkname}")
                )
                member = archive.getmember(target)
            info = tarfile.TarInfo(layer)
            info.size = member.size
            tar.addfile(info, archive.extractfile(member))
        new = [{"Config": name, "RepoTags": [tag], "Layers": manifest["Layers"]}]
        add_bytes(tar, "manifest.json", json.dumps(new).encode())


def _read(archive: tarfile.TarFile, name: str) -> bytes:
    file = archive.extractfile(name)
    if file is None:
        raise ValueError(f"the archive has no {name}")
    return file.read()


def _apply(layer: tarfile.TarFile, entries: dict[str, _Entry]) -> None:
    """Lay one layer over what is there, whiteouts included."""
    own: set[str] = set()
    for member in layer:
        path = member.name.removeprefix("./").strip("/")
        parent, _, base = path.rpartition("/")
        if base == ".wh..wh..opq":
            _drop_below(entries, parent, keep=own)
        elif base.startswith(".wh."):
            gone = f"{parent}/{base[4:]}".lstrip("/")
            entries.pop(gone, None)
            _drop_below(entries, gone, keep=own)
        elif path not in ("", "."):
            if path in entries and not member.isdir():
                _drop_below(entries, path, keep=own)
            entries[path] = _Entry(layer, member)
            own.add(path)


def _drop_below(entries: dict[str, _Entry], path: str, *, keep: set[str]) -> None:
    prefix = f"{path}/" if path else ""
    for name in [name for name in entries if name.startswith(prefix) and name not in keep]:
        del entries[name]


def _write_sorted(
    tar: tarfile.TarFile, entries: Mapping[str, _Entry], *, mtime: int, leave_out: Callable[[str], bool]
) -> None:
    links = []
    for path in sorted(entries):
        if leave_out(path):
            continue
        entry = entries[path]
        if entry.member.islnk():
            links.append(path)
        else:
            _write(tar, path, entry.member, entry.layer, mtime)
    # A hard link must follow its target; one whose target another layer replaced becomes a file of its own.
    for path in links:
        entry = entries[path]
        target = entry.member.linkname.removeprefix("./").strip("/")
        other = entries.get(target)
        if other is not None and other.layer is entry.layer and not leave_out(target):
            info = _normal(entry.member, path, mtime)
            info.linkname = target
            tar.addfile(info)
        else:
            _write(tar, path, entry.layer.getmember(entry.member.linkname), entry.layer, mtime)


def _write(
    tar: tarfile.TarFile, path: str, member: tarfile.TarInfo, layer: tarfile.TarFile, mtime: int
) -> None:
    info = _normal(member, path, mtime)
    tar.addfile(info, layer.extractfile(member) if member.isreg() else None)


def _normal(member: tarfile.TarInfo, path: str, mtime: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(path)
    info.type, info.mode, info.size = member.type, member.mode, member.size if member.isreg() else 0
    info.uid, info.gid, info.linkname = member.uid, member.gid, member.linkname
    info.devmajor, info.devminor = member.devmajor, member.devminor
    info.mtime = min(int(member.mtime), mtime)
    return info
