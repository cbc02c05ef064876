"""Image archives for tests, well-made and hostile."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from typing import Any

Row = tuple[str, bytes | str]
"""A path and a file's content, or ``dir``, ``-> TARGET``, ``=> HARD LINK``, ``fifo``, ``device``."""


def member(path: str, what: bytes | str, **fields: Any) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(path)
    info.mode, info.mtime = 0o644, 1_000_000
    data = what if isinstance(what, bytes) else b""
    info.size = len(data)
    if isinstance(what, str):
        kind, _, info.linkname = what.partition(" ")
        kinds = {
            "dir": tarfile.DIRTYPE,
            "->": tarfile.SYMTYPE,
            "=>": tarfile.LNKTYPE,
            "fifo": tarfile.FIFOTYPE,
            "device": tarfile.CHRTYPE,
        }
        info.type = kinds[kind]
        info.mode = {"dir": 0o755, "->": 0o777}.get(kind, 0o644)
    for name, value in fields.items():
        setattr(info, name, value)
    return info, data


def layer(*rows: Row | tuple[tarfile.TarInfo, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for first, second in rows:
            if isinstance(first, tarfile.TarInfo):
                info, data = first, second
            else:
                info, data = member(first, second)
            assert isinstance(data, bytes)
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def image(
    *layers: bytes,
    tags: Sequence[str] | None = ("one:1",),
    config: Mapping[str, Any] | None = None,
    diff_ids: Sequence[str] | None = None,
) -> io.BytesIO:
    digests = diff_ids or [f"sha256:{hashlib.sha256(data).hexdigest()}" for data in layers]
    document = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": ["PATH=/bin", "COLOUR=red"], "Labels": {"kind": "test"}, **(config or {})},
        "rootfs": {"type": "layers", "diff_ids": list(digests)},
        "history": [{"created": "1970-01-01T00:00:00Z"} for _ in layers],
    }
    raw = json.dumps(document).encode()
    name = f"{hashlib.sha256(raw).hexdigest()}.json"
    names = [f"{number}/layer.tar" for number in range(len(layers))]
    manifest = [{"Config": name, "RepoTags": list(tags) if tags is not None else None, "Layers": names}]
    rows = [(name, raw), ("manifest.json", json.dumps(manifest).encode()), *zip(names, layers, strict=True)]
    return io.BytesIO(layer(*rows))
