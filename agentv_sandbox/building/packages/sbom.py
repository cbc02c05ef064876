"""A CycloneDX bill of materials of all environments of a lock file."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot5
from packageurl import PackageURL

from agentv_sandbox.building.lock import all_entries, sbom_path
from agentv_sandbox.models.image import Artefact, Resolution, content_key


def write_sbom(lock_path: Path) -> Path:
    """Write ``agentv-sandbox.cdx.json`` beside the lock file; the same lock gives the same file."""
    resolutions = list(all_entries(lock_path))
    bom = Bom()
    components: dict[str, Component] = {}
    for resolution in resolutions:
        for component in _components(resolution):
            components.setdefault(str(component.purl), component)
    for purl in sorted(components):
        bom.components.add(components[purl])
    bom.serial_number = uuid.uuid5(uuid.NAMESPACE_URL, content_key(sorted(components)))
    epochs = [int(resolution.base.get("epoch", "0")) for resolution in resolutions]
    bom.metadata.timestamp = datetime.fromtimestamp(max(epochs, default=0), UTC)
    path = sbom_path(lock_path)
    path.write_text(JsonV1Dot5(bom).output_as_string(indent=1) + "\n", encoding="utf-8")
    return path


def _components(resolution: Resolution) -> list[Component]:
    debian = [_component(deb, "deb", "debian") for deb in (*resolution.base_debs, *resolution.apt)]
    wheels = [_component(wheel, "pypi", None) for wheel in resolution.wheels]
    wheels += [_component(source.sdist, "pypi", None) for source in resolution.sources]
    npm = []
    for package in resolution.npm:
        scope, slash, name = package.name.rpartition("/")
        npm.append(_component(package, "npm", scope if slash else None, name=name))
    return [*debian, *wheels, *npm]


def _component(artefact: Artefact, kind: str, namespace: str | None, *, name: str = "") -> Component:
    qualifiers = {"arch": artefact.arch} if artefact.arch else None
    purl = PackageURL(kind, namespace, name or artefact.name, artefact.version, qualifiers)
    return Component(
        type=ComponentType.LIBRARY,
        name=artefact.name,
        version=artefact.version,
        purl=purl,
        bom_ref=str(purl),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=artefact.sha256)],
    )
