"""What an image archive of ours says: a configuration that is the same whenever and wherever the image was made."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Mapping, Sequence

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def clean_config(
    architecture: str,
    labels: Mapping[str, str],
    diff_ids: Sequence[str],
    env: Sequence[str] = (f"PATH={PATH}",),
) -> dict[str, object]:
    epoch = "1970-01-01T00:00:00Z"
    return {
        "architecture": architecture,
        "os": "linux",
        "created": epoch,
        "config": {"Env": list(env), "Cmd": ["/bin/sh"], "WorkingDir": "/", "Labels": dict(labels)},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{diff_id}" for diff_id in diff_ids]},
        "history": [{"created": epoch, "created_by": "agentv-sandbox"} for _ in diff_ids],
    }


def config_bytes(config: Mapping[str, object]) -> bytes:
    """The configuration as it is stored; the hash of these bytes is the id of the image."""
    return json.dumps(config, sort_keys=True, separators=(",", ":")).encode()


def add_bytes(tar: tarfile.TarFile, name: str, data: bytes, *, mode: int = 0o644, mtime: int = 0) -> None:
    """One regular file, owned by root."""
    info = tarfile.TarInfo(name)
    info.size, info.mode, info.mtime = len(data), mode, mtime
    tar.addfile(info, io.BytesIO(data))
