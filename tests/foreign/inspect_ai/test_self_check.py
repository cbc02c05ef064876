"""Inspect's own checks of a sandbox: all of them natively; on Docker a box's system is read-only."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from inspect_ai.util import SandboxEnvironment
from inspect_ai.util._sandbox.self_check import *  # noqa: F403

from agentv_sandbox.plugins.inspect_sandbox import AgentvSandboxEnvironment, BoxConfig

_NOT_THERE = {"docker": {"test_exec_as_user": "adds a user, and /etc cannot be written"}}


@pytest.fixture(scope="module")
async def box(kind: str) -> AsyncIterator[SandboxEnvironment]:
    config = BoxConfig(user="1000" if kind == "native" else None)
    boxes = await AgentvSandboxEnvironment.sample_init("checks", config, {})
    yield boxes["default"]
    await AgentvSandboxEnvironment.sample_cleanup("checks", config, boxes, False)


@pytest.fixture
async def sandbox_env(
    box: SandboxEnvironment, kind: str, request: pytest.FixtureRequest
) -> SandboxEnvironment:
    if reason := _NOT_THERE.get(kind, {}).get(request.node.originalname):
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
    return box
