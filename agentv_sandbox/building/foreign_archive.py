"""The hash of an image's files, and archives made anew of layers that were checked."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from typing import IO

from agentv_sandbox.archives.own_image import add_bytes, clean_config, config_bytes
from agentv_sandbox.archives.untrusted_image import ImageEntry, Layers, plain_path
from agentv_sandbox.engines import Images


def tree_sha256(layers: Layers) -> str:
    """The hash of the merged files, as ``tree.py`` prints it inside a container."""
    with layers.merged() as (entries, opened):
        return _tree_sha256(entries, opened)


def tree_of(engine: Images, image: str) -> str:
    """The hash of an image's files, whatever the engine calls it: ids differ between engines and their stores."""
    with tempfile.TemporaryFile() as saved:
        for chunk in engine.save_image(image):
            saved.write(chunk)
        with Layers(saved) as layers:
            return tree_sha256(layers)


def repacked(layers: Layers, out: IO[bytes], *, tag: str, labels: Mapping[str, str]) -> None:
    """A new archive of these layers under one tag and a clean configuration."""
    config = clean_config(layers.architecture, labels, [layer.diff_id for layer in layers])
    _write(layers, out, config_bytes(config), [tag])


def as_saved(archive: IO[bytes], out: IO[bytes]) -> None:
    """The image of an archive in any layout in the one of ``docker save``, with the same id. Raises ArchiveError."""
    with Layers(archive) as layers:
        _write(layers, out, layers.config, layers.tags)


def _write(layers: Layers, out: IO[bytes], raw: bytes, tags: Sequence[str]) -> None:
    name = f"{hashlib.sha256(raw).hexdigest()}.json"
    names = []
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        add_bytes(tar, name, raw)
        for number, layer in enumerate(layers):
            info = tarfile.TarInfo(f"{number:03}-{layer.diff_id}/layer.tar")
            info.size = layer.data.seek(0, os.SEEK_END)
            layer.data.seek(0)
            tar.addfile(info, layer.data)
            names.append(info.name)
        manifest = [{"Config": name, "RepoTags": list(tags), "Layers": names}]
        add_bytes(tar, "manifest.json", json.dumps(manifest).encode())


# The engine's own, in every container, and what only a container has; tree.py leaves out the same.
_NOT_OF_THE_TREE = frozenset(
    [
        "proc",
        "sys",
        "dev",
        "mnt",
        "run",
        "tmp",
        ".dockerenv",
        "etc/hosts",
        "etc/hostname",
        "etc/resolv.conf",
        "etc/mtab",
    ]
)
_TYPES = {
    tarfile.DIRTYPE: stat.S_IFDIR,
    tarfile.SYMTYPE: stat.S_IFLNK,
    tarfile.CHRTYPE: stat.S_IFCHR,
    tarfile.BLKTYPE: stat.S_IFBLK,
    tarfile.FIFOTYPE: stat.S_IFIFO,
}


def _tree_sha256(entries: Mapping[str, ImageEntry], layers: Sequence[tarfile.TarFile]) -> str:
    rows = {os.fsencode(f"/{path}"): entry for path, entry in entries.items() if not _outside_tree(path)}
    contents = _Contents(layers)
    lines = (_tree_line(path, rows[path], contents) for path in sorted(rows))
    digest = hashlib.sha256()
    for number, line in enumerate(lines):
        digest.update(b"\n" * (number > 0) + line.encode())
    return digest.hexdigest()


def _outside_tree(path: str) -> bool:
    parts = path.split("/", 2)
    return any("/".join(parts[:depth]) in _NOT_OF_THE_TREE for depth in (1, 2))


class _Contents:
    """Hashes of files, each file read once however many hard links it has."""

    def __init__(self, layers: Sequence[tarfile.TarFile]) -> None:
        self._files = {
            id(layer): {plain_path(member.name): member for member in layer if member.isreg()}
            for layer in layers
        }
        self._known: dict[tuple[int, int], str] = {}

    def sha256(self, entry: ImageEntry) -> str:
        member = entry.member
        if member.islnk():
            member = self._files[id(entry.layer)][plain_path(member.linkname)]
        place = (id(entry.layer), member.offset_data)
        if place not in self._known:
            file = entry.layer.extractfile(member)
            self._known[place] = hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
        return self._known[place]


def _tree_line(path: bytes, entry: ImageEntry, contents: _Contents) -> str:
    member, detail = entry.member, ""
    if member.issym():
        detail = os.fsencode(member.linkname).decode("utf-8", "backslashreplace")
    elif member.isreg() or member.islnk():
        detail = contents.sha256(entry)
    mode = _TYPES.get(member.type, stat.S_IFREG) | (member.mode & 0o7777)
    mode = stat.S_IFLNK | 0o777 if member.issym() else mode
    name = path.decode("utf-8", "backslashreplace")
    return json.dumps([name, oct(mode), member.uid, member.gid, detail])
