"""Images from registries: the reading half of the OCI distribution protocol.

By `httpx`, which asks package indexes, too, and Docker's own library for logins. `skopeo` is on few machines and
writes what it fetches itself, and the `oras` of PyPI waits without a limit: neither can be bounded in bytes from here.
"""

from agentv_sandbox.registry.client import RegistryError
from agentv_sandbox.registry.pulling import pulled_archive
from agentv_sandbox.registry.references import ImageReference, parse_reference

__all__ = ["ImageReference", "RegistryError", "parse_reference", "pulled_archive"]
