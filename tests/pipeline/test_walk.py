"""The way of a file's content to a model is the one that ARCHITECTURE.md describes."""

from __future__ import annotations

import ast
import json
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest

import agentv_sandbox
from agentv_sandbox.graders.llm_grader import LlmGraderOptions
from agentv_sandbox.models.container import ExecResult
from agentv_sandbox.models.suite import GraderSpec, Target
from tests.fake_engine import FakeRun
from tests.llm.servers import Server, chat
from tests.pipeline.helpers import CLI, Bench, case, finished

PACKAGE = Path(agentv_sandbox.__file__).parent
CONTENT = "WHAT THE FILE HOLDS"


def described() -> list[tuple[str, str]]:
    """Places of the table: name and file."""
    text = (PACKAGE.parent / "ARCHITECTURE.md").read_text()
    section = text.split("## From a file to a prompt")[1].split("\n## ")[0]
    return re.findall(r"^\| `([\w.]+)` in `([\w./]+)` \|", section, re.MULTILINE)


@contextmanager
def entered(places: list[tuple[str, str]]) -> Iterator[list[tuple[str, str]]]:
    """Those of ``places`` that are entered, in the order of their first time, in whatever thread."""
    wanted = {(name, str(PACKAGE / path)): (name, path) for name, path in places}
    order: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _argument: object) -> None:
        place = wanted.get((frame.f_code.co_qualname, frame.f_code.co_filename))
        if event == "call" and place is not None and place not in order:
            order.append(place)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield order
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]


def agent(run: FakeRun) -> ExecResult:
    run.path("/workspace/a.txt").write_text(CONTENT)
    block = {"type": "file", "media_type": "text/plain", "path": "a.txt"}
    answer = {"output": [{"role": "assistant", "content": [block]}]}
    run.path("/output/response.json").write_text(json.dumps(answer))
    return finished()


def test_a_file_goes_to_the_model_by_the_places_of_the_table(tmp_path: Path) -> None:
    places = described()
    assert 5 < len(set(places)) == len(places) <= 10
    bench = Bench(tmp_path, {"agent": agent})
    judge = GraderSpec(type="llm-grader", name="judge", options=LlmGraderOptions(target="judge"))
    with Server([chat('{"score": 1, "assertions": []}')]) as server, entered(places) as order:
        model = Target(name="judge", provider="openai", settings={"base_url": server.url, "model": "m"})
        suite = bench.suite([case("t", assertions=(judge,))], targets={"agent": CLI, "judge": model})
        result = bench.run(suite)["t"]
    bench.engine.close()
    assert result.failure is None
    assert f"[[ file: a.txt ]]\n{CONTENT}\n" in server.asked[0].body["messages"][-1]["content"]
    assert order == places


WAYS = {
    "From a file to a prompt": 12,
    "From an agent's call to a model and back": 9,
    "From an answer to a score": 8,
    "From an option to what it does": 5,
}
"""Ways that ARCHITECTURE.md describes, and how many places each may have at most."""


@pytest.mark.parametrize(("way", "most"), WAYS.items())
def test_a_way_is_short_and_its_places_are_there(way: str, most: int) -> None:
    text = (PACKAGE.parent / "ARCHITECTURE.md").read_text()
    section = text.split(f"## {way}\n")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| `")]
    assert 0 < len(rows) <= most
    for name, path in re.findall(r"`([\w.]+)` in `([\w./]+\.py)`", section):
        names: list[ast.stmt] = ast.parse((PACKAGE / path).read_text()).body
        for part in name.split("."):
            found = [node for node in names if getattr(node, "name", None) == part]
            assert found, f"{name} is not in {path}"
            names = getattr(found[0], "body", [])
