"""``ImagePlan`` -> ``Image``: base, artefacts, installation, proof. Cached by content."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

from agentv_sandbox.build.apt import resolve_apt
from agentv_sandbox.build.base import Base, bootstrapped_base, local_base
from agentv_sandbox.build.containers import Builder
from agentv_sandbox.build.credentials import Credentials
from agentv_sandbox.build.events import CancelCheck, OnEvent, sentence, stop_if
from agentv_sandbox.build.fetch import Cache
from agentv_sandbox.build.install import install
from agentv_sandbox.build.mirror import Index, load_index, sources
from agentv_sandbox.build.npm import npm_tokens, resolve_npm, split_version
from agentv_sandbox.build.pipconf import PipSettings, read_pip_settings
from agentv_sandbox.build.verify import preflight_message, verify
from agentv_sandbox.build.wheels import Platform, resolve_wheels
from agentv_sandbox.engines import LABEL_ENV_KEY, ContainerEngine
from agentv_sandbox.models.image import Image, ImagePlan, Resolution

_SUITES = {"trixie": ((3, 13), (2, 41)), "bookworm": ((3, 11), (2, 36))}


def ensure_image(
    engine: ContainerEngine, plan: ImagePlan, *, cache_dir: Path, on_event: OnEvent, cancelled: CancelCheck
) -> Image:
    """The image for ``plan``: the one that exists, or a new one. Concurrent callers build once."""
    if image := _existing(engine, plan):
        on_event("image.reused", {"tag": image.tag})
        return image
    with _only_one(cache_dir, plan.key, on_event, cancelled):
        if image := _existing(engine, plan):
            on_event("image.reused", {"tag": image.tag})
            return image
        return _build(engine, plan, cache_dir=cache_dir, on_event=on_event, cancelled=cancelled)


def _tag(plan: ImagePlan) -> str:
    return f"agentv-env:{plan.key[:16]}"


def _existing(engine: ContainerEngine, plan: ImagePlan) -> Image | None:
    info = engine.image(_tag(plan))
    if info is None or info.labels.get(LABEL_ENV_KEY) != plan.key:
        return None
    return Image(
        id=info.id, tag=_tag(plan), key=plan.key, provides=plan.provides, volumes=info.volumes, reused=True
    )


def _build(
    engine: ContainerEngine, plan: ImagePlan, *, cache_dir: Path, on_event: OnEvent, cancelled: CancelCheck
) -> Image:
    started = time.monotonic()
    settings = read_pip_settings()
    urls = [*settings.urls, *(source.url for source in sources(plan.config))]
    cache = Cache(
        cache_dir, Credentials(urls, tokens=npm_tokens(os.environ)), on_event=on_event, cancelled=cancelled
    )
    with Builder(engine, plan.config, cancelled=cancelled) as builder:
        index: Index | None = None
        base = local_base(builder, plan, on_event=on_event)
        if base is None or plan.apt or base.facts["kind"] == "image":
            index = load_index(cache, plan.config, architecture=builder.architecture, on_event=on_event)
        if base is None:
            assert index is not None
            base = bootstrapped_base(builder, cache, plan, index, on_event=on_event)
        stop_if(cancelled)
        resolution = _resolve(builder, base, plan, index, cache, settings)
        on_event(
            "resolve.done",
            {"apt": len(resolution.apt), "wheels": len(resolution.wheels), "npm": len(resolution.npm),
             "seconds": round(time.monotonic() - started, 1)},
        )  # fmt: skip
        for what in ("apt", "wheels", "npm", "tools"):
            cache.ensure(getattr(resolution, what), what=what)
        stop_if(cancelled)
        labels = {LABEL_ENV_KEY: plan.key}
        image_id = install(
            builder, cache, base, resolution, tag=_tag(plan), labels=labels, tools=cache_dir / "tools"
        )
    cache.close()
    info = engine.image(image_id)
    size = info.size_bytes if info else 0
    on_event(
        "image.ready", {"tag": _tag(plan), "bytes": size, "seconds": round(time.monotonic() - started, 1)}
    )
    return Image(id=image_id, tag=_tag(plan), key=plan.key, provides=plan.provides, base=base.facts)


def _resolve(
    builder: Builder, base: Base, plan: ImagePlan, index: Index | None, cache: Cache, settings: PipSettings
) -> Resolution:
    apt = list(plan.apt)
    if base.facts["kind"] == "image":
        apt += ["python3", "ca-certificates"]
    debs = resolve_apt(builder, base.ref, index, apt) if index is not None else ()
    python, glibc = _SUITES[plan.suite]
    platform = Platform(architecture=builder.architecture, python=python, glibc=glibc)
    wheels = resolve_wheels(plan.pip, platform, plan.config, settings)
    tools = resolve_wheels([f"uv=={version('uv')}"], platform, plan.config, settings) if wheels else ()
    npm = resolve_npm(plan.npm, architecture=builder.architecture, cache=cache, settings=settings)
    roots = tuple(sorted(split_version(name)[0] for name in plan.npm))
    return Resolution(
        base=base.facts, apt=debs, wheels=wheels, npm=npm, npm_roots=roots, tools=tools, links=plan.links
    )


@contextmanager
def _only_one(cache_dir: Path, key: str, on_event: OnEvent, cancelled: CancelCheck) -> Iterator[None]:
    """Hold the file lock of ``key``; the system frees it when a process dies."""
    folder = cache_dir / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / key[:32], os.O_RDWR | os.O_CREAT, 0o600)
    try:
        waiting = False
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not waiting:
                    on_event("image.waiting", {})
                    waiting = True
                stop_if(cancelled)
                time.sleep(0.2)
        yield
    finally:
        os.close(descriptor)


__all__ = ["ensure_image", "preflight_message", "sentence", "verify"]
