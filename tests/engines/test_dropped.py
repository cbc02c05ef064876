"""An engine whose socket drops for a while: a relay stands between, the engine behind it is the real one."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

import pytest

from agentv_sandbox.base.errors import EngineError
from agentv_sandbox.containers.policy import Role
from agentv_sandbox.containers.sandbox import Sandbox
from agentv_sandbox.containers.volumes import StagedFile
from agentv_sandbox.engines import LABEL_RUN
from agentv_sandbox.engines.docker.engine import DockerEngine
from agentv_sandbox.models.container import ContainerSpec, VolumeSpec
from tests.relay import Relay, relay_before

pytestmark = [pytest.mark.engine, pytest.mark.docker]


@pytest.fixture
def relay(engine: DockerEngine) -> Iterator[Relay]:
    with relay_before(engine.address) as made:
        yield made


@pytest.fixture
def behind(relay: Relay) -> DockerEngine:
    found = DockerEngine(relay.address, patience_s=20)
    found.ping()
    return found


@pytest.fixture
def box(behind: DockerEngine, tool_image: str) -> Iterator[Sandbox]:
    with Sandbox(behind, tool_image=tool_image) as made:
        yield made


def test_a_second_without_the_engine_ends_nothing_that_can_be_repeated(
    relay: Relay, box: Sandbox, tool_image: str
) -> None:
    engine = box.engine
    name = f"agentv-{box.run_id}-{os.urandom(4).hex()}"
    labels = {LABEL_RUN: box.run_id}
    calls: list[Callable[[], object]] = [
        engine.info,
        lambda: engine.image(tool_image),
        lambda: engine.create_volume(name, VolumeSpec(disk=True), labels=labels),
        lambda: engine.owned(labels),
        lambda: engine.remove_volume(name),
        lambda: box.run(Role.GRADER, ["true"], image=tool_image),
    ]
    for call in calls:
        timer = relay.away(1.0)
        call()
        timer.join()
    assert engine.owned(labels) == []


def test_files_are_put_again(relay: Relay, box: Sandbox, tool_image: str) -> None:
    with box.volumes(workspace=VolumeSpec(uid=0)) as volumes:
        relay.forget = b"PUT "
        volumes.put("workspace", (StagedFile(path=name, data=b"x") for name in ("a", "b")))
        mount = volumes.mount("workspace", "/workspace")
        seen = box.run(Role.GRADER, ["ls", "/workspace"], image=tool_image, mounts=[mount])
    assert seen.stdout == b"a\nb\n"
    assert sum(request.startswith(b"PUT ") for request in relay.requests) == 2


@pytest.mark.parametrize("lost", [b"/containers/create", b"/start HTTP", b"/attach", b"/wait", b"DELETE "])
def test_a_lost_answer_does_not_make_anything_twice(
    lost: bytes, relay: Relay, box: Sandbox, tool_image: str
) -> None:
    box.run(Role.GRADER, ["true"], image=tool_image)
    relay.requests.clear()
    relay.forget = lost
    result = box.run(Role.GRADER, ["echo", "once"], image=tool_image)
    assert relay.forget == b""
    assert (result.outcome, result.stdout) == ("exited" if lost != b"/wait" else "engine", b"once\n")
    for part in (b"/containers/create", b"/start HTTP"):
        assert sum(part in request for request in relay.requests) == 1, part
    assert box.engine.owned({LABEL_RUN: box.run_id}) == []


def test_a_stream_that_was_cut_is_not_taken_for_all_that_was_printed(
    relay: Relay, box: Sandbox, tool_image: str
) -> None:
    script = "echo 'all is well'; sleep 1.5; echo no; sleep 0.5"
    timers = []

    def drop(_data: bytes) -> None:
        timers.append(relay.away(3.0))

    result = box.run(Role.GRADER, ["sh", "-c", script], image=tool_image, on_output=drop)
    assert result.outcome == "engine"
    assert not result.ok
    for timer in timers:
        timer.join()


def test_an_engine_that_was_waited_for_in_vain_is_not_waited_for_again(relay: Relay, tool_image: str) -> None:
    patient = DockerEngine(relay.address, patience_s=6.0)
    patient.ping()
    relay.close()
    with pytest.raises(EngineError, match="went away"):
        patient.image(tool_image)
    started = time.monotonic()
    for _ in range(4):
        with pytest.raises(EngineError, match="went away"):
            patient.image(tool_image)
    assert time.monotonic() - started < 20
    relay.open()
    assert patient.image(tool_image) is not None
    relay.away(1.0).join()  # one that answered is waited for
    assert patient.image(tool_image) is not None


def test_patience_ends(relay: Relay, tool_image: str) -> None:
    impatient = DockerEngine(relay.address, patience_s=1.0)
    impatient.ping()
    relay.close()
    started = time.monotonic()
    with pytest.raises(EngineError, match="went away"):
        impatient.image(tool_image)
    with pytest.raises(EngineError, match="went away"):
        impatient.create(ContainerSpec(image=tool_image, argv=("true",), role="agent", user="1:1"))
    assert time.monotonic() - started < 30
    relay.open()
