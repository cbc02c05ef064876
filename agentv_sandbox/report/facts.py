"""``run.json``: what a run was made of."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from agentv_sandbox import __version__
from agentv_sandbox.engines.tier import tier
from agentv_sandbox.models.image import Image
from agentv_sandbox.models.suite import Json, Suite
from agentv_sandbox.sandbox import Sandbox


def run_facts(
    sandbox: Sandbox, suites: Sequence[Suite], images: Mapping[Path, Image], options: Mapping[str, Json]
) -> dict[str, Json]:
    """What a run is made of: engine, isolation, images, command line. ``options``: what decided about grading."""
    info = sandbox.info
    return {
        "started": datetime.now(UTC).isoformat(),
        "argv": sys.argv,
        "version": __version__,
        "options": dict(options),
        "tier": asdict(tier(info, sandbox.runtime)),
        "engine": {
            "kind": info.kind,
            "version": info.version,
            "api": info.api_version,
            "runc": info.runc,
            "containerd": info.containerd,
            "kernel": info.kernel,
            "cgroup": info.cgroup_version,
            "runtime": sandbox.runtime or info.default_runtime,
            "userns": info.userns,
            "rootless": info.rootless,
            "seccomp": info.seccomp,
        },
        "images": [
            {
                "suite": str(suite.path),
                "id": image.id,
                "tag": image.tag,
                "key": image.key,
                "base": dict(image.base),
                "provides": dict(image.provides),
                "reused": image.reused,
            }
            for suite in suites
            for image in (images[suite.path],)
        ],
    }
