"""Fixtures for tests against a real engine. Without an engine those tests fail: they are never skipped.

Tests that share what takes long to make are of one ``xdist_group``: otherwise each worker makes it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from agentv_sandbox import masking
from agentv_sandbox.building import ensure_image
from agentv_sandbox.cli.inputs import cache_dir
from agentv_sandbox.engines import ContainerEngine
from agentv_sandbox.engines.table import find_engine
from agentv_sandbox.models.image import ImageConfig
from agentv_sandbox.pipeline.images import tool_plan
from agentv_sandbox.sandbox import Sandbox


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """End at once where tests of one group would run in several workers: they share images and processes, and what
    fails then has nothing to do with its cause. A version of pytest has broken it without a word."""
    if not getattr(config.option, "loadgroup", False):  # the name under which xdist tells its workers
        return
    for item in items:
        if item.get_closest_marker("xdist_group") is not None and "@" not in item.nodeid.rpartition("]")[2]:
            raise pytest.UsageError(f"{item.nodeid} leaves its group: pytest-xdist and pytest do not fit")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests marked ``every_engine`` run on each kind of engine, those marked ``docker`` or ``native`` on that one;
    others on the one that the environment chooses."""
    kinds = {"every_engine": ["docker", "native"], "docker": ["docker"], "native": ["native"]}
    for mark, engines in kinds.items():
        if "engine" in metafunc.fixturenames and metafunc.definition.get_closest_marker(mark):
            metafunc.parametrize("engine", engines, indirect=True, scope="session")


@pytest.fixture(autouse=True)
def _secrets_end() -> Iterator[None]:
    """Those of one test are none of the next."""
    yield
    masking.forget()


@pytest.fixture(scope="session")
def engine(request: pytest.FixtureRequest) -> ContainerEngine:
    return find_engine(os.environ, getattr(request, "param", None))


@pytest.fixture(scope="session")
def tool_image(engine: ContainerEngine) -> str:
    """The trusted image in which collectors and volume holders run; made on first use, kept by the engine."""
    image = ensure_image(
        engine,
        tool_plan(ImageConfig()),
        cache_dir=cache_dir(),
        on_event=lambda _event, _keys: None,
        cancelled=lambda: False,
    )
    return image.id


@pytest.fixture
def sandbox(engine: ContainerEngine, tool_image: str) -> Iterator[Sandbox]:
    with Sandbox(engine, tool_image=tool_image) as box:
        yield box
