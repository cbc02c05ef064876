"""Docker Engine, and Podman through the same API.

``engine``      what the other packages see: ``DockerEngine``
``client``      connections, and how long an engine that is away is waited for
``config``      ``ContainerSpec`` -> the engine's JSON; ``comparison``: what the engine made of it
``attach``      a container's streams over one socket
``memory``      why a container was ended, where its state does not say so
``images``      pulled and built; ``buildkit``: with BuildKit
``failure``     the client library's errors as ours
``addresses``   where engines may listen
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentv_sandbox.engines.docker.engine import DockerEngine

__all__ = ["DockerEngine"]


def __getattr__(name: str) -> object:
    """Imported when it is first used: a native run has no use for the client library, which takes long to load."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("agentv_sandbox.engines.docker.engine"), name)
